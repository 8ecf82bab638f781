package airc_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/signing"
	registrystore "github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
	"github.com/baton-gateway/baton/translate/dialect"
)

// seed returns 32 equal bytes, of which a test makes a key.
func seed(b byte) []byte { return bytes.Repeat([]byte{b}, ed25519.SeedSize) }

// signingKey returns the private key of a test.
func signingKey(b byte) federation.SigningKey {
	return signingKeyOf(ed25519.NewKeyFromSeed(seed(b)))
}

func signingKeyOf(private ed25519.PrivateKey) federation.SigningKey {
	public, _ := private.Public().(ed25519.PublicKey)
	return federation.SigningKey{
		Public: public, DID: identity.KeyDID(public),
		Sign: func(_ context.Context, message []byte) ([]byte, error) { return ed25519.Sign(private, message), nil },
	}
}

// The keys of the tests: the keys of the vectors, and kept keys after them.
var (
	alice    = signingKey(0x11)
	registry = signingKey(0x02)
)

// kept returns the key that the gateway keeps under a name: for the agent of the
// vectors theirs.
func kept(name string) federation.SigningKey {
	handle := strings.TrimPrefix(name, "airc:")
	if handle == "scout_7" {
		return signingKey(0x33)
	}
	seed := sha256.Sum256([]byte(handle))
	return signingKeyOf(ed25519.NewKeyFromSeed(seed[:]))
}

// world is a registry on a record and a real home.
type world struct {
	room  int // how many entries may wait for one agent; 0 is no limit
	share int // how many of those may be of one sender; likewise
	// firstContacts bounds the messages held for one agent.
	firstContacts federation.InboxLimits
	registrations int // of one address in an hour; 0 is no limit
	link          *airc.Link
	record        *registrystore.Record
	deps          airc.Deps
	gateway       *gateway
	mux           *http.ServeMux
	log           *bytes.Buffer
	metrics       *prometheus.Registry
	rates         *rates
	wakes         *wakes

	contexts bridge.Contexts
}

// quotas returns the limits of a registry, which a test changes.
func (w *world) quotas() airc.Quotas {
	return airc.Quotas{
		Room:                 federation.InboxLimits{Events: w.room, EventsPerSender: w.share},
		FirstContacts:        w.firstContacts,
		RegistrationsPerHour: w.registrations,
	}
}

// contextLimits are the limits of contexts in a world, which a test changes.
type contextLimits struct{ *world }

// Current implements [bridge.LimitSource].
func (l contextLimits) Current() bridge.Limits {
	one, _ := l.contexts.Limits()
	return bridge.Limits{ContextBytes: one}
}

// keysMade is when the keys of a keyring were made.
var keysMade = time.Unix(1790000000, 0)

// keyring returns a keyring whose registry has a key.
func keyring(tb testing.TB, key byte) *identity.Keyring {
	tb.Helper()
	dir := filepath.Join(storetest.TempDir(tb), "keys")
	err := os.Mkdir(dir, 0o700)
	for _, name := range []identity.KeyName{"kept", "token", identity.ServerKey, identity.RegistryKey} {
		file := filepath.Join(dir, string(name))
		err = errors.Join(err, os.WriteFile(file, []byte(hex.EncodeToString(seed(key))+"\n"), 0o600), os.Chtimes(file, keysMade, keysMade))
	}
	keys, openErr := identity.OpenKeyring(dir)
	if err := errors.Join(err, openErr); err != nil {
		tb.Fatal(err)
	}
	return keys
}

// noTokens authenticates no request: no other link issues tokens.
func noTokens(*http.Request) (who bridge.Authenticated, ok bool, err error) { return who, false, nil }

