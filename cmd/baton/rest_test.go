package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// restingKiB is what a gateway that nobody uses may hold of the machine's memory.
const restingKiB = 40 << 10

// The program is built as it ships: this binary has the tests in it, and may have the
// race detector.
func TestAGatewayAtRestHoldsLittleMemory(t *testing.T) {
	h := newHouse(t)
	h.binary = filepath.Join(t.TempDir(), "baton")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", h.binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	h.start(t)
	h.ready(t)
	resident := residentKiB(t, h)
	t.Logf("a fresh gateway holds %.1f MiB", float64(resident)/1024)
	if resident > restingKiB {
		t.Errorf("a fresh gateway holds %d KiB, want at most %d", resident, restingKiB)
	}
}

// residentKiB returns what the gateway holds now.
func residentKiB(t *testing.T, h *house) (resident int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.process.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(status), "VmRSS:")
	if _, err := fmt.Sscanf(after, "%d kB", &resident); !found || err != nil {
		t.Fatalf("no VmRSS in %s", status)
	}
	return resident
}
