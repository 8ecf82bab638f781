package bridgetest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/routing"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
	"github.com/baton-gateway/baton/translate/dialect"
)

// Participants is a gateway for networks of agents: a real home on a record, with the one channel
// #ops. Its DIDs are did:keys. A test may change the exported fields before the start.
type Participants struct {
	Record *registry.Record
	Home   *home.Home
	Woken  *Topics

	Steps  int // remaining steps of each DID
	Logins int // maximum requests per minute and address; 0 for no limit

	mu      sync.Mutex
	members map[string][]federation.DID // by channel
	charged int
}

// NewParticipants returns a new gateway.
func NewParticipants(tb testing.TB) *Participants {
	tb.Helper()
	p := &Participants{Record: storetest.Open(tb), Woken: &Topics{}, Steps: 59, members: map[string][]federation.DID{}}
	p.Home = &home.Home{
		Rules: home.Rules{ID: "gw.example", Kinds: lifecycle.Shipped(), Limits: home.Limits{ClockSkew: 120 * time.Second}, CheckDID: identity.CheckDID},
		Key:   SeededKey("server"), Record: p.Record,
		Keys: keyDIDs{}, Entropy: rand.Reader, Rates: home.NewRates(), Route: keptKeys{p}.Route, Same: p.Same, Owner: p.Owner,
		Write: dialect.Write, Read: dialect.Read,
	}
	return p
}

// Deps returns the dependencies of a network of agents.
func (p *Participants) Deps() participant.Deps {
	ports := Ports(p)
	ports.HTTP, ports.PubSub, ports.Bindings = bridge.HTTP{MaxBodyBytes: 65536, MaxWait: 50 * time.Second, MaxStreams: 2000}, p.Woken, KeptNames{Record: p.Record}
	ports.Evidence, ports.Keys, ports.Log = Contexts(p.Record, 1<<20, 0), Keys{Prove: proveKeyDID}, slog.New(slog.DiscardHandler)
	ports.Metrics = bridge.NewMetrics(prometheus.NewRegistry())
	return participant.Deps{
		Ports: ports, Record: storetest.Bound(p.Record), Inbox: p.Record, Callers: operators{}, Venues: p, Rates: p, Passports: passports{}, Seen: p.seen,
		Streams: &participant.Streams{}, Logins: credential.NewAddresses(func() int { return p.Logins }, time.Minute),
		Guesses: credential.NewGuesses(), TokenKey: bytes.Repeat([]byte{7}, 32),
	}
}

func (p *Participants) seen(ctx context.Context, did federation.DID) (bool, error) {
	if _, known, err := p.Record.Acquainted(ctx, did); known || err != nil {
		return known, err
	}
	return p.Record.Seen(ctx, did)
}

// Join puts a DID into a channel.
func (p *Participants) Join(venue string, did federation.DID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members[venue] = append(p.members[venue], did)
}

// Charged returns the number of counted steps that the home never judged.
func (p *Participants) Charged() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.charged
}

// Submit implements [bridge.Gateway].
func (p *Participants) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	judged, err := p.Home.Submit(ctx, ev, time.Now())
	if err == nil {
		for _, did := range judged.View.Others(judged.Entry.Event.Actor()) {
			p.Woken.Wake(bridge.DIDTopic(did))
		}
		p.Woken.Wake(bridge.WebhooksTopic, bridge.HandoffTopic(judged.View.ID))
	}
	return judged, err
}

// View implements [bridge.Gateway].
func (p *Participants) View(ctx context.Context, id federation.HandoffID) (federation.View, error) {
	return p.Record.View(ctx, id)
}

// Expected implements [bridge.Gateway].
func (p *Participants) Expected(ctx context.Context, id federation.HandoffID, party federation.DID) (federation.View, error) {
	return p.Home.Expected(ctx, id, party)
}

// Name implements [bridge.Gateway].
func (p *Participants) Name(ctx context.Context, did federation.DID) string {
	if declaration, err := p.Record.Declaration(ctx, did); err == nil && declaration.Name != "" {
		return declaration.Name
	}
	return did.Short()
}

// Same implements [bridge.Gateway].
func (*Participants) Same(_ context.Context, a, b federation.DID) (bool, error) {
	return a == b || SeededKey("person:"+string(a)).DID == b || SeededKey("person:"+string(b)).DID == a, nil
}

// DIDs implements [bridge.Gateway].
func (*Participants) DIDs(_ context.Context, did federation.DID) ([]federation.DID, error) {
	return []federation.DID{did, SeededKey("person:" + string(did)).DID}, nil
}

