//go:build interop

package main_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// restingKiB is the memory limit of an idle gateway. The pages of the program file do not count:
// their residency depends on the page cache of the machine.
const restingKiB = 16 << 10

// The test builds the program as shipped, because the test binary contains the tests and possibly
// the race detector.
func TestIdleGatewayNeedsLittleMemory(t *testing.T) {
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
