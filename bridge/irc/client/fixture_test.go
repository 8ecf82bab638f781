package client_test

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const home = federation.HomeID("gw.example")

// patience bounds every wait of these tests; none takes nearly as long.
const patience = time.Minute

// gateway is a bridge.Gateway that records its input.
type gateway struct {
	mu     sync.Mutex
	events []federation.Event
	// answer may be nil, and then all is filed.
	answer func(ev federation.Event) error
	views  map[federation.HandoffID]federation.View
	bound  map[string]federation.BoundName
	// fetch waits for keys; nil if every key is at hand. It is set before the link runs.
	fetch func(ctx context.Context, ev federation.Event)
}

func (g *gateway) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	if g.fetch != nil {
		g.fetch(ctx, ev)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.answer != nil {
		if err := g.answer(ev); err != nil {
			return federation.Judgement{}, err
		}
	}
	g.events = append(g.events, ev)
	return federation.Judgement{Verdict: federation.Valid, Entry: federation.Entry{Event: ev, Version: 1}}, nil
}

func (g *gateway) View(_ context.Context, id federation.HandoffID) (federation.View, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.views[id], nil
}

// Expected implements [bridge.Gateway]. No step waits for another home.
func (g *gateway) Expected(ctx context.Context, id federation.HandoffID, _ federation.DID) (federation.View, error) {
	return g.View(ctx, id)
}

// Owner implements [bridge.Gateway]. No keys are kept.
func (*gateway) Owner(_ context.Context, did federation.DID) (federation.DID, error) {
	return did, nil
}

func (*gateway) DIDs(_ context.Context, did federation.DID) ([]federation.DID, error) {
	return []federation.DID{did}, nil
}

func (g *gateway) Same(_ context.Context, a, b federation.DID) (bool, error) { return a == b, nil }

func (g *gateway) Place(context.Context, federation.DID, federation.DID, string) (federation.ChannelRef, federation.Dialect, error) {
	return federation.ChannelRef{}, "", errors.New("a link places nothing")
}

func (g *gateway) Name(_ context.Context, did federation.DID) string {
	return strings.TrimPrefix(did.Short(), "did:key:")
}

// house is a listener with its dependencies.
type house struct {
	link    *client.Link
	gateway *gateway
	record  *registry.Record
	addr    string
}

// testConfig listens on a port of the system's choice.
func testConfig() client.Config {
	cfg := client.DefaultConfig()
	cfg.Listen, cfg.Network = "127.0.0.1:0", "Test"
	return cfg
}

// accounts are bindings that a test changes, by "client " and the name of an account.
type accounts struct {
	bridgetest.Bindings

	bound map[string]federation.BoundName
}

// Bound implements [bridge.Bindings].
func (a accounts) Bound(_ context.Context, network, name string) (federation.BoundName, error) {
	if b, ok := a.bound[network+" "+name]; ok {
		return b, nil
	}
	return federation.BoundName{}, federation.ErrNotFound
}

// open returns a listener that does not run.
func open(tb testing.TB, cfg client.Config, tweak ...func(*client.Deps)) *house {
	tb.Helper()
	h := &house{gateway: &gateway{views: map[federation.HandoffID]federation.View{}, bound: map[string]federation.BoundName{}}, record: storetest.Open(tb)}
	deps := client.Deps{
		Ports: bridge.Ports{
			Home: home, Gateway: h.gateway, Metrics: bridge.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
			Limits: bridge.Limits{MaxDeadline: 720 * time.Hour}, PubSub: noWakes{}, PublicURL: "https://gw.example",
			HTTP: bridge.HTTP{Listen: ":8080"}, Bindings: accounts{bound: h.gateway.bound},
			Keys: bridgetest.Keys{Prove: func(_ context.Context, did federation.DID, _, signature []byte) (federation.PublicKey, federation.Verdict, error) {
				switch string(signature) {
				case "signed by " + string(did):
					return federation.PublicKey{}, federation.Valid, nil
				case "away":
					return federation.PublicKey{}, federation.Unverifiable, errors.New("away")
				}
				return federation.PublicKey{}, federation.Invalid, nil
			}},
		},
		Record: h.record,
	}
	for _, change := range tweak {
		change(&deps)
	}
	if cfg.TLSListen != "" {
		made, err := bridgetest.NewCertificate("gw.example")
		if err != nil {
			tb.Fatal(err)
		}
		deps.Certificate = bridge.NewCertificate(&made, nil)
	}
	link, err := client.Open(cfg, deps)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	h.link = link
	return h
}

