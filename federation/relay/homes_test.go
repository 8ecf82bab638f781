package relay_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/relay"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
	"github.com/baton-gateway/baton/translate/dialect"
)

// keyring knows the keys of homes and of did:keys.
type keyring struct {
	mu    sync.Mutex
	keys  map[federation.DID]ed25519.PublicKey
	ended map[federation.DID]time.Time
}

func (k *keyring) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	if key, err := identity.ParseKeyDID(q.DID); err == nil {
		return []ed25519.PublicKey{key}, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if at, ended := k.ended[q.DID]; ended && q.Received.After(at) {
		return nil, federation.ErrKeyEnded
	}
	if key, ok := k.keys[q.DID]; ok {
		return []ed25519.PublicKey{key}, nil
	}
	return nil, &federation.UnavailableError{What: "keys", Err: errors.New("unknown")}
}

func (*keyring) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// keyOf returns the key of a person, as a did:key.
func keyOf(name string) federation.SigningKey {
	seed := sha256.Sum256([]byte(name))
	private := ed25519.NewKeyFromSeed(seed[:])
	public, _ := private.Public().(ed25519.PublicKey)
	return federation.SigningKey{Public: public, DID: identity.KeyDID(public), Sign: func(_ context.Context, m []byte) ([]byte, error) {
		return ed25519.Sign(private, m), nil
	}}
}

// gate is one home in a test: a record, a judge, and the people whose
// mailboxes it has.
type gate struct {
	t       *testing.T
	id      federation.HomeID
	key     federation.SigningKey
	record  *registry.Record
	home    *home.Home
	server  *httptest.Server
	deps    relay.Deps
	peers   map[federation.HomeID]*relay.Peer
	wakes   *relay.Relay
	people  map[federation.DID]federation.HomeID // all of the world's
	mu      sync.Mutex
	refused []federation.RefusalCode // of steps that waited
	lose    int                      // how many answers still get lost
	sent    int                      // batches with steps
	told    []string                 // errors of [home.Home.FileRuled]
	said    []federation.Text        // private text filed here
	deaf    bool                     // every recipient here blocks every sender
	unaware bool                     // this home answers text as one that knows none
	last    []byte                   // last batch with steps
	unread  error                    // of the record of mailboxes
	// moved is the former mailbox homes of people moved here.
	moved map[federation.DID]federation.HomeID
	// gone is the mailboxes moved away from here.
	gone []federation.MovedMailbox
	// forward is the homes that are also sent steps ruled by other homes.
	forward []federation.HomeID
	ahead   atomic.Int64 // nanoseconds, of its clock
	stopped time.Time    // is that its clock; zero for a running one
}

// now is the time of its clock.
func (g *gate) now() time.Time {
	if !g.stopped.IsZero() {
		return g.stopped
	}
	return time.Now().Add(time.Duration(g.ahead.Load()))
}

func (g *gate) later() { g.ahead.Add(int64(2 * time.Second)) }

