package store_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runBoundNames(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("a name stands for one DID until it is unbound", s.testBindName)
	t.Run("bound names are read in order, a page at a time", s.testBoundNames)
}

func runDeliveries(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("what became of each step is known", s.testDeliveries)
	t.Run("what agents are told of a step waits until they fetch it", s.testMessagesDelivered)
	t.Run("a backlog is what has not ended", s.testBacklog)
}

func boundName(network, name string, did federation.DID) federation.BoundName {
	return federation.BoundName{Network: network, Name: name, DID: did, Since: federationtest.At(1)}
}

func (s suite) testBindName(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	first := boundName("oftc", "ada", ada)
	if err := errors.Join(record.BindName(ctx, first), record.BindName(ctx, first)); err != nil {
		t.Fatalf("BindName: %v", err)
	}
	if err := record.BindName(ctx, boundName("oftc", "ada", bob)); !errors.Is(err, federation.ErrTaken) {
		t.Errorf("BindName of a taken name: %v, want ErrTaken", err)
	}
	vouched := first
	vouched.Vouch, vouched.Since = true, federationtest.At(2)
	if err := record.BindName(ctx, vouched); err != nil {
		t.Errorf("BindName with vouch: %v", err)
	}
	first.Vouch = true
	got, err := record.NamesOf(ctx, ada)
	if d := diff([]federation.BoundName{first}, got); d != "" || err != nil {
		t.Errorf("NamesOf: %v (-want +got):\n%s", err, d)
	}
	one, err := record.BoundName(ctx, "oftc", "ada")
	if d := diff(first, one); d != "" || err != nil {
		t.Errorf("BoundName: %v (-want +got):\n%s", err, d)
	}
	if _, err := record.BoundName(ctx, "oftc", "Ada"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("BoundName of another spelling: %v, want ErrNotFound", err)
	}
	if err := record.UnbindName(ctx, "oftc", "ada"); err != nil {
		t.Errorf("UnbindName: %v", err)
	}
	if err := record.UnbindName(ctx, "oftc", "ada"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("UnbindName again: %v, want ErrNotFound", err)
	}
	if err := record.BindName(ctx, boundName("oftc", "ada", bob)); err != nil {
		t.Errorf("BindName of a name that is free again: %v", err)
	}
}

func (s suite) testBoundNames(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	want := []federation.BoundName{
		boundName("airc", "zoe", bob), boundName("oftc", "Ada", ada), boundName("oftc", "ada", ada), boundName("oftc", "bob", bob),
	}
	for _, i := range []int{2, 0, 3, 1} {
		if err := record.BindName(ctx, want[i]); err != nil {
			t.Fatal(err)
		}
	}
	all, err := record.BoundNames(ctx, "", "", 10)
	if d := diff(want, all); d != "" || err != nil {
		t.Errorf("BoundNames: %v (-want +got):\n%s", err, d)
	}
	page, err := record.BoundNames(ctx, "airc", "zoe", 2)
	if d := diff(want[1:3], page); d != "" || err != nil {
		t.Errorf("BoundNames after the first: %v (-want +got):\n%s", err, d)
	}
	of, err := record.NamesOf(ctx, bob)
	if d := diff([]federation.BoundName{want[0], want[3]}, of); d != "" || err != nil {
		t.Errorf("NamesOf: %v (-want +got):\n%s", err, d)
	}
}

func fileBoth(t *testing.T, record *registry.Record) (offer, accept federation.Filing) {
	t.Helper()
	offer = federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	accept = federationtest.File(federationtest.Step(2, offer.Event, federation.Accept, bob), offer.View)
	for _, f := range []*federation.Filing{&offer, &accept} {
		f.Links = []string{"oftc", "airc"}
		mustAppend(t, record, *f)
	}
	return offer, accept
}

func settle(t *testing.T, record *registry.Record, link string, how federation.Settlement) {
	t.Helper()
	rows, err := record.Outbox(t.Context(), link, federation.Delivery{}, 1)
	if err != nil || len(rows) != 1 {
		t.Fatalf("Owed = %v, %v", rows, err)
	}
	if err := record.Rows().Settle(t.Context(), link, []int64{rows[0].Row}, how); err != nil {
		t.Fatalf("Settle: %v", err)
	}
}

