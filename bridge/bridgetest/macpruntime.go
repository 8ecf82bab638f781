package bridgetest

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// MACPToken is one token of a [MACPRuntime].
type MACPToken struct {
	Token  string   `json:"token"`
	Sender string   `json:"sender"`
	Modes  []string `json:"allowed_modes,omitempty"` // none for all
	Starts bool     `json:"can_start_sessions"`
}

// MACPRuntime is the reference runtime of the protocol, built by .ci/run install full.
type MACPRuntime struct {
	cmd *exec.Cmd
	log *os.File
}

// RunMACPRuntime runs a runtime at an address, with its files in a folder, and returns once it
// listens. The caller stops it.
func RunMACPRuntime(ctx context.Context, address, folder string, tokens ...MACPToken) (*MACPRuntime, error) {
	text, err := json.Marshal(map[string]any{"tokens": tokens})
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(folder, "log")) //nolint:gosec // the test names the folder
	if err != nil {
		return nil, err
	}
	binary := filepath.Join(os.Getenv("BATON_CLIENTS"), "macp", "bin", "macp-runtime")
	r := &MACPRuntime{cmd: exec.CommandContext(context.WithoutCancel(ctx), binary), log: log} //nolint:gosec // the test names the folder of clients
	r.cmd.Env = append(os.Environ(),
		"MACP_ALLOW_INSECURE=1", "MACP_AUTH_TOKENS_JSON="+string(text), "MACP_BIND_ADDR="+address, "MACP_MEMORY_ONLY=1", "MACP_DATA_DIR="+folder)
	r.cmd.Dir, r.cmd.SysProcAttr, r.cmd.Stdout, r.cmd.Stderr = folder, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, log, log
	if err := r.cmd.Start(); err != nil {
		_ = log.Close() // nothing was written
		return nil, err
	}
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return r, conn.Close()
		}
		select {
		case <-ctx.Done():
			r.Stop()
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Stop ends the runtime.
func (r *MACPRuntime) Stop() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait() // killed
	_ = r.log.Close()
}