// newGates returns homes that know each other, with alice, bob and carol at the first
// three.
func newGates(t *testing.T, names ...federation.HomeID) []*gate {
	t.Helper()
	ring := &keyring{keys: map[federation.DID]ed25519.PublicKey{}, ended: map[federation.DID]time.Time{}}
	people := map[federation.DID]federation.HomeID{}
	for i, name := range []string{"alice", "bob", "carol"} {
		if i < len(names) {
			people[keyOf(name).DID] = names[i]
		}
	}
	var all []*gate
	for _, name := range names {
		g := &gate{t: t, id: name, key: keyOf(string(name)), record: storetest.Open(t), peers: map[federation.HomeID]*relay.Peer{}, wakes: open(t), people: people}
		g.key.DID = name.DID()
		ring.keys[name.DID()] = g.key.Public
		g.home = &home.Home{
			Rules: home.Rules{ID: name, Kinds: lifecycle.Shipped()},
			Key:   g.key, Record: g.record,
			Keys: ring, Route: g.Route, Rates: home.NewRates(), Entropy: rand.Reader,
			Same:  func(_ context.Context, a, b federation.DID) (bool, error) { return a == b, nil },
			Write: dialect.Write, Read: dialect.Read,
		}
		g.deps = relay.Deps{
			Home: name, Record: g.record, Gateway: g, Mailboxes: g, Signer: signer{g, ring}, Poster: g, PubSub: g.wakes,
			Log: slog.New(slog.DiscardHandler), Read: dialect.FromDocument, ReadText: readText, Now: g.now,
			Topic:   func(home federation.HomeID) string { return "ruling." + string(home) },
			MaxHops: func() int { return 3 },
		}
		mux := http.NewServeMux()
		(&relay.PeerHandler{Deps: g.deps, Peer: func(home federation.HomeID) *relay.Peer { return g.peers[home] }}).Mount(mux)
		g.server = httptest.NewServer(mux)
		t.Cleanup(g.server.Close)
		all = append(all, g)
	}
	for _, g := range all {
		for _, other := range all {
			if g != other {
				g.peers[other.id] = relay.NewPeer(relay.PeerConfig{Home: other.id, URL: other.server.URL, Mode: relay.Allow}, g.deps)
			}
		}
	}
	return all
}

// run keeps the link from one home to another running until the test ends.
func (g *gate) run(to *gate) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	ended := make(chan struct{})
	up := make(chan struct{})
	var once sync.Once
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_ = g.peers[to.id].Run(ctx, func() { once.Do(func() { close(up) }) })
		}
	}()
	g.t.Cleanup(func() { cancel(); <-ended })
	g.waitUp(up)
}

// waitUp waits until a link to another home is up.
func (g *gate) waitUp(up <-chan struct{}) {
	g.t.Helper()
	select {
	case <-up:
	case <-time.After(6 * patience):
		g.t.Fatalf("%s reaches no other home", g.id)
	}
}

type signer struct {
	*gate
	ring *keyring
}

func (s signer) Sign(ctx context.Context, message []byte) (string, error) {
	return signing.SignHome(ctx, s.key, message)
}

func (s signer) Verify(ctx context.Context, by federation.HomeID, at time.Time, message []byte, signature string) (federation.Verdict, error) {
	return signing.VerifyHome(ctx, s.ring, by, message, signature, at)
}

// endKey ends the key of a home, for all homes.
func (g *gate) endKey(at time.Time) {
	g.t.Helper()
	ring := g.deps.Signer.(signer).ring //nolint:forcetypeassert // it is one
	ring.mu.Lock()
	defer ring.mu.Unlock()
	ring.ended[g.id.DID()] = at
}

// Route is the route of home.Home: other homes get the steps that their people take part in.
func (g *gate) Route(_ context.Context, ev federation.Event, after federation.View) (federation.Fanout, error) {
	var owed federation.Fanout
	if after.Home != g.id {
		for _, id := range g.forward {
			owed.Links = append(owed.Links, string(id))
		}
		return owed, nil
	}
	for id := range g.peers {
		takesPart := after.Offeree == ""
		for _, did := range after.Others("") {
			takesPart = takesPart || g.people[did] == id
		}
		if takesPart && ev.Arrival.Link != string(id) {
			owed.Links = append(owed.Links, string(id))
		}
	}
	return owed, nil
}

func (g *gate) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	judged, err := g.home.Submit(ctx, ev, g.now())
	if judged.Awaits {
		g.wakes.Wake("ruling." + string(judged.View.Home))
	}
	return judged, err
}

func (g *gate) FileRuled(ctx context.Context, ev federation.Event, r federation.Ruling) (federation.Judgement, error) {
	judged, err := g.home.FileRuled(ctx, ev, r, g.now())
	if err != nil {
		g.mu.Lock()
		g.told = append(g.told, err.Error())
		g.mu.Unlock()
	}
	return judged, err
}

func (g *gate) RejectPending(ctx context.Context, p federation.Pending, code federation.RefusalCode, _ string) error {
	g.mu.Lock()
	g.refused = append(g.refused, code)
	g.mu.Unlock()
	return g.home.Drop(ctx, p.Event)
}

