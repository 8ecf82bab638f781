package macp_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/macp"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/storetest"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

type runtimeTable macp.Runtime

// Decode implements [bridge.Table].
func (t runtimeTable) Decode(into any) {
	if cfg, ok := into.(*macp.Runtime); ok {
		*cfg = macp.Runtime(t)
	}
}

// guest is a gateway that takes part in a runtime of another operator.
type guest struct {
	gateway *gateway
	cfg     macp.Runtime
	deps    macp.Deps
	secrets bridgetest.Secrets
	metrics *bridge.Metrics
	link    bridge.Link
	stop    func()
}

const (
	guestDID = federation.DID("did:plc:bbbbbbbbbbbbbbbbbbbbbbbb")
	bobDID   = federation.DID("did:web:gw.example:macp:research:bob")
)

func newGuest(t *testing.T, address, token string) *guest {
	t.Helper()
	return newGuestWith(t, address, token, "transfer")
}

func newGuestWith(t *testing.T, address, token, profile string) *guest {
	t.Helper()
	record := storetest.Open(t)
	g := &guest{
		gateway: &gateway{views: map[federation.HandoffID]federation.View{}}, secrets: bridgetest.Secrets{"token": token},
		cfg:  macp.Runtime{Name: "research", URL: "http://" + address, TokenFile: "token", Participant: "baton", DID: string(guestDID), Profile: profile},
		deps: macp.Deps{Journals: record.Journals, Steps: storetest.Bound(record), Bounds: bounds(time.Hour), Version: "test"},
	}
	g.start(t)
	t.Cleanup(func() { g.stop() })
	return g
}

func (g *guest) start(t *testing.T) {
	t.Helper()
	ports := bridgetest.Ports(g.gateway)
	ports.Secrets, g.metrics = g.secrets, ports.Metrics
	link, err := macp.Runtimes(g.deps).Open(runtimeTable(g.cfg), ports)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	up, ended := make(chan struct{}), make(chan error, 1)
	connected := sync.OnceFunc(func() { close(up) })
	go func() {
		var err error
		for ctx.Err() == nil { // the gateway dials again, as after a write of the connection before
			err = link.Run(ctx, connected)
		}
		ended <- err
	}()
	g.link = link
	g.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	select {
	case <-up:
	case <-time.After(patience):
		g.stop()
		t.Fatal("the link does not connect")
	}
}

// take files a step of another network and delivers it to the runtime.
func (g *guest) take(t *testing.T, ev federation.Event) {
	t.Helper()
	judged, err := g.gateway.Submit(t.Context(), ev)
	if err != nil {
		t.Fatal(err)
	}
	d := federation.Delivery{Entry: judged.Entry, View: judged.View}
	if carries, err := g.link.Carries(t.Context(), ev, judged.View); !carries || err != nil {
		t.Fatalf("%s is carried: %t, %v", ev.Verb, carries, err)
	}
	for range 2 { // a delivery may be made again
		if err := g.link.Deliver(t.Context(), d); err != nil {
			t.Fatalf("deliver %s: %v", ev.Verb, err)
		}
	}
}

// offered returns the offers that the gateway filed, once there are so many.
func (g *guest) offered(t *testing.T, count int) []federation.Event {
	t.Helper()
	var offers []federation.Event
	await(t, "offers to be filed", func() bool {
		offers = slices.DeleteFunc(g.gateway.filed(), func(ev federation.Event) bool { return ev.Verb != federation.Offer })
		return len(offers) >= count
	})
	return offers
}

// steps returns the verbs of a handoff with their actors.
func (g *guest) steps(id federation.HandoffID) []string {
	var all []string
	for _, ev := range g.gateway.filed() {
		if ev.Handoff == id {
			all = append(all, string(ev.Verb)+" "+string(ev.Actor()))
		}
	}
	return all
}

func TestForeignRuntimeGuest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "bob", "baton", "stranger")
	takesPart(t, w.cfg.Listen, token)
}

