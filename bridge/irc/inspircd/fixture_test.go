package inspircd_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	home     = federation.HomeID("gw.example")
	linkName = "lab"
	alice    = federation.DID("did:key:z6MktULudTtAsAhRegYPiZ6631RV3viv12qd4GQF8z1xB22S")
	scholar  = federation.DID("did:key:z6MkqGC3nWZhYieEVTVDKW5v588CiGfsDSmRVG9ZwwWTvLSK")
	offerID  = "01K9ZQ0000000000000000000H"
	acceptID = "01K9ZQ0000000000000000001A"
)

// patience bounds every wait of these tests; none takes nearly as long.
const patience = time.Minute

// gateway is a bridge.Gateway that records its input.
type gateway struct {
	mu     sync.Mutex
	events []federation.Event
	// answer may be nil, and then all is filed.
	answer func(ctx context.Context, ev federation.Event) error
	names  map[federation.DID]string
	views  map[federation.HandoffID]federation.View
	same   map[federation.DID]federation.DID // another DID of one agent
	filed  chan federation.Event
	// bindings are of accounts of the link.
	bindings []federation.BoundName
	links    map[federation.DID]string // on which people were seen; set before the link runs
	// duplicates says that all was filed before.
	duplicates bool
	// fetch waits for keys; nil if every key is at hand. It is set before the link runs.
	fetch func(ctx context.Context, ev federation.Event)
}

func newGateway() *gateway {
	return &gateway{
		names: map[federation.DID]string{alice: "alice", scholar: "scholar"},
		filed: make(chan federation.Event, 10_000),
	}
}

func (g *gateway) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	if g.fetch != nil {
		g.fetch(ctx, ev)
	}
	if g.answer != nil {
		if err := g.answer(ctx, ev); err != nil {
			return federation.Judgement{}, err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events = append(g.events, ev)
	g.filed <- ev
	return federation.Judgement{Verdict: federation.Valid, Duplicate: g.duplicates, Entry: federation.Entry{Event: ev}}, nil
}

func (g *gateway) View(_ context.Context, id federation.HandoffID) (federation.View, error) {
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

func (g *gateway) Same(_ context.Context, a, b federation.DID) (bool, error) {
	return a == b || g.same[a] == b || g.same[b] == a, nil
}

func (g *gateway) Place(context.Context, federation.DID, federation.DID, string) (federation.ChannelRef, federation.Dialect, error) {
	return federation.ChannelRef{}, "", errors.New("a link places nothing")
}

func (g *gateway) Name(_ context.Context, did federation.DID) string {
	if name := g.names[did]; name != "" {
		return name
	}
	return did.Short()
}

// bind makes an account of the link stand for a DID.
func (g *gateway) bind(account string, did federation.DID, vouch bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bindings = append(g.bindings, federation.BoundName{Network: linkName, Name: account, DID: did, Vouch: vouch})
}

// Bound implements [bridge.Bindings].
func (g *gateway) Bound(_ context.Context, network, name string) (federation.BoundName, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.bindings {
		if b.Network == network && b.Name == name {
			return b, nil
		}
	}
	return federation.BoundName{}, federation.ErrNotFound
}

// Of implements [bridge.Bindings].
func (g *gateway) Of(_ context.Context, did federation.DID) ([]federation.BoundName, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.bindings), func(b federation.BoundName) bool { return b.DID != did }), nil
}

// Seen implements [bridge.Bindings].
func (g *gateway) Seen(_ context.Context, did federation.DID) (federation.Binding, error) {
	if link, known := g.links[did]; known {
		return federation.Binding{DID: did, Link: link}, nil
	}
	return federation.Binding{}, federation.ErrNotFound
}

// next returns the next filed step.
func (g *gateway) next(t *testing.T) federation.Event {
	t.Helper()
	select {
	case ev := <-g.filed:
		return ev
	case <-time.After(patience):
		t.Fatal("no step was submitted")
		return federation.Event{}
	}
}

// house is a link with its dependencies.
type house struct {
	link     *inspircd.Link
	gateway  *gateway
	record   *registry.Record
	evidence *evidence
	registry *prometheus.Registry
	metrics  *bridge.Metrics
	log      *logBook
}

// evidence keeps the originals of renditions.
type evidence struct {
	mu   sync.Mutex
	kept []federation.Evidence
}

