//go:build long

package macp_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"baton/federation/federationtest"
)

// TestAGuestOfARealRuntime plays against the runtime of the authors of the protocol, which
// .ci/run installs. Without credentials of its own it takes each token for the name of its sender.
func TestAGuestOfARealRuntime(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(os.Getenv("BATON_CLIENTS"), "macp", "bin", "macp-runtime")
	address := federationtest.FreeAddr(t)
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), "MACP_ALLOW_INSECURE=1", "MACP_BIND_ADDR="+address, "MACP_MEMORY_ONLY=1", "MACP_DATA_DIR="+t.TempDir())
	cmd.Dir, cmd.SysProcAttr = t.TempDir(), &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: run .ci/run install full", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	await(t, "the runtime to listen", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	takesPart(t, address, func(name string) string { return name })
}