// newWorld opens a registry; each change is made before that.
func newWorld(tb testing.TB, changes ...func(*airc.Config, *airc.Deps)) *world {
	tb.Helper()
	w := &world{record: storetest.Open(tb), mux: http.NewServeMux(), log: &bytes.Buffer{}, metrics: prometheus.NewRegistry()}
	w.firstContacts = federation.InboxLimits{Events: 100}
	w.rates, w.wakes = &rates{Rates: home.NewRates()}, &wakes{waiting: map[string][]chan struct{}{}}
	server := signingKey(0x66)
	server.DID = federation.HomeID("gw.example").DID()
	w.gateway = &gateway{record: w.record, dialect: federation.HandoffTags, home: &home.Home{
		Rules: home.Rules{ID: "gw.example", Kinds: lifecycle.Shipped(), Limits: home.Limits{ClockSkew: 120 * time.Second}},
		Key:   server, Record: w.record, Keys: didKeys{w.record, server}, Entropy: rand.Reader,
		Rates: w.rates.Rates,
		Write: dialect.Write, Read: dialect.Read,
	}}
	w.gateway.home.Same = w.gateway.Same
	w.contexts = bridgetest.Contexts(w.record, 1<<20, 0)
	cfg := airc.DefaultConfig()
	w.deps = airc.Deps{
		Ports: bridge.Ports{
			PubSub: w.wakes,
			Home:   "gw.example", Gateway: w.gateway, Metrics: bridge.NewMetrics(w.metrics),
			Log:       slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			PublicURL: "https://gw.example", HTTP: bridge.HTTP{MaxBodyBytes: 262144, MaxWait: 50 * time.Second},
			Signer: bridgetest.Signer(kept), Evidence: &w.contexts, Limits: contextLimits{w}, Keys: bridgetest.Keys{Revoke: w.revoked},
		},
		Record: storetest.Bound(w.record), Keyring: keyring(tb, 0x02), Quotas: w.quotas, Take: w.rates.Take, Left: w.rates.Left, Admit: anyMayCome, Meet: anyMayCome,
		Mode: func(string) string { return "" }, Authenticate: noTokens, TokenKey: seed(0x77),
	}
	for _, change := range changes {
		change(&cfg, &w.deps)
	}
	link, err := airc.Open(cfg, w.deps)
	if err != nil {
		tb.Fatal(err)
	}
	w.link = link
	w.gateway.home.Route = func(ctx context.Context, ev federation.Event, after federation.View) (to federation.Fanout, err error) {
		entry := federation.Entry{Event: ev, Version: after.Version, State: after.State, Filed: after.Moved}
		to.Effects, to.Topics, err = link.Effects(ctx, federation.Delivery{Entry: entry, View: after})
		return to, err
	}
	link.Mount(w.mux)
	return w
}

// agentsAddress is the default address of agents.
const agentsAddress = "192.0.2.100:1000"

// RoundTrip carries a request to the registry without a socket, so that tests may
// run on a clock of their own.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	if r.RemoteAddr == "" {
		r.RemoteAddr = agentsAddress
	}
	w.mux.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// agent returns a registered agent.