// Keep implements [bridge.Originals].
func (e *evidence) Keep(_ context.Context, _ federation.HandoffID, kept federation.Evidence) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept = append(e.kept, kept)
	return nil
}

// keptKey is a key that a gateway keeps under a name.
func keptKey(name string) federation.SigningKey {
	seed := sha256.Sum256([]byte(name))
	private := ed25519.NewKeyFromSeed(seed[:])
	public, _ := private.Public().(ed25519.PublicKey)
	return federation.SigningKey{
		Public: public, DID: federation.DID("did:example:" + federation.KeyID(public)),
		Sign: func(_ context.Context, message []byte) ([]byte, error) { return ed25519.Sign(private, message), nil },
	}
}

// logBook keeps the log.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func testConfig(addr string) inspircd.Config {
	cfg := inspircd.DefaultConfig()
	cfg.Name, cfg.ServerName, cfg.Address, cfg.SID = linkName, "irc.lab.example", addr, "9GW"
	cfg.SendPasswordFile, cfg.RecvPasswordFile = "lab.send", "lab.recv"
	cfg.Channels = []string{"#ops"}
	return cfg
}

// secrets are the secret files of a link.
func secrets() bridgetest.Secrets {
	return bridgetest.Secrets{"lab.send": "in-secret", "lab.recv": "out-secret", "spaced": "two words", "colon": ":word"}
}

func newHouse(t *testing.T, cfg inspircd.Config, tweak ...func(*bridge.Ports)) house {
	t.Helper()
	return newHouseWith(t, cfg, certificate(t, string(home)), tweak...)
}

func newHouseWith(t *testing.T, cfg inspircd.Config, cert tls.Certificate, tweak ...func(*bridge.Ports)) house {
	t.Helper()
	h := house{gateway: newGateway(), record: storetest.Open(t), evidence: &evidence{}, registry: prometheus.NewRegistry(), log: &logBook{}}
	h.metrics = bridge.NewMetrics(h.registry)
	ports := bridge.Ports{
		Home: home, Gateway: h.gateway, Metrics: h.metrics, Secrets: secrets(),
		Log:       slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		PublicURL: "https://gw.example", Signer: bridgetest.Signer(keptKey), Evidence: bridge.Contexts{Originals: h.evidence},
		Limits: bridge.Limits{}, PubSub: noWakes{}, Bindings: h.gateway, Certificate: bridge.NewCertificate(&cert, nil),
	}
	for _, change := range tweak {
		change(&ports)
	}
	link, err := inspircd.Open(cfg, inspircd.Deps{Ports: ports, Record: h.record})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	h.link = link
	return h
}