// takesPart plays a guest of a runtime whose participants have the given tokens.
func takesPart(t *testing.T, address string, tokenOf func(name string) string) {
	t.Helper()
	bob := bridgetest.NewMACPClient(address, "bob", tokenOf("bob"))
	t.Cleanup(bob.Close)
	g := newGuest(t, address, tokenOf("baton"))

	first := bobOffers(t, bob, 1)
	offer := g.offered(t, 1)[0]
	if offer.Actor() != bobDID || offer.To != guestDID || offer.Title != "Cite three sources" || offer.Context != `{"topic":"X"}` || offer.Provenance != federation.Vouched || offer.Evidence == nil {
		t.Errorf("filed: %+v", offer)
	}
	g.take(t, answer(offer.Handoff, federation.Accept, "gladly"))
	accept := awaits(t, bob, first, macpmode.TypeAccept)
	var p handoffv1.HandoffAcceptPayload
	if err := proto.Unmarshal(accept.GetPayload(), &p); err != nil || accept.GetSender() != "baton" || p.GetReason() != "gladly" {
		t.Errorf("bob sees %v, %v", accept, err)
	}
	signalled := make(chan *macpv1.Envelope, 1)
	watching := make(chan struct{})
	go func() {
		_ = bridgetest.MACPWatch[macpv1.WatchSignalsRequest](t.Context(), bob, "WatchSignals", func() { close(watching) }, func(m *macpv1.WatchSignalsResponse) bool {
			signalled <- m.GetEnvelope()
			return false
		})
	}()
	<-watching
	g.take(t, answer(offer.Handoff, federation.Progress, "half"))
	select {
	case env := <-signalled:
		if !strings.Contains(string(env.GetPayload()), `"verb":"progress"`) || env.GetSender() != "baton" {
			t.Errorf("bob is told %v", env)
		}
	case <-time.After(patience):
		t.Error("no signal tells the step")
	}

	// While the guest is away, bob offers again.
	g.stop()
	bobOffers(t, bob, 2)
	g.start(t)
	if offers := g.offered(t, 2); len(offers) != 2 || offers[1].Actor() != bobDID {
		t.Errorf("%d offers are filed", len(offers))
	}
	guestOffers(t, g, bob)
}

// guestOffers has the participant of the gateway offer to a participant of the runtime.
func guestOffers(t *testing.T, g *guest, bob *bridgetest.MACPClient) {
	t.Helper()
	id := federation.EventID{1, 2, 3}
	created := make(chan string, 16)
	watching := make(chan struct{})
	go func() {
		_ = bridgetest.MACPWatch[macpv1.WatchSessionsRequest](t.Context(), bob, "WatchSessions", func() { close(watching) }, func(m *macpv1.WatchSessionsResponse) bool {
			if s := m.GetEvent().GetSession(); s.GetInitiator() == "baton" {
				created <- s.GetSessionId()
				return false
			}
			return true
		})
	}()
	<-watching
	g.take(t, federation.Event{
		ID: id, Handoff: id, Kind: federation.Handoff, Verb: federation.Offer, From: guestDID, To: bobDID, Title: "Review it", Context: `{"draft":7}`,
		Venue: federation.PrivateVenue(guestDID, bobDID), Dialect: federation.HandoffTags,
	})
	session := <-created
	if said := awaits(t, bob, session, macpmode.TypeContext); !strings.Contains(string(said.GetPayload()), `{"draft":7}`) {
		t.Errorf("bob reads %v", said)
	}
	ack, err := bob.Send(t.Context(), session, macpmode.TypeAccept, "a1", &handoffv1.HandoffAcceptPayload{HandoffId: id.String(), AcceptedBy: "bob", Reason: "sure"})
	if err != nil || !ack.GetOk() {
		t.Fatalf("the accept is answered %v, %v", ack, err)
	}
	if commitment := awaits(t, bob, session, macpmode.TypeCommitment); commitment.GetSender() != "baton" {
		t.Errorf("the session is committed by %s", commitment.GetSender())
	}
	await(t, "the accept to be filed", func() bool {
		return slices.Equal(g.steps(id), []string{"offer " + string(guestDID), "accept " + string(bobDID)})
	})
}