func (w *world) agent(tb testing.TB, handle string, b byte, changes ...func(*bridgetest.Agent)) *bridgetest.Agent {
	tb.Helper()
	a := w.stranger(handle, b)
	for _, change := range changes {
		change(a)
	}
	if err := a.Register(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return a
}

// stranger returns an unregistered agent.
func (w *world) stranger(handle string, b byte) *bridgetest.Agent {
	a := bridgetest.NewAgent("https://gw.example", handle, seed(b))
	a.Transport, a.Domain = w, "gw.example"
	return a
}

// offer files an offer from IRC.
func (w *world) offer(t *testing.T, from federation.SigningKey, to string, more ...func(fields map[string]string)) federation.HandoffID {
	t.Helper()
	id := w.mint(t)
	ev := federation.Event{
		ID: id, Handoff: id, Verb: federation.Offer, To: federation.DID(to),
		Title: "Cite three sources on X", Context: `{"q":"X"}`, Caps: []string{"web-search"},
	}
	w.fromIRC(t, from, ev, map[string]string{
		"handoff-to": to, "handoff-task": ev.Title, "handoff-context": ev.Context, "handoff-caps": "web-search",
	})
	return id
}

// mint returns an id of now.
func (w *world) mint(t *testing.T) federation.EventID {
	t.Helper()
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// fromIRC signs a step as an IRC user does, and files it.
func (w *world) fromIRC(t *testing.T, key federation.SigningKey, ev federation.Event, fields map[string]string) {
	t.Helper()
	if err := w.submitFromIRC(t, key, ev, fields); err != nil {
		t.Fatal(err)
	}
}

// submitFromIRC is fromIRC for a step that may be refused.
func (w *world) submitFromIRC(t *testing.T, key federation.SigningKey, ev federation.Event, fields map[string]string) error {
	t.Helper()
	if ev.ID.IsZero() {
		ev.ID = w.mint(t)
	}
	if ev.Kind == "" {
		ev.Kind = federation.Handoff
	}
	ev.From, ev.Dialect = key.DID, federation.HandoffTags
	if ev.Venue == "" {
		ev.Venue = "#ops"
	}
	written, _ := dialect.Write(ev)
	maps.Copy(written, fields)
	maps.DeleteFunc(written, func(_, value string) bool { return value == "" })
	ev.Fields, ev.Provenance = written, federation.Signed
	ev.Arrival = federation.Arrival{Network: "spanningtree", Link: "lab", Name: "alice", Received: time.Now()}
	sealed, err := signing.Seal(t.Context(), key, ev)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.gateway.Submit(t.Context(), sealed)
	return err
}

// openOf returns the number of open handoffs offered by a DID.
func (w *world) openOf(t *testing.T, did federation.DID) int {
	t.Helper()
	s, err := w.record.Snapshot(t.Context(), federation.SnapshotQuery{OpenOf: did})
	if err != nil {
		t.Fatal(err)
	}
	return s.Open
}

// steps returns the filed steps of a handoff.
func (w *world) steps(t *testing.T, id federation.HandoffID) []federation.Event {
	t.Helper()
	var events []federation.Event
	for entry, err := range w.record.Log(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, entry.Event)
	}
	return events
}

// verbs returns the verbs of the filed steps of a handoff.
func (w *world) verbs(t *testing.T, id federation.HandoffID) string {
	t.Helper()
	var verbs []string
	for _, ev := range w.steps(t, id) {
		verbs = append(verbs, string(ev.Verb))
	}
	return strings.Join(verbs, " ")
}

// refusals returns how often a code was counted.
func (w *world) refusals(code string) float64 {
	return testutil.ToFloat64(w.deps.Metrics.Refusals.WithLabelValues("airc", code))
}

// lines returns how many lines the log has with a message.
func (w *world) lines(message string) int {
	return strings.Count(w.log.String(), fmt.Sprintf("%q:%q", "msg", message))
}

// gateway is the program that the registry runs in: a home, one link to IRC, and a
// hook.
type gateway struct {
	home    *home.Home
	record  *registrystore.Record
	dialect federation.Dialect     // of the link
	online  bool                   // each known user is online
	unlink  bool                   // there is no link any more
	refuse  error                  // answered to every Submit
	filed   func(federation.Event) // called with each filed step; may be nil
}

// Owner implements [bridge.Gateway]. No keys are kept.
func (*gateway) Owner(_ context.Context, did federation.DID) (federation.DID, error) {
	return did, nil
}

func (*gateway) DIDs(_ context.Context, did federation.DID) ([]federation.DID, error) {
	return []federation.DID{did}, nil
}

func (g *gateway) Same(ctx context.Context, a, b federation.DID) (bool, error) {
	agent, err := g.record.AgentOf(ctx, a)
	if errors.Is(err, federation.ErrNotFound) {
		return a == b, nil
	}
	return a == b || agent.DID == b || agent.OwnDID == b, err
}

func (g *gateway) Place(ctx context.Context, from, to federation.DID, channel string) (federation.ChannelRef, federation.Dialect, error) {
	b, err := g.record.Binding(ctx, to)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return federation.ChannelRef{}, "", err
	}
	switch {
	case g.unlink, to != "" && b.Link != "lab":
		return federation.ChannelRef{}, federation.HandoffTags, nil
	case to == "" && channel == "#side":
		return federation.ChannelRef{Venue: channel}, g.dialect, nil
	case to != "" && g.online:
		return federation.ChannelRef{Link: "lab", Venue: federation.PrivateVenue(from, to)}, g.dialect, nil
	}
	return federation.ChannelRef{Venue: "#ops"}, g.dialect, nil
}

func (g *gateway) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	if g.refuse != nil {
		return federation.Judgement{Entry: federation.Entry{Event: ev}}, g.refuse
	}
	judged, err := g.home.Submit(ctx, ev, time.Now())
	if err == nil && g.filed != nil {
		g.filed(ev)
	}
	return judged, err
}

func (g *gateway) View(ctx context.Context, id federation.HandoffID) (federation.View, error) {
	return g.record.View(ctx, id)
}

func (g *gateway) Expected(ctx context.Context, id federation.HandoffID, party federation.DID) (federation.View, error) {
	return g.home.Expected(ctx, id, party)
}