// Participant implements [bridge.Bindings]: no agent has a handle.
func (*gateway) Participant(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// noWakes has no subscriber and wakes none.
type noWakes struct{}

func (noWakes) Wake(...string)                             {}
func (noWakes) Subscribe(string) (<-chan struct{}, func()) { return nil, func() {} }

func peerConfig() bridgetest.IRCdConfig {
	return bridgetest.IRCdConfig{
		Name: "irc.lab.example", SID: "1AA", LinkName: string(home), SendPassword: "out-secret", RecvPassword: "in-secret",
		Users: []string{"alice", "bob"}, Channels: []string{"#ops"},
	}
}

func listen(t *testing.T, cfg bridgetest.IRCdConfig) *bridgetest.IRCd {
	t.Helper()
	peer, err := bridgetest.ListenIRCd(context.Background(), cfg)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	t.Cleanup(func() {
		peer.Close()
		if err := peer.Err(); err != nil {
			t.Errorf("the gateway did wrong: %v", err)
		}
	})
	return peer
}

// keepRunning runs a link, again after each loss, until the function that it
// returns is called.
func keepRunning(h house, up func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			_ = h.link.Run(ctx, up)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// linked returns a house whose link is up with a peer.
func linked(
	t *testing.T, tweak func(*inspircd.Config, *bridgetest.IRCdConfig), ports ...func(*bridge.Ports),
) (house, *bridgetest.IRCd) {
	t.Helper()
	peerCfg := peerConfig()
	peerCfg.Protocol = protocolOf(t)
	cfg := testConfig("")
	if tweak != nil {
		tweak(&cfg, &peerCfg)
	}
	peer := listen(t, peerCfg)
	cfg.Address = peer.Addr()
	h := newHouse(t, cfg, ports...)
	t.Cleanup(keepRunning(h, func() {}))
	if err := peer.Linked(waiting(t)); err != nil {
		t.Fatalf("link: %v\n%s", err, h.log)
	}
	return h, peer
}

func waiting(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// piped is linked without sockets, for a bubble of synctest.
func piped(t *testing.T, ports ...func(*bridge.Ports)) (h house, peer *bridgetest.IRCd, ended <-chan error) {
	t.Helper()
	peerCfg := peerConfig()
	peerCfg.Protocol = protocolOf(t)
	h, peer = newHouse(t, testConfig("pipe.example:1"), ports...), bridgetest.NewIRCd(peerCfg)
	ours, theirs := net.Pipe()
	h.link.SetDial(func(context.Context) (net.Conn, error) { return ours, nil })
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { peer.Serve(theirs) })
	running.Go(func() { end <- h.link.Run(ctx, func() {}) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := peer.Err(); err != nil {
			t.Errorf("the gateway did wrong: %v", err)
		}
	})
	if err := peer.Linked(waiting(t)); err != nil {
		t.Fatalf("link: %v\n%s", err, h.log)
	}
	return h, peer, end
}

// await returns the next message with a command that a peer got, for which also holds other
// requests.
func await(t *testing.T, peer interface {
	Next(ctx context.Context, match func(bridgetest.IRCMessage) bool) (bridgetest.IRCMessage, error)
}, command string, also ...func(bridgetest.IRCMessage) bool,
) bridgetest.IRCMessage {
	t.Helper()
	m, err := peer.Next(waiting(t), func(m bridgetest.IRCMessage) bool {
		return m.Command == command && !slices.ContainsFunc(also, func(holds func(bridgetest.IRCMessage) bool) bool { return !holds(m) })
	})
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return m
}

// countOf counts the messages with a command that no test took.
func countOf(peer *bridgetest.IRCd, command string) int {
	n := 0
	for _, m := range peer.Received() {
		if m.Command == command {
			n++
		}
	}
	return n
}

func mustID(t *testing.T, text string) federation.EventID {
	t.Helper()
	id, err := federation.ParseEventID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// offerTags are the tags of an offer of alice.
func offerTags() map[string]string {
	return map[string]string{
		"+freeq.at/handoff": "offer", "+freeq.at/handoff-id": offerID, "+freeq.at/handoff-from": string(alice),
		"+freeq.at/handoff-to": string(scholar), "+freeq.at/handoff-task": "Cite the 3 best sources; on X",
		"+freeq.at/eventid": offerID, "+freeq.at/sig": "ed25519:ELpoLIrRNROXHotWiBqriw:AAAA",
	}
}

// acceptRow is an accept that came from an agent and is owed to the link.
func acceptRow(t *testing.T) federation.Delivery {
	t.Helper()
	ev := federation.Event{
		ID: mustID(t, acceptID), Handoff: mustID(t, offerID), Kind: federation.Handoff, Verb: federation.Accept,
		From: scholar, Venue: "#ops", Dialect: federation.HandoffTags, Stamped: true,
		Fields: map[string]string{
			"handoff": "accept", "handoff-id": offerID, "handoff-from": string(scholar), "handoff-reply-to": offerID,
			"handoff-src": "https://gw.example/evidence/ab", "handoff-x-odd": "a;b c\\d",
		},
		Signature: federation.Signature{Text: "ed25519:kid:BBBB"},
		Arrival:   federation.Arrival{Network: "airc", Link: "airc"},
	}
	return federation.Delivery{
		Row: 1, Entry: federation.Entry{Event: ev, Version: 2, State: federation.Assigned},
		View: federation.View{
			ID: ev.Handoff, Version: 2, Dialect: federation.HandoffTags, Title: "Cite the 3 best sources; on X", Venue: "#ops",
			Offerer: alice, Offeree: scholar, Assignee: scholar,
		},
	}
}

// from holds for messages of one nick.
func from(nick string) func(bridgetest.IRCMessage) bool {
	return func(m bridgetest.IRCMessage) bool { return m.Nick == nick }
}