func (*gate) Place(context.Context, federation.Event) (federation.ChannelRef, error) {
	return federation.ChannelRef{}, nil
}

func (g *gate) MaySpeakFor(_ context.Context, did federation.DID, by ...federation.HomeID) (bool, error) {
	return slices.Contains(by, g.people[did]) && g.unread == nil, g.unread
}

func (g *gate) Here(_ context.Context, did federation.DID) (bool, error) {
	return g.people[did] == g.id, nil
}

func (g *gate) MovedHere(_ context.Context, did federation.DID, from federation.HomeID) (bool, error) {
	return g.moved[did] == from, nil
}

// MovedFrom implements [relay.Mailboxes].
func (g *gate) MovedFrom(_ context.Context, from federation.HomeID) (bool, error) {
	return slices.Contains(slices.Collect(maps.Values(g.moved)), from), nil
}

func (g *gate) TakeOver(_ context.Context, did federation.DID, from federation.HomeID, _ time.Time) (string, error) {
	if g.people[did] != from {
		return "it is not there", nil
	}
	g.people[did] = g.id
	return "", nil
}

func (g *gate) MovedAway(context.Context, federation.View, time.Time) []federation.MovedMailbox {
	return g.gone
}

func (g *gate) LearnMove(_ context.Context, gone federation.MovedMailbox, from federation.HomeID, _ time.Time) error {
	if g.people[gone.DID] == from {
		g.people[gone.DID] = gone.Home
	}
	return nil
}

func (g *gate) Post(ctx context.Context, address string, e relay.Envelope) (relay.Envelope, error) {
	answer, err := exchange(ctx, http.MethodPost, address, e)
	g.mu.Lock()
	defer g.mu.Unlock()
	steps := bytes.Contains(e.Body, []byte(`"items":[{`))
	if steps {
		g.sent++
		g.last = e.Body
	}
	if g.lose > 0 && steps {
		g.lose--
		return relay.Envelope{}, &federation.UnavailableError{What: "answer", Err: io.ErrUnexpectedEOF}
	}
	return answer, err
}

func (*gate) Get(ctx context.Context, address string) (relay.Envelope, error) {
	return exchange(ctx, http.MethodGet, address, relay.Envelope{})
}

func exchange(ctx context.Context, method, address string, e relay.Envelope) (relay.Envelope, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(e.Body))
	if err != nil {
		return relay.Envelope{}, err
	}
	request.Header = e.Header()
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return relay.Envelope{}, &federation.UnavailableError{What: "home", Err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return relay.Envelope{}, &federation.UnavailableError{What: "home", Err: fmt.Errorf("status %d %s: %w", response.StatusCode, text, err)}
	}
	return relay.NewEnvelope(text, response.Header), nil
}

func (g *gate) take(by string, verb federation.Verb, change ...func(*federation.Event)) (federation.Judgement, federation.Event) {
	g.t.Helper()
	judged, ev, err := g.try(by, verb, change...)
	if err != nil {
		g.t.Fatalf("%s of %s: %v", verb, by, err)
	}
	return judged, ev
}

func (g *gate) try(by string, verb federation.Verb, change ...func(*federation.Event)) (federation.Judgement, federation.Event, error) {
	g.t.Helper()
	ev := g.sign(by, verb, change...)
	judged, err := g.Submit(g.t.Context(), ev)
	return judged, ev, err
}

func (g *gate) sign(by string, verb federation.Verb, change ...func(*federation.Event)) federation.Event {
	g.t.Helper()
	key := keyOf(by)
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		g.t.Fatal(err)
	}
	ev := federation.Event{
		ID: id, Handoff: id, Kind: federation.Handoff, Verb: verb, From: key.DID, Venue: "#ops", Dialect: federation.HandoffTags,
		Provenance: federation.Signed, Arrival: federation.Arrival{Network: "spanningtree", Link: "lab", Received: time.Now()},
	}
	for _, c := range change {
		c(&ev)
	}
	ev.Fields, _ = dialect.Write(ev)
	if ev, err = signing.Seal(g.t.Context(), key, ev); err != nil {
		g.t.Fatal(err)
	}
	return ev
}