func (g *gateway) Name(ctx context.Context, did federation.DID) string {
	if agent, err := g.record.AgentOf(ctx, did); err == nil {
		return agent.Handle
	}
	if b, err := g.record.Binding(ctx, did); err == nil {
		return b.Name
	}
	return did.Short()
}

// didKeys is the key source of a world in which every DID is a did:key, but for that of the home.
type didKeys struct {
	record *registrystore.Record
	server federation.SigningKey
}

func (k didKeys) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	if q.DID == k.server.DID {
		return []ed25519.PublicKey{k.server.Public}, nil
	}
	key, err := identity.ParseKeyDID(q.DID)
	if err != nil {
		return nil, err
	}
	return []ed25519.PublicKey{key}, nil
}

func (k didKeys) KeyOwner(ctx context.Context, keyID string) (federation.DID, error) {
	return k.record.KeyOwner(ctx, keyID)
}

// rates is the one bucket of each DID, for the home and the registry.
type rates struct {
	*home.Rates

	limit int
}

func (r *rates) Take(did federation.DID, now time.Time) time.Duration {
	return r.Rates.Take(did, r.limit, now)
}

func (r *rates) Left(did federation.DID, now time.Time) bridge.Allowance {
	left, full := r.Rates.Left(did, r.limit, now)
	return bridge.Allowance{Limit: r.limit, Left: left, Full: full}
}

// wakes is a relay that loses wake-ups on demand.
type wakes struct {
	mu      sync.Mutex
	waiting map[string][]chan struct{}
	lossy   bool
}

func (w *wakes) Wake(topics ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, topic := range topics {
		for _, wake := range w.waiting[topic] {
			if len(wake) == 0 && !w.lossy {
				wake <- struct{}{}
			}
		}
	}
}

func (w *wakes) Subscribe(topic string) (<-chan struct{}, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wake := make(chan struct{}, 1)
	w.waiting[topic] = append(w.waiting[topic], wake)
	return wake, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waiting[topic] = slices.DeleteFunc(w.waiting[topic], func(c chan struct{}) bool { return c == wake })
	}
}

// message has the members of an inbox message that tests read.
type message struct {
	ID      string `json:"id"`
	KeyID   string `json:"kid"`
	From    string `json:"from"`
	To      string `json:"to"`
	Seq     int    `json:"seq"`
	Body    string `json:"body"`
	Payload struct {
		Type string         `json:"type"`
		Data map[string]any `json:"data"`
	} `json:"payload"`
}

// inbox returns all messages of an agent, each verified if the registry signed it.
func inbox(t *testing.T, a *bridgetest.Agent) []message {
	t.Helper()
	raws, _, err := a.Inbox(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	messages := make([]message, len(raws))
	for i, raw := range raws {
		if err := json.Unmarshal(raw, &messages[i]); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(messages[i].KeyID, "reg_") {
			if err := a.Verify(raw); err != nil {
				t.Errorf("message %d: %v", i, err)
			}
		}
	}
	return messages
}

// types lists the sender and the type of each message, as in "system
// system:handshake_request".
func types(messages []message) []string {
	var list []string
	for _, m := range messages {
		list = append(list, m.From+" "+m.Payload.Type)
	}
	return list
}

// payload returns typed data.
func payload(kind string, data map[string]any) map[string]any {
	return map[string]any{"type": kind, "data": data}
}

func ack(replyTo, status string) map[string]any {
	return payload("ack", map[string]any{"replyTo": replyTo, "status": status})
}

func result(request, status string, more ...any) map[string]any {
	data := map[string]any{"requestId": request, "status": status}
	for i := 0; i < len(more); i += 2 {
		data[more[i].(string)] = more[i+1]
	}
	return payload("task:result", data)
}

// noCapabilities knows the capabilities of no DID.
type noCapabilities struct{}

func (noCapabilities) Declared(context.Context, federation.DID) ([]string, error) { return nil, nil }

// end lets the registry end.
func (w *world) end(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	if err := w.link.Run(ctx, stop); !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
}

// revoked returns the record's end of a key.
func (w *world) revoked(ctx context.Context, did federation.DID, keyID string, at time.Time) (bool, error) {
	history, err := w.record.History(ctx, did)
	none := func(federation.KeyWindow) bool { return false }
	return history.Standing(keyID, at, none) == federation.KeyEnded, err
}

// anyMayCome limits no new DIDs.
func anyMayCome(context.Context, federation.DID, time.Time) error { return nil }
