package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// visibleWithin is how soon a step of MACP is seen on another network, and back.
const visibleWithin = 5 * time.Second

// Participants of the runtime of tests.
const (
	elizaDID  = "did:plc:bbbbbbbbbbbbbbbbbbbbbbbb"
	otherDID  = "did:plc:dddddddddddddddddddddddd"
	macpToken = "the token of the participant "
	macpTitle = "Cite three sources on X"
)

type macpHouse struct {
	*house

	address string
}

// newMACPHouse makes a house with a runtime, whose participants are eliza and other.
func newMACPHouse(t *testing.T, tables ...string) *macpHouse {
	t.Helper()
	r := &macpHouse{address: federationtest.FreeAddr(t)}
	r.house = newHouse(t, append([]string{r.table()}, tables...)...)
	r.keep(t, "eliza.token", macpToken+"eliza")
	r.keep(t, "other.token", macpToken+"other")
	return r
}

func (r *macpHouse) table() string {
	var text strings.Builder
	fmt.Fprintf(&text, "[macp]\nlisten = %q\n", r.address)
	for name, did := range map[string]string{"eliza": elizaDID, "other": otherDID} {
		fmt.Fprintf(&text, "[[macp.participants]]\nname = %q\ndid = %q\ntoken_file = %q\n", name, did, name+".token")
	}
	return text.String()
}

func (r *macpHouse) participant(t *testing.T, name string) *bridgetest.MACPClient {
	t.Helper()
	c := bridgetest.NewMACPClient(r.address, name, macpToken+name)
	t.Cleanup(c.Close)
	return c
}

// say sends a message, which is to be accepted.
func say(t *testing.T, c *bridgetest.MACPClient, session, kind, id string, payload proto.Message) {
	t.Helper()
	ack, err := c.Send(t.Context(), session, kind, id, payload)
	if err != nil || !ack.GetOk() {
		t.Fatalf("%s is answered %v, %v", kind, ack, err)
	}
}

// sees returns the envelope of a session that a participant waits for.
func sees(t *testing.T, c *bridgetest.MACPClient, session string, match func(*macpv1.Envelope) bool) *macpv1.Envelope {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var found *macpv1.Envelope
	var all []string
	err := c.Follow(ctx, session, 0, func(env *macpv1.Envelope) bool {
		all = append(all, env.GetMessageType())
		if match(env) {
			found = env
		}
		return found == nil
	})
	if found == nil {
		t.Fatalf("the session ends after %v: %v", all, err)
	}
	return found
}

func isType(kind string) func(*macpv1.Envelope) bool {
	return func(env *macpv1.Envelope) bool { return env.GetMessageType() == kind }
}

// told returns the data of the signal about a step with a verb.
func told(t *testing.T, c *bridgetest.MACPClient, session, verb string) macpmode.Carry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var found *macpmode.Carry
	err := bridgetest.MACPWatch[macpv1.WatchSignalsRequest](ctx, c, "WatchSignals", func() {}, func(m *macpv1.WatchSignalsResponse) bool {
		var p macpv1.SignalPayload
		var carry macpmode.Carry
		if proto.Unmarshal(m.GetEnvelope().GetPayload(), &p) == nil && json.Unmarshal(p.GetData(), &carry) == nil &&
			p.GetCorrelationSessionId() == session && carry.Verb == verb && p.GetSignalType() == macpmode.SignalEvent {
			found = &carry
		}
		return found == nil
	})
	if found == nil {
		t.Fatalf("no signal tells %s: %v", verb, err)
	}
	return *found
}