func to(name string) func(*federation.Event) {
	return func(ev *federation.Event) { ev.To, ev.Title = keyOf(name).DID, "Review it" }
}

func anyone(ev *federation.Event) { ev.Title = "Review it" }

func in(id federation.HandoffID) func(*federation.Event) {
	return func(ev *federation.Event) { ev.Handoff = id }
}

// deliver delivers the pending rows for another home, once; the error is that of the first row that
// stays.
func (g *gate) deliver(to *gate) error {
	g.t.Helper()
	rows, err := g.record.Outbox(g.t.Context(), string(to.id), federation.Delivery{}, 100)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, d := range rows {
		if err := g.peers[to.id].Deliver(g.t.Context(), d); err != nil {
			return err
		}
		if err := g.record.Rows().Settle(g.t.Context(), string(to.id), []int64{d.Row}, federation.Settlement{At: time.Now()}); err != nil {
			g.t.Fatal(err)
		}
	}
	return nil
}

// offers returns an offer between two people that is delivered to another home.
func (g *gate) offers(at *gate, offerer, offeree string) federation.Event {
	g.t.Helper()
	_, offer := g.take(offerer, federation.Offer, to(offeree))
	if err := g.deliver(at); err != nil {
		g.t.Fatal(err)
	}
	return offer
}

func (g *gate) log(id federation.HandoffID) string {
	g.t.Helper()
	var verbs []string
	for entry, err := range g.record.Log(g.t.Context(), id, 0) {
		if err != nil {
			g.t.Fatal(err)
		}
		verbs = append(verbs, string(entry.Event.Verb))
	}
	return strings.Join(verbs, " ")
}

// comes waits until a home has these steps of a handoff.
func (g *gate) comes(id federation.HandoffID, verbs string) {
	g.t.Helper()
	deadline := time.Now().Add(patience)
	for g.log(id) != verbs {
		if time.Now().After(deadline) {
			g.t.Fatalf("%s has %q, want %q; %v", g.id, g.log(id), verbs, g.told)
		}
		time.Sleep(time.Millisecond)
	}
}

// worksWith has alice at one home offer something that bob at another one accepts, and
// returns the offer once both homes have that.
func (g *gate) worksWith(other *gate) federation.Event {
	g.t.Helper()
	_, offer := g.take("alice", federation.Offer, to("bob"))
	if err := g.deliver(other); err != nil {
		g.t.Fatal(err)
	}
	other.comes(offer.ID, "offer")
	other.take("bob", federation.Accept, in(offer.ID))
	other.comes(offer.ID, "offer accept")
	return offer
}

func TestDeliverReachesTheHomesOfTheParties(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	a.run(b)
	b.run(a)
	_, offer := a.take("alice", federation.Offer, to("bob"))
	if err := a.deliver(b); err != nil {
		t.Fatal(err)
	}
	b.comes(offer.ID, "offer")
	judged, _ := b.take("bob", federation.Accept, in(offer.ID))
	if !judged.Awaits {
		t.Errorf("the accept was filed before its home ruled: %+v", judged)
	}
	b.comes(offer.ID, "offer accept")
	a.comes(offer.ID, "offer accept")
	b.take("bob", federation.Progress, in(offer.ID))
	b.comes(offer.ID, "offer accept progress") // the home also rules on steps that move nothing
	b.take("bob", federation.Complete, in(offer.ID))
	b.comes(offer.ID, "offer accept progress complete")
	for version := federation.Version(1); version <= 4; version++ {
		here, errHere := a.record.Chain(t.Context(), offer.ID, version)
		there, errThere := b.record.Chain(t.Context(), offer.ID, version)
		if here != there || errHere != nil || errThere != nil {
			t.Errorf("chain %d is %x here and %x there (%v, %v)", version, here, there, errHere, errThere)
		}
	}
	if rows, err := a.record.Outbox(t.Context(), "b.test", federation.Delivery{}, 10); err != nil || len(rows) > 0 {
		t.Errorf("%d rows are still owed (%v)", len(rows), err)
	}
}