// Owner implements [bridge.Gateway].
func (p *Participants) Owner(ctx context.Context, did federation.DID) (federation.DID, error) {
	return p.owners().Owner(ctx, did)
}

func (p *Participants) owners() routing.Owners {
	return routing.Owners{Record: p.Record, Kept: SeededKey, DIDKey: identity.ParseKeyDID}
}

// keptKeys routes only to the gateway's keys for the parties, and to no links.
type keptKeys struct{ of *Participants }

// Route implements the router of [home.Home].
func (k keptKeys) Route(_ context.Context, _ federation.Event, after federation.View) (to federation.Fanout, err error) {
	for _, did := range after.Others("") {
		to.Kept = append(to.Kept, k.of.owners().KeptFor(did))
	}
	return to, nil
}

// Place implements [bridge.Gateway].
func (*Participants) Place(context.Context, federation.DID, federation.DID, string) (federation.ChannelRef, federation.Dialect, error) {
	return federation.ChannelRef{}, federation.HandoffTags, nil
}

// ChannelLinks implements [participant.Venues].
func (*Participants) ChannelLinks() []bridge.ChannelLink { return []bridge.ChannelLink{placer{}} }

// Present implements [participant.Venues].
func (p *Participants) Present(_ context.Context, venue string, did federation.DID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.members[venue], did)
}

// Statuses implements [participant.Venues].
func (*Participants) Statuses() []bridge.LinkStatus { return nil }

// Left implements [participant.Rates].
func (p *Participants) Left(_ federation.DID, now time.Time) bridge.Allowance {
	return bridge.Allowance{Limit: 60, Left: p.Steps, Full: now}
}

// Charge implements [participant.Rates].
func (p *Participants) Charge(federation.DID, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.charged++
}

func proveKeyDID(_ context.Context, did federation.DID, message, signature []byte) (federation.PublicKey, federation.Verdict, error) {
	key, err := identity.ParseKeyDID(did)
	if err == nil && ed25519.Verify(key, message, signature) {
		return federation.PublicKey{Kind: federation.Ed25519, Bytes: key}, federation.Valid, nil
	}
	return federation.PublicKey{}, federation.Invalid, nil
}

type keyDIDs struct{}

// Keys implements the key source of a home.
func (keyDIDs) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	key, err := identity.ParseKeyDID(q.DID)
	return []ed25519.PublicKey{key}, err
}

// KeyOwner implements the key source of a home.
func (keyDIDs) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

type operators struct{}

// Authenticate implements [participant.Callers].
func (operators) Authenticate(*http.Request) (who bridge.Authenticated, ok bool, err error) {
	return who, false, nil
}

// Operator implements [participant.Callers].
func (operators) Operator(r *http.Request) (bool, error) {
	text, err := credential.Bearer(r)
	return err == nil && text == "operator", nil
}

type passports struct{}

// Passport implements [participant.Passports].
func (passports) Passport(context.Context, federation.View, time.Time) (bridge.Document, error) {
	return bridge.Document{MediaType: "application/vnd.baton.passport+json", Content: []byte(`{"passport":1}`)}, nil
}

type placer struct{ bridge.ChannelLink }

// Channels implements [bridge.ChannelLink].
func (placer) Channels() []string { return []string{"#ops"} }

// Dialect implements [bridge.ChannelLink].
func (placer) Dialect() federation.Dialect { return federation.HandoffTags }

// Topics implements [bridge.PubSub] in memory.
type Topics struct {
	mu      sync.Mutex
	waiting map[string]map[chan struct{}]bool
}

// Wake implements [bridge.PubSub].
func (w *Topics) Wake(topics ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, topic := range topics {
		for wake := range w.waiting[topic] {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	}
}

// Waiting returns the number of waiters, except those for the end of a session.
func (w *Topics) Waiting() (total int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for topic, each := range w.waiting {
		if !strings.HasPrefix(topic, bridge.SessionsTopic("")) {
			total += len(each)
		}
	}
	return total
}

// WaitingFor returns the number of current waiters for a topic.
func (w *Topics) WaitingFor(topic string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting[topic])
}

// Subscribe implements [bridge.PubSub].
func (w *Topics) Subscribe(topic string) (<-chan struct{}, func()) {
	wake := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[string]map[chan struct{}]bool{}
	}
	if w.waiting[topic] == nil {
		w.waiting[topic] = map[chan struct{}]bool{}
	}
	w.waiting[topic][wake] = true
	return wake, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting[topic], wake)
	}
}