// An agent over plain HTTP and a participant of a MACP session work for each other.
func TestMACPWorkCrossesToHTTP(t *testing.T) {
	t.Parallel()
	r := newMACPHouse(t)
	// Both tables fit one file: the gateway also takes part in its own runtime.
	r.configure(t, r.table(), fmt.Sprintf("[[macp.runtimes]]\nname = \"research\"\nurl = \"http://%s\"\ntoken_file = \"other.token\"\nparticipant = \"other\"\ndid = %q\n", r.address, otherDID))
	r.start(t)
	r.ready(t)
	eliza, scholar := r.participant(t, "eliza"), logIn(t, r.url())
	const session = "00000000-0000-4000-8000-000000000001"

	// From MACP to plain HTTP.
	if err := eliza.Start(t.Context(), session, macpTitle, "eliza", string(scholar.did)); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	say(t, eliza, session, macpmode.TypeOffer, "m1", &handoffv1.HandoffOfferPayload{HandoffId: "h1", TargetParticipant: string(scholar.did), Scope: "research"})
	say(t, eliza, session, macpmode.TypeContext, "m2", &handoffv1.HandoffContextPayload{HandoffId: "h1", ContentType: "application/json", Context: []byte(`{"topic": "X"}`)})
	offer := scholar.reads(t, "")[0]
	if took := time.Since(begun); took > visibleWithin {
		t.Errorf("the offer arrives after %s", took)
	}
	if s := offer.Step; s.Verb != "offer" || s.For != elizaDID && s.From != elizaDID || s.Title != macpTitle || s.Context != `{"topic":"X"}` || s.Provenance != "vouched" {
		t.Errorf("it reads %+v", offer)
	}
	scholar.step(t, offer.Step.HandoffID, "accept", map[string]any{"note": "with pleasure"})
	accept := sees(t, eliza, session, isType(macpmode.TypeAccept))
	var p handoffv1.HandoffAcceptPayload
	if err := proto.Unmarshal(accept.GetPayload(), &p); err != nil || accept.GetSender() != string(scholar.did) || p.GetReason() != "with pleasure" || p.GetImplicit() {
		t.Errorf("eliza sees %v, %v", accept, err)
	}
	say(t, eliza, session, macpmode.TypeCommitment, "m3", &macpv1.CommitmentPayload{
		CommitmentId: "c1", Action: "handoff.accepted", AuthorityScope: "research", Reason: "done", ModeVersion: "1.0.0", ConfigurationVersion: "test", OutcomePositive: true,
	})
	scholar.step(t, offer.Step.HandoffID, "progress", map[string]any{"note": "half"})
	if carry := told(t, eliza, session, "progress"); carry.Note != "half" || carry.HandoffID != offer.Step.HandoffID || carry.State != "assigned" {
		t.Errorf("eliza is told %+v", carry)
	}
	scholar.step(t, offer.Step.HandoffID, "complete", map[string]any{"note": "three found", "context": map[string]any{"sources": 3}})
	if carry := told(t, eliza, session, "complete"); string(carry.Result) != `{"sources":3}` || carry.State != "completed" || carry.Signature == nil {
		t.Errorf("eliza is told %+v", carry)
	}
	backToMACP(t, r, eliza, scholar, offer.Cursor)
}

// backToMACP has an agent over plain HTTP offer work to a participant of MACP.
func backToMACP(t *testing.T, r *macpHouse, eliza *bridgetest.MACPClient, scholar *caller, cursor string) {
	t.Helper()
	created := make(chan *macpv1.SessionMetadata, 16)
	up := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		_ = bridgetest.MACPWatch[macpv1.WatchSessionsRequest](ctx, eliza, "WatchSessions", func() { close(up) }, func(m *macpv1.WatchSessionsResponse) bool {
			if m.GetEvent().GetEventType() == macpv1.SessionLifecycleEvent_EVENT_TYPE_CREATED {
				created <- m.GetEvent().GetSession()
			}
			return true
		})
	}()
	<-up
	begun := time.Now()
	id := scholar.offer(t, map[string]any{"to": elizaDID, "title": "Review it", "context": map[string]any{"draft": 7}, "caps": []string{"review"}})
	var at *macpv1.SessionMetadata
	select {
	case at = <-created:
	case <-ctx.Done():
		t.Fatal("no session is opened")
	}
	if took := time.Since(begun); took > visibleWithin || at.GetInitiator() != string(scholar.did) || !slices.Contains(at.GetParticipants(), "eliza") {
		t.Errorf("after %s: %v", took, at)
	}
	session := at.GetSessionId()
	said := sees(t, eliza, session, isType(macpmode.TypeContext))
	if !strings.Contains(string(said.GetPayload()), `{"draft":7}`) {
		t.Errorf("the context is %q", said.GetPayload())
	}
	say(t, eliza, session, macpmode.TypeAccept, "a1", &handoffv1.HandoffAcceptPayload{HandoffId: id, AcceptedBy: "eliza", Reason: "gladly"})
	commitment := sees(t, eliza, session, isType(macpmode.TypeCommitment))
	if commitment.GetSender() != string(scholar.did) {
		t.Errorf("the session is committed by %s", commitment.GetSender())
	}
	for _, ask := range []struct{ id, data string }{{"s1", `{"verb":"progress","note":"half"}`}, {"s2", `{"verb":"complete","note":"done","result":{"verdict":"good"}}`}} {
		say(t, eliza, "", macpmode.TypeSignal, ask.id, &macpv1.SignalPayload{SignalType: macpmode.SignalStep, Data: []byte(ask.data), CorrelationSessionId: session})
	}
	ack, err := eliza.Send(t.Context(), "", macpmode.TypeSignal, "s3", &macpv1.SignalPayload{
		SignalType: macpmode.SignalStep, Data: []byte(`{"verb":"fail"}`), CorrelationSessionId: session,
	})
	if err != nil || ack.GetOk() || ack.GetError().GetCode() != "SESSION_NOT_OPEN" {
		t.Errorf("a step of a handoff that is over is answered %v, %v", ack, err)
	}
	var steps []string
	for len(steps) < 3 {
		for _, entry := range scholar.reads(t, cursor) {
			if cursor = entry.Cursor; entry.Step.HandoffID == id {
				steps = append(steps, entry.Step.Verb+" "+entry.Step.Note+" "+entry.Step.Context)
			}
		}
	}
	if want := []string{"accept gladly ", "progress half ", `complete done {"verdict":"good"}`}; !slices.Equal(steps, want) {
		t.Errorf("scholar reads %q, want %q", steps, want)
	}
	var shown struct{ State string }
	if scholar.must(t, http.StatusOK, http.MethodGet, "handoffs/"+id, nil, &shown); shown.State != "completed" {
		t.Errorf("the handoff is %s", shown.State)
	}
}