func TestDeliverRepeatsAfterALostAnswer(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	a.run(b)
	b.run(a)
	_, offer := a.take("alice", federation.Offer, to("bob"))
	a.lose = 1
	if err := a.deliver(b); err == nil {
		t.Fatal("a row ended without the other home's word")
	}
	b.comes(offer.ID, "offer")
	for a.deliver(b) != nil { // until the link is up again
		time.Sleep(time.Millisecond)
	}
	b.mu.Lock()
	b.lose = 1
	b.mu.Unlock()
	b.take("bob", federation.Accept, in(offer.ID))
	b.comes(offer.ID, "offer accept")
	if got := a.log(offer.ID); got != "offer accept" {
		t.Errorf("a has %q", got)
	}
	inbox, err := b.record.Replay(t.Context(), keyOf("bob").DID, "", 10)
	if err != nil || len(inbox) != 1 {
		t.Errorf("bob has %d entries (%v), want the offer once", len(inbox), err)
	}
}

func TestDeliverSendsMissingStepsFirst(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	a.run(b)
	_, offer := a.take("alice", federation.Offer, to("bob"))
	a.take("alice", federation.Cancel, in(offer.ID))
	rows, err := a.record.Outbox(t.Context(), "b.test", federation.Delivery{}, 10)
	if err != nil || len(rows) != 2 {
		t.Fatal(len(rows), err)
	}
	if err := a.peers["b.test"].Deliver(t.Context(), rows[1]); err != nil {
		t.Fatal(err)
	}
	b.comes(offer.ID, "offer cancel")
	if err := a.deliver(b); err != nil { // the first again, and the second
		t.Error(err)
	}
}

func TestOpenOfferHasOneWinner(t *testing.T) {
	all := newGates(t, "a.test", "b.test", "c.test")
	a, b, c := all[0], all[1], all[2]
	for _, g := range all[1:] {
		a.run(g)
		g.run(a)
	}
	_, offer := a.take("alice", federation.Offer, anyone)
	for _, g := range all[1:] {
		if err := a.deliver(g); err != nil {
			t.Fatal(err)
		}
	}
	b.take("bob", federation.Claim, in(offer.ID))
	c.take("carol", federation.Claim, in(offer.ID))
	a.comes(offer.ID, "offer claim")
	winner, loser := b, c
	view, err := a.record.View(t.Context(), offer.ID)
	if err != nil {
		t.Fatal(err)
	}
	if view.Assignee == keyOf("carol").DID {
		winner, loser = c, b
	}
	winner.comes(offer.ID, "offer claim")
	if err := a.deliver(loser); err != nil {
		t.Fatal(err)
	}
	loser.comes(offer.ID, "offer claim")
	deadline := time.Now().Add(patience)
	for {
		loser.mu.Lock()
		told := len(loser.refused)
		loser.mu.Unlock()
		if told == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the loser was not told")
		}
		time.Sleep(time.Millisecond)
	}
	if got, err := loser.record.View(t.Context(), offer.ID); err != nil || got.Assignee != view.Assignee {
		t.Errorf("%s thinks that %s won (%v), want %s", loser.id, got.Assignee, err, view.Assignee)
	}
}

