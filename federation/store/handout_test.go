package store_test

import (
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// tell files the message of a step for an agent, which it registers if it is new.
func tell(t *testing.T, record *registry.Record, step federation.Event, n int, to string) {
	t.Helper()
	message := federationtest.Message(n, "system", to)
	message.Event, message.Handoff = step.ID, step.Handoff
	if _, err := record.Post(t.Context(), agents.Posting{Message: message}); err != nil {
		t.Fatal(err)
	}
}

// came returns an offer from the link "oftc", with its handoff.
func came(t *testing.T, record *registry.Record) federation.Filing {
	t.Helper()
	event := federationtest.Offer(1, ada, bob)
	event.Arrival.Link = "oftc"
	offer := federationtest.File(event, federation.View{})
	offer.Inboxes = nil // only agents are told
	mustAppend(t, record, offer)
	if err := record.AddAgent(t.Context(), federationtest.NewAgent("judge")); err != nil {
		t.Fatal(err)
	}
	return offer
}

func states(t *testing.T, record *registry.Record, id federation.HandoffID) []federation.DeliveryState {
	t.Helper()
	found, err := record.Deliveries(t.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []federation.DeliveryState
	for _, d := range found {
		all = append(all, d.State)
	}
	return all
}

func (s suite) testHandOut(t *testing.T) {
	record := s.open(t)
	offer := came(t, record)
	tell(t, record, offer.Event, 2, "judge")
	wait := []federation.DeliveryState{federation.DeliveryWaiting}
	if d := diff(wait, states(t, record, offer.Event.Handoff)); d != "" {
		t.Errorf("in the inbox (-want +got):\n%s", d)
	}
	for _, want := range []int{1, 0} {
		if n, err := record.Delay(t.Context(), federationtest.At(300), federationtest.At(302), 10); err != nil || n != want {
			t.Errorf("Delay = %d, %v, want %d", n, err, want)
		}
	}
	for range 2 {
		if err := record.HandOut(t.Context(), "judge", []federation.EventID{federationtest.ID(77), offer.Event.ID}, federationtest.At(400)); err != nil {
			t.Fatal(err)
		}
	}
	if d := diff([]federation.NoticeKind{federation.NoticeDelayed, federation.NoticeDelivered}, kinds(t, record)); d != "" {
		t.Errorf("notices (-want +got):\n%s", d)
	}
	if d := diff([]federation.DeliveryState{federation.DeliveryDelivered}, states(t, record, offer.Event.Handoff)); d != "" {
		t.Errorf("handed out (-want +got):\n%s", d)
	}
	if n, err := record.Expire(t.Context(), federationtest.At(900), federationtest.At(901), 10); err != nil || n != 0 {
		t.Errorf("Expire = %d, %v: it was handed out", n, err)
	}
}

func (s suite) testAcknowledged(t *testing.T) {
	record := s.open(t)
	offer := came(t, record)
	tell(t, record, offer.Event, 2, "judge")
	if err := record.MarkRead(t.Context(), "judge", federationtest.Message(2, "", "").ID, federationtest.At(3)); err != nil {
		t.Fatal(err)
	}
	if d := diff([]federation.DeliveryState{federation.DeliveryDelivered}, states(t, record, offer.Event.Handoff)); d != "" {
		t.Errorf("acknowledged (-want +got):\n%s", d)
	}
	if got := kinds(t, record); len(got) > 0 {
		t.Errorf("the signer was told %v, of what took no time", got)
	}
}

func (s suite) testNotFetched(t *testing.T) {
	record := s.open(t)
	offer := came(t, record)
	event := federationtest.Step(3, offer.Event, federation.Cancel, ada)
	event.Arrival.Link = "oftc"
	cancel := federationtest.File(event, offer.View)
	cancel.Inboxes = nil
	mustAppend(t, record, cancel)
	tell(t, record, offer.Event, 4, "judge")
	tell(t, record, cancel.Event, 5, "judge")
	if n, err := record.Delay(t.Context(), federationtest.At(4), federationtest.At(305), 10); err != nil || n != 1 {
		t.Errorf("Delay = %d, %v: one of them is older", n, err)
	}
	for _, want := range []int{1, 1, 0} {
		if n, err := record.Expire(t.Context(), federationtest.At(700), federationtest.At(701), 1); err != nil || n != want {
			t.Errorf("Expire = %d, %v, want %d", n, err, want)
		}
	}
	if d := diff([]federation.NoticeKind{federation.NoticeDelayed, federation.NoticeUndeliverable}, kinds(t, record)); d != "" {
		t.Errorf("notices: of the offer the home tells (-want +got):\n%s", d)
	}
	gone := []federation.DeliveryState{federation.DeliveryExpired, federation.DeliveryExpired}
	if d := diff(gone, states(t, record, offer.Event.Handoff)); d != "" {
		t.Errorf("given up (-want +got):\n%s", d)
	}
	if messages, _, err := record.Inbox(t.Context(), "judge", "", 10); err != nil || len(messages) != 2 {
		t.Errorf("%d messages are there to be read, %v", len(messages), err)
	}
}

func (s suite) testReadElsewhere(t *testing.T) {
	record := s.open(t)
	offer := came(t, record)
	if err := record.AddAgent(t.Context(), federationtest.NewAgent("amy@b.test")); err != nil {
		t.Fatal(err)
	}
	tell(t, record, offer.Event, 2, "amy@b.test")
	tell(t, record, offer.Event, 3, "plc_ada000000000000000000000")
	if n, err := record.Delay(t.Context(), federationtest.At(300), federationtest.At(302), 10); err != nil || n != 0 {
		t.Errorf("Delay = %d, %v", n, err)
	}
	if d := diff([]federation.DeliveryState{federation.DeliveryWaiting}, states(t, record, offer.Event.Handoff)); d != "" {
		t.Errorf("before the other registry has it (-want +got):\n%s", d)
	}
	relay := federation.PeerDelivery{
		Peer: "b.test", Sender: "system", Message: federationtest.Message(2, "", "").ID, OrderKey: "system amy",
		Document: []byte(`{}`), Handoff: offer.Event.Handoff, Queued: federationtest.At(2),
	}
	if err := record.Enqueue(t.Context(), relay); err != nil {
		t.Fatal(err)
	}
	pending := documents(t, record, "b.test", "system amy")
	if len(pending) != 1 {
		t.Fatal(pending)
	}
	settleDocuments(t, record, "b.test", federation.Settlement{At: federationtest.At(9)}, pending[0].Row)
	if d := diff([]federation.DeliveryState{federation.DeliveryDelivered}, states(t, record, offer.Event.Handoff)); d != "" {
		t.Errorf("after (-want +got):\n%s", d)
	}
}
