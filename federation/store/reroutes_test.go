package store_test

import (
	"slices"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runReroutes(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("outboxes with pending deliveries have names", s.testOutboxNames)
	t.Run("a delivery moves to another outbox in the order of its handoff", s.testReroute)
	t.Run("a step that is pending in both outboxes is pending once", s.testRerouteTwice)
	t.Run("the readers without a location are found page by page", s.testUnlocatedReaders)
	t.Run("what an inbox has not read is routed once", s.testRouteUnread)
}

func offerOn(t *testing.T, record *registry.Record, n int, to federation.DID, links ...string) federation.View {
	t.Helper()
	f := federationtest.File(federationtest.Offer(n, ada, to), federation.View{})
	f.Links = links
	mustAppend(t, record, f)
	return f.View
}

// pendingIDs returns the steps of a handoff in an outbox, and how many of them are due now.
func pendingIDs(t *testing.T, record *registry.Record, link string, id federation.HandoffID) (ids []federation.EventID, due int) {
	t.Helper()
	pending, err := record.Rows().PendingOf(t.Context(), link, id.String(), 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range pending {
		ids = append(ids, d.Entry.Event.ID)
		if d.Attempt != 0 {
			t.Errorf("%d attempts count on %s", d.Attempt, d.Entry.Event.ID)
		}
	}
	heads, err := record.Rows().Heads(t.Context(), link, federationtest.At(100), 10)
	if err != nil {
		t.Fatal(err)
	}
	return ids, len(heads)
}

func (s suite) testOutboxNames(t *testing.T) {
	record := s.open(t)
	offerOn(t, record, 1, bob, "oftc", "b.test")
	offerOn(t, record, 3, bob, "b.test")
	if names, err := record.OutboxNames(t.Context()); err != nil || !slices.Equal(names, []string{"b.test", "oftc"}) {
		t.Errorf("OutboxNames = %q, %v", names, err)
	}
}

func (s suite) testReroute(t *testing.T) {
	record := s.open(t)
	view := offerOn(t, record, 1, bob, "b.test")
	accept := federationtest.File(federationtest.Step(2, federationtest.Offer(1, ada, bob), federation.Accept, bob), view)
	accept.Links = []string{"b.test", "homes"}
	mustAppend(t, record, accept)
	pending, err := record.Rows().PendingOf(t.Context(), "b.test", federationtest.ID(1).String(), 1)
	if err != nil || len(pending) != 1 {
		t.Fatalf("b.test has %+v, %v", pending, err)
	}
	if err := record.Rows().Failed(t.Context(), "b.test", pending[0].Row, federation.Failure{At: federationtest.At(5), Next: federationtest.At(90), Reason: "it is away"}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time changes nothing
		if err := record.Reroute(t.Context(), "b.test", "homes", []int64{pending[0].Row}); err != nil {
			t.Fatal(err)
		}
	}
	if ids, due := pendingIDs(t, record, "homes", federationtest.ID(1)); !slices.Equal(ids, []federation.EventID{federationtest.ID(1), federationtest.ID(2)}) || due != 1 {
		t.Errorf("homes has %v, %d due; want the offer before the accept, and one due", ids, due)
	}
	if ids, due := pendingIDs(t, record, "b.test", federationtest.ID(1)); !slices.Equal(ids, []federation.EventID{federationtest.ID(2)}) || due != 1 {
		t.Errorf("b.test has %v, %d due; want the accept, due", ids, due)
	}
	if n, err := record.Delay(t.Context(), federationtest.At(1), federationtest.At(301), 10); err != nil || n != 1 {
		t.Errorf("Delay = %d, %v; want the offer, which keeps its age", n, err)
	}
}

func (s suite) testRerouteTwice(t *testing.T) {
	record := s.open(t)
	offerOn(t, record, 1, bob, "b.test", "homes")
	pending, err := record.Rows().PendingOf(t.Context(), "b.test", federationtest.ID(1).String(), 10)
	if err != nil || len(pending) != 1 {
		t.Fatalf("b.test has %+v, %v", pending, err)
	}
	if err := record.Reroute(t.Context(), "b.test", "homes", []int64{pending[0].Row}); err != nil {
		t.Fatal(err)
	}
	if ids, due := pendingIDs(t, record, "homes", federationtest.ID(1)); len(ids) != 1 || due != 1 {
		t.Errorf("homes has %v, %d due; want one, due", ids, due)
	}
	if names, err := record.OutboxNames(t.Context()); err != nil || !slices.Equal(names, []string{"homes"}) {
		t.Errorf("OutboxNames = %q, %v", names, err)
	}
}

func (s suite) testUnlocatedReaders(t *testing.T) {
	record := s.open(t)
	dids := []federation.DID{federationtest.Person("first"), federationtest.Person("second"), federationtest.Person("located"), federationtest.Person("reader")}
	for n, did := range dids {
		offerOn(t, record, 2*n+1, did)
	}
	offerOn(t, record, 20, ada) // ada signs offers, so the record knows ada
	if err := record.KeepMailboxLocation(t.Context(), federation.MailboxLocation{DID: dids[2], Home: "b.test"}); err != nil {
		t.Fatal(err)
	}
	if err := record.Read(t.Context(), dids[3], []federation.EventID{federationtest.ID(7)}, federationtest.At(30)); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(dids[:2]))
	var found []federation.DID
	last := federation.DID("")
	for range want {
		page, err := record.UnlocatedReaders(t.Context(), last, 1)
		if err != nil || len(page) != 1 {
			t.Fatalf("after %q: %v, %v", last, page, err)
		}
		last = page[0]
		found = append(found, last)
	}
	if d := diff(want, found); d != "" {
		t.Errorf("readers (-want +got):\n%s", d)
	}
	if page, err := record.UnlocatedReaders(t.Context(), last, 1); err != nil || len(page) != 0 {
		t.Errorf("after the last: %v, %v", page, err)
	}
}

func (s suite) testRouteUnread(t *testing.T) {
	record := s.open(t)
	offerOn(t, record, 1, bob)
	offerOn(t, record, 3, bob, "oftc") // which delivers it
	settleFirst(t, record, federationtest.ID(3), federation.Settlement{At: federationtest.At(4)})
	over := offerOn(t, record, 5, bob)
	mustAppend(t, record, federationtest.File(federationtest.Step(6, federationtest.Offer(5, ada, bob), federation.Cancel, ada), over))
	remote := federationtest.File(federationtest.Offer(7, ada, bob), federation.View{})
	remote.View.Remote = true
	mustAppend(t, record, remote)
	offerOn(t, record, 9, cleo)
	for _, want := range []int{1, 0} { // the second time there is nothing left
		if n, err := record.RouteUnread(t.Context(), bob, "homes", federationtest.At(60)); err != nil || n != want {
			t.Errorf("RouteUnread = %d, %v; want %d", n, err, want)
		}
	}
	pending, err := record.Outbox(t.Context(), "homes", federation.Delivery{}, 10)
	if err != nil || len(pending) != 1 || pending[0].Entry.Event.ID != federationtest.ID(1) {
		t.Fatalf("homes has %+v, %v; want the first offer", pending, err)
	}
	waits, _, err := record.WaitingFor(t.Context(), federation.WaitingFilter{Link: "homes"}, "", 10)
	if err != nil || len(waits) != 1 || !waits[0].Queued.Equal(federationtest.At(60)) {
		t.Errorf("WaitingFor = %+v, %v; want it to wait since it was routed", waits, err)
	}
	if err := record.Rows().Settle(t.Context(), "homes", []int64{pending[0].Row}, federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadExpired, At: federationtest.At(90)}); err != nil {
		t.Fatal(err)
	}
	if n, err := record.RouteUnread(t.Context(), bob, "homes", federationtest.At(99)); err != nil || n != 0 {
		t.Errorf("RouteUnread = %d, %v of a step that was given up", n, err)
	}
}