func TestHousesAnswersForLocalMailboxes(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	for name, want := range map[string]bool{"bob": true, "alice": false, "unknown": false} {
		if got, err := all[0].peers["b.test"].Houses(t.Context(), keyOf(name).DID); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
}

// post sends a batch that a test wrote, signed by a home, on a path, and returns the
// answer.
func post(t *testing.T, by, at *gate, batch map[string]any, path ...federation.HomeID) (map[string]any, error) {
	t.Helper()
	body, err := json.Marshal(batch)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signing.SignHome(t.Context(), by.key, body)
	if err != nil {
		t.Fatal(err)
	}
	said, err := exchange(t.Context(), http.MethodPost, at.server.URL+string(relay.StepsPath), relay.Envelope{Body: body, Signature: signature, Path: path})
	if err != nil {
		return nil, err
	}
	var answer map[string]any
	return answer, json.Unmarshal(said.Body, &answer)
}

func written(from, to federation.HomeID, items ...map[string]any) map[string]any {
	return map[string]any{"type": "steps", "v": 1, "from": from, "to": to, "sent": time.Now(), "items": append([]map[string]any{}, items...)}
}

func ruled(t *testing.T, by *gate, as federation.HomeID, ev federation.Event, version federation.Version, chain [32]byte) map[string]any {
	t.Helper()
	it := plain(ev)
	it["ruling"] = by.says(map[string]any{
		"type": "ruling", "v": 1, "home": as, "handoff": ev.Handoff, "event": ev.ID, "version": version,
		"chain": fmt.Sprintf("%x", chain), "filed": time.Now().UTC(),
	})
	return it
}

func (g *gate) says(what map[string]any) map[string]any {
	g.t.Helper()
	document, err := json.Marshal(what)
	if err != nil {
		g.t.Fatal(err)
	}
	signature, err := signing.SignHome(g.t.Context(), g.key, document)
	if err != nil {
		g.t.Fatal(err)
	}
	return map[string]any{"document": string(document), "signature": signature}
}

// plain returns a step without a ruling.
func plain(ev federation.Event) map[string]any {
	return map[string]any{"step": map[string]any{
		"document": ev.Signature.Document, "signature": ev.Signature.Text, "id": ev.ID, "provenance": "signed", "received": time.Now().UTC(),
	}}
}

func TestPeerHandlerRefusesLies(t *testing.T) {
	all := newGates(t, "a.test", "b.test", "c.test")
	a, b, mallory := all[0], all[1], all[2]
	stranger := newGates(t, "x.test")[0]
	offer := a.sign("alice", federation.Offer, to("bob"))
	chain := federation.Link([32]byte{}, offer.Signature.Document)
	for name, test := range map[string]struct {
		by    *gate
		batch map[string]any
		want  string
	}{
		"an unknown home":                             {stranger, written("x.test", "b.test"), "status 403"},
		"in the name of another home":                 {mallory, written("a.test", "b.test", ruled(t, a, "a.test", offer, 1, chain)), "status 401"},
		"what was meant for another home":             {a, written("a.test", "c.test"), "status 400"},
		"an unknown member":                           {a, map[string]any{"type": "steps", "v": 1, "from": "a.test", "to": "b.test", "sent": time.Now(), "items": []any{}, "more": 1}, "status 400"},
		"an unknown version":                          {a, map[string]any{"type": "steps", "v": 2, "from": "a.test", "to": "b.test", "sent": time.Now(), "items": []any{}}, "status 400"},
		"the ruling of another home":                  {mallory, written("c.test", "b.test", ruled(t, a, "a.test", offer, 1, chain)), "wrong-sender"},
		"a ruling signed by another":                  {a, written("a.test", "b.test", ruled(t, mallory, "a.test", offer, 1, chain)), "signature-invalid"},
		"a chain that is not of the step":             {a, written("a.test", "b.test", ruled(t, a, "a.test", offer, 1, [32]byte{1})), "wrong-reference"},
		"a version that no step can have":             {a, written("a.test", "b.test", ruled(t, a, "a.test", offer, math.MaxUint64, chain)), "invalid-tag"},
		"a step without the signature of its sender":  {a, written("a.test", "b.test", ruled(t, a, "a.test", forged(offer), 1, chain)), "signature-invalid"},
		"a step in a handoff that is not known there": {a, written("a.test", "b.test", plain(a.sign("alice", federation.Cancel, in(offer.ID)))), "unknown-handoff"},
		"an offer without a ruling":                   {a, written("a.test", "b.test", plain(offer)), "wrong-sender"},
	} {
		answer, err := post(t, test.by, b, test.batch)
		if got := fmt.Sprint(answer, err); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	if got := b.log(offer.ID); got != "" {
		t.Errorf("b has %q of it", got)
	}
}

func forged(ev federation.Event) federation.Event {
	last := ev.Signature.Text[len(ev.Signature.Text)-4]
	swap := byte('A')
	if last == swap {
		swap = 'B'
	}
	text := []byte(ev.Signature.Text)
	text[len(text)-4] = swap
	ev.Signature.Text = string(text)
	return ev
}

func TestPeerHandlerDetectsForks(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	offer := a.sign("alice", federation.Offer, to("bob"))
	first := federation.Link([32]byte{}, offer.Signature.Document)
	cancel, other := a.sign("alice", federation.Cancel, in(offer.ID)), a.sign("alice", federation.Cancel, in(offer.ID))
	answer, err := post(t, a, b, written("a.test", "b.test",
		ruled(t, a, "a.test", offer, 1, first),
		ruled(t, a, "a.test", cancel, 2, federation.Link(first, cancel.Signature.Document)),
		ruled(t, a, "a.test", other, 2, federation.Link(first, other.Signature.Document)),
		ruled(t, a, "a.test", cancel, 2, federation.Link(first, cancel.Signature.Document)),
	))
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []string
	results, _ := answer["results"].([]any)
	for _, r := range results {
		result, _ := r.(map[string]any)
		outcomes = append(outcomes, fmt.Sprint(result["outcome"]))
	}
	if got := strings.Join(outcomes, " "); got != "stored stored conflict refused" {
		t.Errorf("outcomes %s", got)
	}
	forks, err := b.record.Forks(t.Context(), "a.test", 10)
	if err != nil || len(forks) != 1 {
		t.Fatalf("%d proofs (%v), want one", len(forks), err)
	}
	proof := forks[0]
	for name, r := range map[string]federation.Ruling{"first": proof.First, "second": proof.Second} {
		if verdict, err := signing.VerifyHome(t.Context(), b.home.Keys, "a.test", []byte(r.Document), r.Signature, time.Now()); verdict != federation.Valid {
			t.Errorf("the %s ruling of the proof: %s, %v", name, verdict, err)
		}
	}
	if proof.First.Document == proof.Second.Document || proof.Version != 2 {
		t.Errorf("the proof is %+v", proof)
	}
}

func TestOperatorModeAppliesAtOnce(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	a.run(b)
	peer := a.peers["b.test"]
	_, offer := a.take("alice", federation.Offer, to("bob"))

	peer.SetOperatorMode(relay.Block)
	if gone, ok := errors.AsType[*federation.DeadLetterError](a.deliver(b)); !ok || gone.Reason != federation.DeadBlocked {
		t.Errorf("a delivery to a home that is blocked: %v", gone)
	}
	if _, err := post(t, b, a, written("b.test", "a.test")); err == nil || !strings.Contains(err.Error(), "status 403") {
		t.Errorf("what a home sends that is blocked: %v", err)
	}
	peer.SetOperatorMode(relay.Hold)
	if err := a.deliver(b); err == nil || isRefused(err, federation.PolicyDenied) {
		t.Errorf("a delivery to a home on hold: %v", err)
	}
	if _, err := post(t, b, a, written("b.test", "a.test", plain(offer))); err == nil || !strings.Contains(err.Error(), "status 503") {
		t.Errorf("what a home sends on hold: %v", err)
	}
	peer.SetOperatorMode("")
	deadline := time.Now().Add(patience)
	for err := a.deliver(b); err != nil; err = a.deliver(b) {
		if time.Now().After(deadline) {
			t.Fatalf("after the word was taken back: %v", err)
		}
	}
	if got := b.log(offer.ID); got != "offer" {
		t.Errorf("b has %q", got)
	}
	if skew := peer.Skew(); skew <= 0 || skew > patience {
		t.Errorf("b's clock is told %s behind this one", skew)
	}
}

// isRefused reports whether an error is a refusal with a code.
func isRefused(err error, code federation.RefusalCode) bool {
	refused, ok := errors.AsType[*federation.RefusalError](err)
	return ok && refused.Code == code
}
