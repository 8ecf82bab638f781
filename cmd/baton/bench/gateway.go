package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"baton/federation"
)

const (
	home    = "gw.bench.example"
	channel = "#bench"
	// patience bounds what takes milliseconds on an idle machine.
	patience = 30 * time.Second
	// lookEach is how often what is awaited is looked at.
	lookEach = time.Millisecond
)

// unlimited lets each caller do as much as it likes: all of them have one address.
const unlimited = `[limits]
did_events_per_minute = 0
user_events_per_minute = 0
registrations_per_hour = 0
open_handoffs_per_did = 0
inbox_events = 0
inbox_bytes = 0
inbox_events_per_sender = 0
inbox_bytes_per_sender = 0
connections_per_address = 0
http_connections_per_address = 0
logins_per_minute = 0
address_events_per_minute = 0
new_dids_per_hour = 0
new_dids_per_address_per_hour = 0
record_bytes_per_hour = 0
`

// gateway is a gateway in a process of its own.
type gateway struct {
	program, config    string
	public, admin, irc string // addresses
	process            *exec.Cmd
}

// openGateway starts a gateway with an empty record in a folder. Close it.
func (r *run) openGateway(ctx context.Context, name string) (*gateway, error) {
	dir, err := r.folder(name)
	if err != nil {
		return nil, err
	}
	g := &gateway{program: r.program, config: filepath.Join(dir, "baton.toml")}
	for _, address := range []*string{&g.public, &g.admin, &g.irc} {
		if *address, err = freeAddress(ctx); err != nil {
			return nil, err
		}
	}
	text := fmt.Sprintf(`[home]
name = %q
[http]
listen = %q
public_url = "http://%[2]s"
[admin]
listen = %[3]q
[log]
level = "error"
[irc.client]
listen = %[4]q
channels = [%[5]q]
%[6]s`, home, g.public, g.admin, g.irc, channel, unlimited)
	err = errors.Join(os.WriteFile(g.config, []byte(text), 0o600), os.Mkdir(filepath.Join(dir, "data"), 0o700))
	if err != nil {
		return nil, err
	}
	if err := g.start(ctx); err != nil {
		return nil, err
	}
	return g, g.awaitReady(ctx)
}

// freeAddress returns an address of the loopback that is free now.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// start starts the process. The end of ctx ends it.
func (g *gateway) start(ctx context.Context) error {
	g.process = exec.CommandContext(ctx, g.program, "serve", "--config", g.config) //nolint:gosec // the program is this one
	g.process.Stderr = os.Stderr
	if err := g.process.Start(); err != nil {
		return fmt.Errorf("start gateway: %w", err)
	}
	return nil
}

// awaitReady waits until /readyz says yes.
func (g *gateway) awaitReady(ctx context.Context) error {
	return await(ctx, "the gateway to be ready", func() bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.admin+"/readyz", nil)
		if err != nil {
			return false
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
}

// await looks again and again until the answer is yes.
func await(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &federation.UnavailableError{What: what, Err: context.Cause(ctx)}
		}
	}
	return nil
}

// kill ends the process as a crash would.
func (g *gateway) kill() error {
	err := g.process.Process.Kill()
	_ = g.process.Wait() // its error is that it was killed
	return err
}

// worked returns how long the cores worked for the process, which has ended.
func (g *gateway) worked() time.Duration {
	return g.process.ProcessState.UserTime() + g.process.ProcessState.SystemTime()
}

// Close ends the process.
func (g *gateway) Close() error {
	if g.process.ProcessState != nil {
		return nil
	}
	return g.kill()
}

// resident returns the memory of the process in MiB, or false on a system that does not tell.
func (g *gateway) resident() (float64, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(g.process.Process.Pid) + "/status")
	if err != nil {
		return 0, false
	}
	_, after, found := strings.Cut(string(text), "\nVmRSS:")
	words := strings.Fields(after)
	if !found || len(words) == 0 {
		return 0, false
	}
	size, err := strconv.ParseFloat(words[0], 64)
	return size / kib, err == nil
}
