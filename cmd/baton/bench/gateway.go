package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/federation"
)

const (
	homeName = "gw.bench.example"
	channel  = "#bench"
	patience = time.Minute
	lookEach = time.Millisecond
)

// unlimited removes the limits, because all callers share one address.
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

type gateway struct {
	name               string
	program, dir       string
	public, admin, irc string
	process            *exec.Cmd
	ended              chan struct{}
}

// openGateway starts a gateway with an empty record in a folder. The caller closes it.
func (r *run) openGateway(ctx context.Context, folder string) (*gateway, error) {
	g, err := r.newGateway(ctx, folder, homeName)
	if err != nil {
		return nil, err
	}
	return g, g.open(ctx)
}

func (r *run) newGateway(ctx context.Context, folder, name string) (*gateway, error) {
	dir, err := r.folder(folder)
	if err != nil {
		return nil, err
	}
	g := &gateway{name: name, program: r.program, dir: dir}
	for _, address := range []*string{&g.public, &g.admin, &g.irc} {
		if *address, err = freeAddress(ctx); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *gateway) open(ctx context.Context, peers ...*gateway) error {
	var text strings.Builder
	fmt.Fprintf(&text, `[home]
name = %q
[http]
listen = %q
public_url = "http://%[2]s"
[admin]
listen = %[3]q
[log]
level = "error"
[fetch]
allow_private = true
[irc.client]
listen = %[4]q
channels = [%[5]q]
%[6]s`, g.name, g.public, g.admin, g.irc, channel, unlimited)
	for _, peer := range peers {
		fmt.Fprintf(&text, "[[peers]]\nname = %q\ndid = \"did:web:%[1]s\"\nurl = \"http://%s\"\n", peer.name, peer.public)
	}
	err := errors.Join(os.WriteFile(g.config(), []byte(text.String()), 0o600), os.Mkdir(g.data(), 0o700))
	if err != nil {
		return err
	}
	if err := g.start(ctx); err != nil {
		return err
	}
	if err := g.awaitReady(ctx); err != nil {
		return errors.Join(err, g.Close())
	}
	return nil
}

func (g *gateway) config() string { return filepath.Join(g.dir, "baton.toml") }

func (g *gateway) data() string { return filepath.Join(g.dir, "data") }

func (g *gateway) operator() *client.Client {
	return client.NewSocket(filepath.Join(g.data(), "baton.sock"))
}

// The range of ports below the ephemeral ranges of Linux, macOS and Windows.
const (
	firstPort = 20000
	lastPort  = 32000
)

func freeAddress(ctx context.Context) (string, error) {
	for {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort))) //nolint:gosec // a port is no secret
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		switch {
		case err == nil:
			return address, listener.Close()
		case !errors.Is(err, syscall.EADDRINUSE):
			return "", err
		}
	}
}

func (g *gateway) start(ctx context.Context) error {
	g.process = exec.CommandContext(ctx, g.program, "serve", "--config", g.config()) //nolint:gosec // the program is this one
	g.process.Stderr = os.Stderr
	if err := g.process.Start(); err != nil {
		return fmt.Errorf("start gateway: %w", err)
	}
	g.ended = make(chan struct{})
	go func() {
		_ = g.process.Wait() // the error is the kill, or is in the log of the process
		close(g.ended)
	}()
	return nil
}

func (g *gateway) hasEnded() bool {
	select {
	case <-g.ended:
		return true
	default:
		return false
	}
}

// awaitReady returns an error at once if the process has ended.
func (g *gateway) awaitReady(ctx context.Context) error {
	err := await(ctx, "the gateway to be ready", func() bool {
		if g.hasEnded() {
			return true
		}
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
	if g.hasEnded() {
		return errors.New("the gateway ended: its log is above")
	}
	return err
}

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

func (g *gateway) kill() error {
	err := g.process.Process.Kill()
	<-g.ended
	return err
}

func (g *gateway) worked() time.Duration {
	return g.process.ProcessState.UserTime() + g.process.ProcessState.SystemTime()
}

// Close ends the process.
func (g *gateway) Close() error {
	if g.hasEnded() {
		return nil
	}
	return g.kill()
}

// private returns the memory of the process that no file backs, in MiB, or false if the system does
// not report it.
func (g *gateway) private() (float64, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(g.process.Process.Pid) + "/status")
	if err != nil {
		return 0, false
	}
	_, after, found := strings.Cut(string(text), "\nRssAnon:")
	words := strings.Fields(after)
	if !found || len(words) == 0 {
		return 0, false
	}
	size, err := strconv.ParseFloat(words[0], 64)
	return size / kib, err == nil
}
