package freeq_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/dialect"
)

func TestMain(m *testing.M) {
	federationtest.RunParallel(16) // they wait for rate limits and retries
	goleak.VerifyTestMain(m)
}

const (
	home     = federation.HomeID("gw.test")
	theirs   = "fq.test"
	linkName = "fq"
	channel  = "#ops"

	otherServer = federation.HomeID("other.fq.test") // another freeq server
)

// patience bounds every wait of these tests; none takes nearly as long.
const patience = time.Minute

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// seeded returns the key of a name.
func seeded(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func public(key ed25519.PrivateKey) ed25519.PublicKey {
	p, _ := key.Public().(ed25519.PublicKey)
	return p
}

func signer(did federation.DID, key ed25519.PrivateKey) federation.SigningKey {
	return federation.SigningKey{
		Public: public(key), DID: did,
		Sign: func(_ context.Context, m []byte) ([]byte, error) { return ed25519.Sign(key, m), nil },
	}
}

// person returns the DID and the key of a user on either side.
func person(name string) (federation.DID, ed25519.PrivateKey) {
	return federation.DID("did:key:z" + hex.EncodeToString(public(seeded(name))[:16])), seeded(name)
}

// gateway is a bridge.Gateway that records its input.
type gateway struct {
	mu     sync.Mutex
	events []federation.Event
	views  map[federation.HandoffID]federation.View
	names  map[federation.DID]string                               // set before the link runs; all others are called by their DIDs
	answer func(ev federation.Event) (federation.Judgement, error) // nil files all
	filed  chan federation.Event
	// fetch waits for keys; nil if every key is at hand. It is set before the link runs.
	fetch func(ctx context.Context, ev federation.Event)
}

func newGateway() *gateway {
	return &gateway{views: map[federation.HandoffID]federation.View{}, filed: make(chan federation.Event, 20_000)}
}

func (g *gateway) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	if g.fetch != nil {
		g.fetch(ctx, ev)
	}
	judged := federation.Judgement{Verdict: federation.Valid, Entry: federation.Entry{Event: ev}}
	var err error
	if g.answer != nil {
		judged, err = g.answer(ev)
	}
	if err != nil {
		return judged, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events = append(g.events, ev)
	g.filed <- ev
	return judged, nil
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

func (g *gateway) know(v federation.View) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.views[v.ID] = v
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
	g.mu.Lock()
	defer g.mu.Unlock()
	if name, known := g.names[did]; known {
		return name
	}
	return did.Short()[8:12]
}

// rename gives a DID another name.
func (g *gateway) rename(did federation.DID, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.names[did] = name
}

// opened parses the document of a step and signs it with a key.
func opened(t *testing.T, document string, key ed25519.PrivateKey) (federation.Event, error) {
	t.Helper()
	read, err := translate.FromDocument(document)
	if err != nil {
		return read, err
	}
	ev, err := dialect.FromDocument(document)
	if err != nil {
		return ev, err
	}
	ev.Fields = read.Fields
	return signing.Seal(t.Context(), signer(read.From, key), ev)
}

// next returns the next submitted step.
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

// house is a link to a server with its dependencies.
type house struct {
	link    *freeq.Link
	server  *bridgetest.Freeq
	gateway *gateway
	record  *registry.Record
	wakes   *wakes
	metrics *bridge.Metrics
	gaveUp  chan federation.RefusalCode
	settled chan federation.HandoffID
	keys    sync.Map // of ed25519.PublicKey, by id
	cfg     freeq.Config
	used    freeq.Deps
	stop    context.CancelFunc
	up      chan struct{}
	ended   chan error
}

// wakes is a bridge.PubSub for one process.
type wakes struct {
	mu   sync.Mutex
	subs map[string][]chan struct{}
}

func (w *wakes) Wake(topics ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, topic := range topics {
		for _, sub := range w.subs[topic] {
			select {
			case sub <- struct{}{}:
			default:
			}
		}
	}
}

func (w *wakes) Subscribe(topic string) (<-chan struct{}, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sub := make(chan struct{}, 1)
	w.subs[topic] = append(w.subs[topic], sub)
	return sub, func() {}
}

// newHouse makes a server and a link to it, which does not run yet.
func newHouse(t *testing.T, change ...func(*freeq.Config, *freeq.Deps)) *house {
	t.Helper()
	h := &house{
		gateway: newGateway(), record: storetest.Open(t), wakes: &wakes{subs: map[string][]chan struct{}{}},
		metrics: bridge.NewMetrics(prometheus.NewRegistry()), gaveUp: make(chan federation.RefusalCode, 100),
		settled: make(chan federation.HandoffID, 100),
	}
	gatewayKey := public(seeded("gateway server"))
	h.keys.Store(federation.KeyID(gatewayKey), gatewayKey)
	api := httptest.NewServer(http.HandlerFunc(h.serveKey))
	t.Cleanup(api.Close)
	h.server = bridgetest.NewFreeq(bridgetest.FreeqConfig{
		Name: theirs, Endpoint: seeded("their endpoint"), Server: seeded("their server"),
		Peer: hex.EncodeToString(public(seeded("our endpoint"))), PeerAPI: api.URL, Channels: []string{channel},
	})
	t.Cleanup(h.server.Close)
	cfg := freeq.DefaultConfig()
	cfg.Name, cfg.ServerName, cfg.EndpointID, cfg.PeerAPI = linkName, theirs, h.server.ID(), h.server.API()
	cfg.Transport, cfg.Address, cfg.Channels = freeq.TCP, h.listen(t), []string{"#Ops"}
	deps := h.deps()
	for _, c := range change {
		c(&cfg, &deps)
	}
	link, err := freeq.Open(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	h.link, h.cfg, h.used = link, cfg, deps
	return h
}

// restart ends the link and runs it again without its memory, as a new process would.
func (h *house) restart(t *testing.T) {
	t.Helper()
	h.stop()
	h.ended <- <-h.ended
	link, err := freeq.Open(h.cfg, h.used)
	if err != nil {
		t.Fatal(err)
	}
	h.link = link
	h.run(t)
}

// messages is a bridge.Messages that records the DIDs whose deliveries a link retried.
type messages struct {
	bridge.Messages

	back chan federation.DID
}

func (m *messages) Back(_ context.Context, _ string, did federation.DID) error {
	m.back <- did
	return nil
}

func (*messages) Guest(_, nick string) federation.DID {
	did, _ := person("guest " + nick)
	return did
}

// awaits waits until the deliveries to a DID are retried; "" is all.
func (m *messages) awaits(t *testing.T, did federation.DID) {
	t.Helper()
	select {
	case back := <-m.back:
		if back != did {
			t.Errorf("the deliveries to %q are tried, want %q", back, did)
		}
	case <-time.After(patience):
		t.Fatalf("the deliveries to %q are not tried", did)
	}
}

// words returns a private text by scout to a user of the server.
func (h *house) words(t *testing.T, to string) federation.Delivery {
	t.Helper()
	from, key := person("scout")
	did, _ := person(to)
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signing.SealText(t.Context(), signer(from, key), federation.Text{
		ID: id, Order: federation.Conversation(from, did), From: from, Author: from, To: did, Body: "which of them?", Venue: federation.PrivateVenue(from, did),
		Arrival: federation.Arrival{Network: "rest", Link: "rest", Received: time.Now()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return federation.Delivery{Entry: federation.Entry{Text: &text}}
}

// gone waits until the link knows that a user left.
func (h *house) gone(t *testing.T, did federation.DID) {
	t.Helper()
	for ctx := patient(t); h.link.Online(ctx, federation.Binding{DID: did}); {
		if ctx.Err() != nil {
			t.Fatalf("%s is not gone", did)
		}
	}
}

// listen lets the server accept links, and returns its address.
func (h *house) listen(t *testing.T) string {
	t.Helper()
	address, err := h.server.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func (h *house) deps() freeq.Deps {
	return freeq.Deps{
		Ports: bridge.Ports{
			Home: home, Gateway: h.gateway, Metrics: h.metrics, Log: slog.New(slog.DiscardHandler), PubSub: h.wakes,
			Limits: bridge.Limits{}, PublicURL: "https://gw.test",
			Signer: h, Bindings: bridgetest.KeptNames{Record: h.record}, Evidence: bridge.Contexts{Originals: h},
		},
		Endpoint: signer("", seeded("our endpoint")),
		Record:   h.record,
		Given:    h.record.ListCompleted,
		Rulings: &rulings{
			receipt: confirm(seeded("gateway server")),
			ours: func(_ context.Context, did federation.DID) bool {
				ours, _ := person("scout")
				return did == ours
			},
			settle: func(_ context.Context, id federation.HandoffID) error {
				select {
				case h.settled <- id:
				default: // no test looks
				}
				return nil
			},
			giveUp: func(ctx context.Context, p federation.Pending, code federation.RefusalCode, _ string) error {
				err := h.record.ResolvePending(ctx, p.Event.Handoff, p.Event.From, p.Event.ID)
				h.gaveUp <- code
				return err
			},
		},
		Fetch: fetch,
	}
}

// rulings is a freeq.Rulings made of functions.
type rulings struct {
	receipt func(ctx context.Context, entry federation.Entry, v federation.View) (federation.Event, error)
	settle  func(ctx context.Context, id federation.HandoffID) error
	giveUp  func(ctx context.Context, p federation.Pending, code federation.RefusalCode, detail string) error
	ours    func(ctx context.Context, did federation.DID) bool
}

func (*rulings) Moves(_ federation.View, verb federation.Verb) bool {
	return verb != federation.Offer && verb != federation.Progress && verb != federation.Expire
}

// Role is the implementation of the program.
func (*rulings) Role(v federation.View, verb federation.Verb) federation.Role {
	rule, _ := lifecycle.Shipped().Rule(v, verb)
	return rule.Who
}

func (r *rulings) Receipt(ctx context.Context, entry federation.Entry, v federation.View) (federation.Event, error) {
	return r.receipt(ctx, entry, v)
}

func (r *rulings) Settle(ctx context.Context, id federation.HandoffID, _ time.Time) error {
	return r.settle(ctx, id)
}

func (r *rulings) RejectPending(ctx context.Context, p federation.Pending, code federation.RefusalCode, detail string) error {
	return r.giveUp(ctx, p, code, detail)
}

func (r *rulings) Ours(ctx context.Context, did federation.DID, _ string) (bool, error) {
	return r.ours(ctx, did), nil
}

// Endpoint knows one freeq server besides that of a house.
func (*rulings) Endpoint(home federation.HomeID) string {
	if home == otherServer {
		return hexOf("other endpoint")
	}
	return ""
}

// confirm returns how a home with that key writes receipts.
func confirm(key ed25519.PrivateKey) func(context.Context, federation.Entry, federation.View) (federation.Event, error) {
	receipts := signer(home.DID(), key)
	return func(ctx context.Context, entry federation.Entry, v federation.View) (federation.Event, error) {
		seed := sha256.Sum256([]byte(entry.Event.ID.String())) // receipts within one millisecond have different IDs
		id, _ := federation.NewEventID(entry.Filed, bytes.NewReader(seed[:]))
		return sealed(ctx, receipts, federation.Event{
			ID: id, Handoff: v.ID, Kind: v.Kind, Verb: federation.Confirm, Subject: entry.Event.ID, Venue: v.Venue,
			Fields: map[string]string{"act": "handoff", "act-verb": "confirm", "act-id": v.ID.String(), "act-subject": entry.Event.ID.String()},
		})
	}
}

// Own implements [bridge.Signer].
func (*house) Own() federation.SigningKey { return signer(home.DID(), seeded("gateway server")) }

// Keep implements [bridge.Originals]. No test looks at the evidence.
func (*house) Keep(context.Context, federation.HandoffID, federation.Evidence) error { return nil }

// Kept implements [bridge.Signer]. The server knows each key after that.
func (h *house) Kept(name string) federation.SigningKey {
	did, key := person(name)
	h.keys.Store(federation.KeyID(public(key)), public(key))
	return signer(did, key)
}

func sealed(ctx context.Context, key federation.SigningKey, ev federation.Event) (federation.Event, error) {
	ev.From, ev.Dialect, ev.Provenance = key.DID, federation.ActTags, federation.Signed
	return signing.Seal(ctx, key, ev)
}

// run starts the link, and returns when it is up.
func (h *house) run(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	link, up, ended := h.link, make(chan struct{}), make(chan error, 1)
	h.stop, h.up, h.ended = stop, up, ended
	go func() { ended <- link.Run(ctx, func() { close(up) }) }()
	t.Cleanup(func() {
		stop()
		<-ended
		_ = link.Close() // of a link that ended by itself
	})
	select {
	case <-h.up:
	case err := <-h.ended:
		h.ended <- err
		t.Fatalf("the link ended: %v", err)
	case <-time.After(patience):
		t.Fatal("the link is not up")
	}
}

// bad returns how many lines counted as unreadable for a reason.
func (h *house) bad(reason string) int {
	return int(testutil.ToFloat64(h.metrics.BadInput.WithLabelValues("freeq", linkName, reason)))
}

// expectNothingOdd fails if the gateway broke a rule of the protocol.
func (h *house) expectNothingOdd(t *testing.T) {
	t.Helper()
	for _, odd := range h.server.Unexpected() {
		t.Errorf("the gateway did what no gateway may: %s", odd)
	}
}

// local returns a listener that accepts no connection.
func local(t *testing.T) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// serveKey answers for the keys of this gateway's side.
func (h *house) serveKey(w http.ResponseWriter, r *http.Request) {
	known, _ := h.keys.Load(path.Base(r.URL.Path))
	key, ok := known.(ed25519.PublicKey)
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, `{"public_key":"`+base64.RawURLEncoding.EncodeToString(key)+`"}`)
}

// fetch reads an address as the gateway's client does.
func fetch(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, &federation.UnavailableError{What: address, Err: err}
	}
	defer response.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if response.StatusCode == http.StatusNotFound {
		return nil, federation.ErrNotFound
	}
	return io.ReadAll(response.Body)
}

// alice is the user of the server in these tests.
func (h *house) alice() *bridgetest.FreeqUser {
	did, key := person("alice")
	return h.server.Join("alice", did, key)
}

// offered returns an offer that scout, on this gateway's side, made to alice, and the view
// of it.
func (h *house) offered(t *testing.T, venue string) federation.Delivery {
	t.Helper()
	return h.offeredTo(t, venue, "alice")
}

// offeredTo is offered with another recipient.
func (h *house) offeredTo(t *testing.T, venue, recipient string) federation.Delivery {
	t.Helper()
	did, key := person("scout")
	to, _ := person(recipient)
	h.keys.Store(federation.KeyID(public(key)), public(key))
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := sealed(t.Context(), signer(did, key), federation.Event{
		ID: id, Handoff: id, Kind: federation.Handoff, Verb: federation.Offer, Venue: venue, To: to, Title: "Review it",
		Fields:  map[string]string{"act": "handoff", "act-verb": "offer", "act-to": string(to), "act-title": "Review it"},
		Arrival: federation.Arrival{Network: "airc", Link: "airc", Received: time.Now()},
	})
	if err != nil {
		t.Fatal(err)
	}
	v := federation.View{
		ID: id, Kind: federation.Handoff, Dialect: federation.ActTags, Version: 1, State: federation.Offered, Home: home,
		Venue: venue, Offerer: did, Offeree: to, Title: ev.Title,
	}
	if federation.Private(venue) {
		v.Link = linkName
	}
	h.gateway.know(v)
	return federation.Delivery{Entry: federation.Entry{Event: ev, Version: 1, State: v.State, Filed: time.Now()}, View: v}
}

// step returns the next step of a handoff of this home, by a user on this side.
func (h *house) step(t *testing.T, d federation.Delivery, by string, verb federation.Verb, state federation.State) federation.Delivery {
	t.Helper()
	did, key := person(by)
	h.keys.Store(federation.KeyID(public(key)), public(key))
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := sealed(t.Context(), signer(did, key), federation.Event{
		ID: id, Handoff: d.View.ID, Kind: federation.Handoff, Verb: verb, Venue: d.View.Venue,
		Fields:  map[string]string{"act": "handoff", "act-verb": string(verb), "act-id": d.View.ID.String()},
		Arrival: federation.Arrival{Network: "airc", Link: "airc", Received: time.Now()},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.View.Version++
	d.View.State = state
	d.Entry = federation.Entry{Event: ev, Version: d.View.Version, State: state, Filed: time.Now()}
	h.gateway.know(d.View)
	return d
}

// deliver hands a row to the link, which must take it.
func (h *house) deliver(t *testing.T, d federation.Delivery) {
	t.Helper()
	if err := h.attempt(t, d); err != nil {
		t.Fatalf("Deliver(%s): %v", d.Entry.Row().Verb, err)
	}
}

// attempt makes one attempt of a delivery, as an outbox does.
func (h *house) attempt(t *testing.T, d federation.Delivery) error {
	t.Helper()
	if d.Entry.Text != nil {
		return h.link.DeliverText(patient(t), *d.Entry.Text)
	}
	return h.link.Deliver(patient(t), d)
}