// start runs a listener until the test ends.
func start(tb testing.TB, cfg client.Config, tweak ...func(*client.Deps)) *house {
	tb.Helper()
	h := open(tb, cfg, tweak...)
	h.run(tb)
	return h
}

// run runs the listener until the test ends.
func (h *house) run(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	up, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- h.link.Run(ctx, func() { close(up) }) }()
	select {
	case <-up:
	case err := <-ended:
		cancel()
		tb.Fatalf("run: %v", err)
	}
	tb.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			tb.Error("the listener does not end")
		}
	})
	h.addr = h.link.Describe().Negotiated["listen"]
}

// noWakes has no subscriber and wakes none.
type noWakes struct{}

func (noWakes) Wake(...string)                             {}
func (noWakes) Subscribe(string) (<-chan struct{}, func()) { return nil, func() {} }

// peer is one client as a test types it.
type peer struct {
	conn  net.Conn
	lines *bufio.Reader
}

// dial connects a client that says nothing yet.
func dial(tb testing.TB, addr string) *peer {
	tb.Helper()
	var d net.Dialer
	conn, err := d.DialContext(tb.Context(), "tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return &peer{conn: conn, lines: bufio.NewReader(conn)}
}

// say sends lines.
func (p *peer) say(tb testing.TB, lines ...string) {
	tb.Helper()
	if _, err := p.conn.Write([]byte(strings.Join(lines, "\r\n") + "\r\n")); err != nil {
		tb.Fatal(err)
	}
}

// hear returns the next line.
func (p *peer) hear(tb testing.TB) string {
	tb.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(patience))
	line, err := p.lines.ReadString('\n')
	if err != nil {
		tb.Fatalf("read: %v after %q", err, line)
	}
	return strings.TrimRight(line, "\r\n")
}

// until returns the first line that matches a pattern, and skips others.
func (p *peer) until(tb testing.TB, pattern string) string {
	tb.Helper()
	for {
		if line := p.hear(tb); matches(pattern, line) {
			return line
		}
	}
}

// matches holds a line to a pattern in which * is anything.
func matches(pattern, line string) bool {
	ok, err := path.Match(plain(pattern), plain(line))
	return err == nil && ok
}

// plain removes the characters with a meaning in patterns of paths.
func plain(s string) string {
	return strings.NewReplacer("/", "|", "[", "(", "]", ")", `\`, "|", "?", "!").Replace(s)
}

// play plays a scene: each line is a client's name, ">" and its line, or "<" and the next line it
// receives, in which * is anything. A client that is not there yet comes in with its first line, or
// with "joins" and the capabilities that it asks for.
func play(t *testing.T, h *house, scene string) map[string]*peer {
	t.Helper()
	peers := map[string]*peer{}
	for line := range strings.Lines(scene) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		verb, text, _ := strings.Cut(rest, " ")
		if peers[name] == nil {
			peers[name] = dial(t, h.addr)
		}
		p := peers[name]
		switch verb {
		case "joins":
			p.register(t, name, text)
		case ">":
			p.say(t, text)
		case "<":
			if got := p.hear(t); !matches(text, got) {
				t.Fatalf("%s hears %q, want %q", name, got, text)
			}
		default:
			t.Fatalf("%q is no line of a scene", line)
		}
	}
	for name, p := range peers { // and the others receive nothing else
		p.say(t, "PING done")
		if got := p.hear(t); !strings.HasSuffix(got, "PONG gw.example :done") {
			t.Errorf("%s hears %q besides", name, got)
		}
	}
	return peers
}

// register registers a client, and reads its welcome.
func (p *peer) register(tb testing.TB, nick, caps string) {
	tb.Helper()
	if caps != "" {
		p.say(tb, "CAP REQ :"+caps)
		p.until(tb, "*CAP * ACK *")
	}
	p.say(tb, "NICK "+nick, "USER "+nick+" 0 * :real "+nick)
	if caps != "" {
		p.say(tb, "CAP END")
	}
	p.until(tb, "*:gw.example 376 *")
}
