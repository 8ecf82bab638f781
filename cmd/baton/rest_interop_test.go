//go:build interop

package main_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// restingKiB is the memory that an idle gateway may hold. The pages of the program itself do
// not count: how many of them are resident depends on the other caches of the machine, which
// takes them back at any time.
const restingKiB = 16 << 10

// The program is built as it ships: this binary has the tests in it, and may have the
// race detector.
func TestAGatewayAtRestHoldsLittleMemory(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.binary = filepath.Join(t.TempDir(), "baton")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", h.binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	h.start(t)
	h.ready(t)
	held := memoryKiB(t, h.process.Process.Pid, "RssAnon")
	t.Logf("a fresh gateway holds %.1f MiB, and %.1f MiB with its program", float64(held)/1024, float64(memoryKiB(t, h.process.Process.Pid, "VmRSS"))/1024)
	if held > restingKiB {
		t.Errorf("a fresh gateway holds %d KiB, want at most %d", held, restingKiB)
	}
}
