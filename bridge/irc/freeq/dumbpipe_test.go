//go:build interop && long

package freeq_test

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// far bounds waits for the real program, which itself waits five seconds for a relay, missing in a
// closed network.
const far = time.Minute

// end is one of two gateways linked through the real program.
type end struct {
	link    *freeq.Link
	gateway *gateway
	stop    context.CancelFunc
	ended   chan error
	up      chan struct{}
}

// newEnd makes the link of one gateway to the other.
func newEnd(t *testing.T, us, them string, change func(*freeq.Config)) *end {
	t.Helper()
	if _, err := exec.LookPath("dumbpipe"); err != nil {
		t.Fatalf("install it: cargo install dumbpipe --version 0.40.1 --locked: %v", err)
	}
	e := &end{gateway: newGateway()}
	h := &house{
		gateway: e.gateway, record: storetest.Open(t), wakes: &wakes{subs: map[string][]chan struct{}{}},
		metrics: bridge.NewMetrics(prometheus.NewRegistry()),
	}
	deps := h.deps()
	deps.Home, deps.Endpoint, deps.Seed = federation.HomeID(us+".test"), signer("", seeded(us)), hex.EncodeToString(seeded(us).Seed())
	deps.Log = slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg := freeq.DefaultConfig()
	cfg.Name, cfg.ServerName, cfg.EndpointID, cfg.PeerAPI = linkName, them+".test", hexOf(them), "https://"+them+".test"
	cfg.Channels = []string{channel}
	change(&cfg)
	link, err := freeq.Open(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	e.link = link
	return e
}

// testLog writes a log into that of a test, as long as it runs.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

// run starts one session.
func (e *end) run(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	e.stop, e.up, e.ended = stop, make(chan struct{}), make(chan error, 1)
	up, ended := e.up, e.ended
	go func() { ended <- e.link.Run(ctx, func() { close(up) }) }()
}

// linked waits until a session is up.
func (e *end) linked(t *testing.T) {
	t.Helper()
	select {
	case <-e.up:
	case err := <-e.ended:
		t.Fatalf("the link ended: %v", err)
	case <-time.After(far):
		t.Fatal("the link is not up")
	}
}

// over waits until a session has ended, and returns why.
func (e *end) over(t *testing.T) error {
	t.Helper()
	select {
	case err := <-e.ended:
		return err
	case <-time.After(far):
		t.Fatal("the link does not end")
		return nil
	}
}

// pair makes two ends of one link: the first dials the second.
func pair(t *testing.T) (dials, listens *end) {
	t.Helper()
	at := udpAddr(t)
	dials = newEnd(t, "left", "right", func(c *freeq.Config) {
		c.Address = at
		c.DialCommand = append(c.DialCommand, "--ipv4-addr", "127.0.0.1:0", "--ipv6-addr", "[::1]:0")
	})
	listens = newEnd(t, "right", "left", func(c *freeq.Config) { c.Listen = at })
	return dials, listens
}

// udpAddr returns a loopback address without a listener.
func udpAddr(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.LocalAddr().String()
}

// child returns the process of the program started with some argument.
func child(t *testing.T, argument string) int {
	t.Helper()
	for {
		paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			line, err := os.ReadFile(path)
			words := strings.Split(string(line), "\x00")
			if err != nil || len(words) < 2 || !strings.HasSuffix(words[0], "dumbpipe") || words[1] != argument {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			status, statErr := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
			if err == nil && statErr == nil && strings.Contains(string(status), "PPid:\t"+strconv.Itoa(os.Getpid())+"\n") {
				return pid
			}
		}
		if t.Context().Err() != nil {
			t.Fatal("no child")
		}
	}
}

func TestDumbpipeLinksTwoGateways(t *testing.T) {
	dials, listens := pair(t)
	for round, kill := range []string{"", "connect", "listen"} {
		listens.run(t)
		dials.run(t)
		dials.linked(t)
		listens.linked(t)
		if kill != "" {
			process, err := os.FindProcess(child(t, kill))
			if err != nil {
				t.Fatal(err)
			}
			if err := process.Kill(); err != nil {
				t.Fatal(err)
			}
			t.Logf("round %d: %v; %v", round, dials.over(t), listens.over(t))
			continue
		}
		carry(t, dials, listens, 300)
		dials.stop()
		t.Logf("stopped: %v", dials.over(t))
		if err := listens.over(t); err == nil {
			t.Error("the other end did not notice")
		}
	}
}

// carry delivers steps at one end, which must all arrive at the other. The link may be cut once: a busy
// machine keeps the program from answering. A gateway then links again, and delivers again.
func carry(t *testing.T, from, to *end, n int) {
	t.Helper()
	h := &house{gateway: from.gateway}
	waiting := make([]federation.Delivery, n)
	for i := range waiting {
		waiting[i] = h.offered(t, channel)
		waiting[i].View.Home = federation.HomeID("left.test")
	}
	if waiting = from.deliver(t, waiting); len(waiting) > 0 {
		t.Logf("%d steps were not delivered: %v; %v", len(waiting), from.over(t), to.over(t))
		to.run(t)
		from.run(t)
		from.linked(t)
		to.linked(t)
		if waiting = from.deliver(t, waiting); len(waiting) > 0 {
			t.Fatalf("%d steps were not delivered over a second link: %v", len(waiting), from.over(t))
		}
	}
	arrived := map[federation.EventID]bool{}
	for len(arrived) < n {
		arrived[to.gateway.next(t).ID] = true
	}
}

// deliver delivers steps at once, and returns those not delivered before the link was cut.
func (e *end) deliver(t *testing.T, all []federation.Delivery) []federation.Delivery {
	t.Helper()
	type outcome struct {
		federation.Delivery
		err error
	}
	done := make(chan outcome, len(all))
	for _, d := range all {
		go func() { done <- outcome{d, e.link.Deliver(t.Context(), d)} }()
	}
	var left []federation.Delivery
	for range all {
		select {
		case o := <-done:
			if _, away := errors.AsType[*federation.UnavailableError](o.err); away {
				left = append(left, o.Delivery)
			} else if o.err != nil {
				t.Fatal(o.err)
			}
		case <-time.After(far):
			t.Fatal("a step is not delivered")
		}
	}
	return left
}

func TestDumbpipeTellsPeersFromStrangers(t *testing.T) {
	at := udpAddr(t)
	listens := newEnd(t, "right", "left", func(c *freeq.Config) { c.Listen = at })
	listens.run(t)
	impostor := newEnd(t, "left", "impostor", func(c *freeq.Config) { c.Address = at })
	impostor.run(t)
	if err := impostor.over(t); err == nil || strings.Contains(err.Error(), "no greeting") {
		t.Errorf("the link to another key ended with: %v", err)
	}
	stranger := newEnd(t, "stranger", "right", func(c *freeq.Config) { c.Address = at })
	stranger.run(t)
	if err := listens.over(t); err == nil || !strings.Contains(err.Error(), hexOf("stranger")) {
		t.Errorf("dialled by a stranger: %v", err)
	}
	if err := stranger.over(t); err == nil {
		t.Error("the stranger is linked")
	}
}

func TestDumbpipeFindsNobody(t *testing.T) {
	dials, _ := pair(t)
	dials.run(t)
	if err := dials.over(t); err == nil {
		t.Error("a link to nobody")
	}
}