// A gateway is killed after the answer to each message of a session, and goes on. It is not killed
// between the last offer and its context, for which an offer waits a second.
func TestMACPRuntimeKilledLosesNothing(t *testing.T) {
	t.Parallel()
	r := newMACPHouse(t)
	r.start(t)
	r.ready(t)
	scholar := logIn(t, r.url())
	const session = "00000000-0000-4000-8000-000000000002"
	messages := []struct {
		kind    string
		payload proto.Message
	}{
		{macpmode.TypeSessionStart, &macpv1.SessionStartPayload{
			Intent: macpTitle, Participants: []string{"eliza", "other", string(scholar.did)}, ModeVersion: "1.0.0", ConfigurationVersion: "test", TtlMs: 600_000,
		}},
		{macpmode.TypeOffer, &handoffv1.HandoffOfferPayload{HandoffId: "h1", TargetParticipant: "other"}},
		{macpmode.TypeContext, &handoffv1.HandoffContextPayload{HandoffId: "h1", ContentType: "application/json", Context: []byte(`{"n":1}`)}},
		{macpmode.TypeDecline, &handoffv1.HandoffDeclinePayload{HandoffId: "h1"}},
		{macpmode.TypeOffer, &handoffv1.HandoffOfferPayload{HandoffId: "h2", TargetParticipant: string(scholar.did)}},
		{macpmode.TypeContext, &handoffv1.HandoffContextPayload{HandoffId: "h2", ContentType: "text/plain", Context: []byte("in words")}},
	}
	var sent []string
	for i, m := range messages {
		as := "eliza"
		if m.kind == macpmode.TypeDecline {
			as = "other"
		}
		c := r.participant(t, as)
		say(t, c, session, m.kind, fmt.Sprintf("m%d", i), m.payload)
		sent = append(sent, m.kind)
		if i == len(messages)-2 {
			continue
		}
		r.kill(t)
		r.start(t)
		r.ready(t)
		again, err := c.Send(t.Context(), session, m.kind, fmt.Sprintf("m%d", i), m.payload)
		if err != nil || !again.GetDuplicate() {
			t.Errorf("%s that comes again is answered %v, %v", m.kind, again, err)
		}
		var seen []string
		_ = sees(t, c, session, func(env *macpv1.Envelope) bool {
			seen = append(seen, env.GetMessageType())
			return len(seen) == len(sent)
		})
		if !slices.Equal(seen, sent) {
			t.Fatalf("after %s the history has %v", m.kind, seen)
		}
	}
	offer := scholar.reads(t, "")[0]
	if !strings.Contains(offer.Step.Context, "/blob/cap/") {
		t.Errorf("a context that is no JSON is %q", offer.Step.Context)
	}
	scholar.step(t, offer.Step.HandoffID, "accept", nil)
	eliza := r.participant(t, "eliza")
	sees(t, eliza, session, isType(macpmode.TypeAccept))
	await(t, "each offer to be one handoff", func() bool {
		var list struct{ Items []struct{ State string } }
		r.asks(t, &list, "handoff", "list")
		states := map[string]int{}
		for _, one := range list.Items {
			states[one.State]++
		}
		return len(list.Items) == 2 && states["declined"] == 1 && states["assigned"] == 1
	})
}
