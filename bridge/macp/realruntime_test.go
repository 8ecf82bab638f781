//go:build long

package macp_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"baton/federation/federationtest"
)

// TestAGuestOfARealRuntime plays against the runtime of the authors of the protocol, which
// .ci/run installs.
func TestAGuestOfARealRuntime(t *testing.T) {
	t.Parallel()
	takesPart(t, realRuntime(t), token)
}

// realToken is one token of the configuration of the runtime.
type realToken struct {
	Token  string   `json:"token"`
	Sender string   `json:"sender"`
	Modes  []string `json:"allowed_modes,omitempty"` // none for all
	Starts bool     `json:"can_start_sessions"`
}

// realRuntime runs the runtime and returns its address. The participants are bob, and baton, which
// may use the given modes alone; none for all.
func realRuntime(t *testing.T, modes ...string) string {
	t.Helper()
	tokens, err := json.Marshal(map[string]any{"tokens": []realToken{
		{Token: token("bob"), Sender: "bob", Starts: true}, {Token: token("baton"), Sender: "baton", Modes: modes, Starts: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(os.Getenv("BATON_CLIENTS"), "macp", "bin", "macp-runtime")
	address := federationtest.FreeAddr(t)
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), "MACP_ALLOW_INSECURE=1", "MACP_AUTH_TOKENS_JSON="+string(tokens), "MACP_BIND_ADDR="+address, "MACP_MEMORY_ONLY=1", "MACP_DATA_DIR="+t.TempDir())
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
	return address
}