func (s suite) testDeliveries(t *testing.T) {
	record := s.open(t)
	offer, accept := fileBoth(t, record)
	settle(t, record, "oftc", federation.Settlement{At: federationtest.At(3)})
	settle(t, record, "airc", federation.Settlement{State: federation.DeliveryRefused, Code: "invalid-target", At: federationtest.At(4)})
	rows := outboxOf(t, record, "oftc", federation.Delivery{}, 1)
	for range 2 {
		if err := record.Rows().Attempt(t.Context(), "oftc", []int64{rows[0].Row}); err != nil {
			t.Fatal(err)
		}
	}
	want := []federation.Delivered{
		{Event: offer.Event.ID, Link: "airc", State: federation.DeliveryRefused, Reason: "invalid-target", Ended: federationtest.At(4)},
		{Event: offer.Event.ID, Link: "oftc", State: federation.DeliveryDelivered, Ended: federationtest.At(3)},
		{Event: accept.Event.ID, Link: "airc", State: federation.DeliveryWaiting},
		{Event: accept.Event.ID, Link: "oftc", State: federation.DeliveryWaiting, Attempt: 2},
	}
	got, err := record.Deliveries(t.Context(), offer.Event.Handoff, []string{"oftc", "airc"})
	if d := diff(want, got); d != "" || err != nil {
		t.Errorf("Deliveries: %v (-want +got):\n%s", err, d)
	}
	none, err := record.Deliveries(t.Context(), federationtest.ID(9), []string{"oftc"})
	if len(none) > 0 || err != nil {
		t.Errorf("Deliveries of nothing = %v, %v", none, err)
	}
}

func (s suite) testMessagesDelivered(t *testing.T) {
	record := s.open(t)
	for _, handle := range []string{"judge", "scout"} {
		if err := record.AddAgent(t.Context(), federationtest.NewAgent(handle)); err != nil {
			t.Fatal(err)
		}
	}
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	offer.Inboxes = nil
	mustAppend(t, record, offer)
	for n, to := range []string{"scout", "judge", "plc_ada000000000000000000000"} {
		message := federationtest.Message(n+2, "system", to)
		message.Event, message.Handoff = offer.Event.ID, offer.Event.Handoff
		if _, err := record.Post(t.Context(), agents.Posting{Message: message, Held: to == "scout"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := record.HandOut(t.Context(), "judge", []federation.EventID{offer.Event.ID}, federationtest.At(5)); err != nil {
		t.Fatal(err)
	}
	want := []federation.Delivered{
		{Event: offer.Event.ID, Link: agents.Link, Participant: "judge", State: federation.DeliveryDelivered, Ended: federationtest.At(5)},
		{Event: offer.Event.ID, Link: agents.Link, Participant: "scout", State: federation.DeliveryWaiting},
	}
	got, err := record.Deliveries(t.Context(), offer.Event.Handoff, []string{agents.Link})
	if d := diff(want, got); d != "" || err != nil {
		t.Errorf("Deliveries: %v (-want +got):\n%s", err, d)
	}
	expire := federationtest.File(federationtest.Step(9, offer.Event, federation.Expire, ada), offer.View)
	expire.Inboxes = nil
	mustAppend(t, record, expire)
	want[1].State, want[1].Ended = federation.DeliveryExpired, federationtest.At(9)
	got, err = record.Deliveries(t.Context(), offer.Event.Handoff, []string{agents.Link})
	if d := diff(want, got); d != "" || err != nil {
		t.Errorf("Deliveries of what nobody was shown (-want +got): %v\n%s", err, d)
	}
}

func (s suite) testBacklog(t *testing.T) {
	record := s.open(t)
	fileBoth(t, record)
	for _, want := range []federation.Backlog{{Rows: 2, Oldest: federationtest.At(1)}, {Rows: 1, Oldest: federationtest.At(2)}, {}} {
		got, err := record.Backlog(t.Context(), "oftc")
		if d := diff(want, got); d != "" || err != nil {
			t.Errorf("Backlog: %v (-want +got):\n%s", err, d)
		}
		if want.Rows > 0 {
			settle(t, record, "oftc", federation.Settlement{At: federationtest.At(3)})
		}
	}
	other, err := record.Backlog(t.Context(), "airc")
	if d := diff(federation.Backlog{Rows: 2, Oldest: federationtest.At(1)}, other); d != "" || err != nil {
		t.Errorf("Backlog of the other link: %v (-want +got):\n%s", err, d)
	}
}