// The stream of a session ends before the accept, while the session is resolved. The accept is filed
// if a later stream still has it.
func TestForeignRuntimeStreamBreaks(t *testing.T) {
	t.Parallel()
	broken := connect.NewError(connect.CodeUnavailable, errors.New("the runtime restarts"))
	compacted := connect.NewError(connect.CodeFailedPrecondition, errors.New("HISTORY_UNAVAILABLE"))
	const opened = 3 // messages of the session before the accept
	accepted := []string{"offer " + string(guestDID), "accept " + string(bobDID)}
	for name, test := range map[string]struct {
		ends []error // of the first streams
		want []string
	}{
		"once":                {[]error{broken}, accepted},
		"with the connection": {[]error{broken, broken}, accepted},
		"without an error":    {[]error{io.EOF}, accepted},
		"without its history": {[]error{broken, compacted}, accepted[:1]},
		"with an end":         {[]error{io.EOF, io.EOF}, accepted[:1]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &taskRuntime{changed: make(chan struct{}), shown: func(s *taskRuntimeSession, stream int) (int, error) {
				switch {
				case s.about.GetState() != macpv1.SessionState_SESSION_STATE_RESOLVED:
					return min(len(s.said), opened), nil
				case stream <= len(test.ends):
					return opened, test.ends[stream-1]
				}
				return len(s.said), nil
			}}
			w := newTaskWorldAt(t, r.serve(t), "transfer")
			id := federation.EventID{1, 2, 3}
			offered := w.opened(t, macpmode.Mode, func() { w.take(t, offerToBob(id)) }).GetSessionId()
			await(t, "the offer to be copied", func() bool { return len(w.copied(t, offered)) >= opened })
			w.accepts(t, offered, id)
			if ack, err := w.bob.Send(t.Context(), offered, macpmode.TypeCommitment, "c1", &macpv1.CommitmentPayload{CommitmentId: "c1"}); err != nil || !ack.GetOk() {
				t.Fatalf("the commitment is answered %v, %v", ack, err)
			}
			end := macpmode.TypeCommitment
			if len(test.want) == 1 {
				end = macpmode.TypeSessionExpire
			}
			await(t, "the copy to end", func() bool { return slices.Contains(w.copied(t, offered), end) })
			await(t, "the steps to be filed", func() bool { return slices.Equal(w.steps(id), test.want) })
		})
	}
}

// copied returns the types of the messages in the copy of a session.
func (g *guest) copied(t *testing.T, session string) []string {
	t.Helper()
	page, err := g.deps.Journals.Journal(t.Context(), "macp/at/research/session/"+session, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, text := range page {
		var entry historyv1.Entry
		if err := proto.Unmarshal(text, &entry); err != nil {
			t.Fatal(err)
		}
		env, err := macpmode.EnvelopeOf(&entry)
		if err != nil {
			t.Fatal(err)
		}
		if env.GetMessageType() != "" {
			kinds = append(kinds, env.GetMessageType())
		}
	}
	return kinds
}

// answer returns a step of the guest.
func answer(id federation.HandoffID, verb federation.Verb, note string) federation.Event {
	at := federation.EventID{9, byte(len(verb))}
	copy(at[2:], note)
	return federation.Event{ID: at, Handoff: id, Kind: federation.Handoff, Verb: verb, From: guestDID, Note: note}
}

// bobOffers starts a session and offers work to the guest.
func bobOffers(t *testing.T, bob *bridgetest.MACPClient, n int) string {
	t.Helper()
	id := session(n)
	if err := bob.Start(t.Context(), id, "Cite three sources", "bob", "baton"); err != nil {
		t.Fatal(err)
	}
	for i, payload := range []proto.Message{
		&handoffv1.HandoffOfferPayload{HandoffId: "h1", TargetParticipant: "baton", Scope: "research"},
		&handoffv1.HandoffContextPayload{HandoffId: "h1", ContentType: "application/json", Context: []byte(`{"topic":"X"}`)},
	} {
		kind := []string{macpmode.TypeOffer, macpmode.TypeContext}[i]
		if ack, err := bob.Send(t.Context(), id, kind, kind, payload); err != nil || !ack.GetOk() {
			t.Fatalf("%s is answered %v, %v", kind, ack, err)
		}
	}
	return id
}

// awaits returns the message of a type from the stream of a session.
func awaits(t *testing.T, c *bridgetest.MACPClient, session, kind string) *macpv1.Envelope {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var found *macpv1.Envelope
	err := c.Follow(ctx, session, 0, func(env *macpv1.Envelope) bool {
		if env.GetMessageType() == kind {
			found = env
		}
		return found == nil
	})
	if found == nil {
		t.Fatalf("%s: the session has none: %v", kind, err)
	}
	return found
}
