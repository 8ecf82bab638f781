package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func (s suite) testReceipt(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	accept := federationtest.File(federationtest.Step(2, offer.Event, federation.Accept, bob), offer.View)
	receipt := federationtest.Confirm(3, accept.Event)
	accept.Receipt, accept.Links = &receipt, []string{"oftc", "libera"}
	again := accept
	other := federationtest.Confirm(4, accept.Event)
	again.Receipt = &other
	for _, f := range []federation.Filing{accept, again} {
		mustAppend(t, record, f)
	}
	complete := federationtest.File(federationtest.Step(5, offer.Event, federation.Complete, bob), accept.View)
	mustAppend(t, record, complete)

	receipts, err := record.Receipts(t.Context(), offer.Event.Handoff)
	if d := diff([]federation.Event{receipt}, receipts); d != "" || err != nil {
		t.Errorf("Receipts: %v (-want +got):\n%s", err, d)
	}
	if none, err := record.Receipts(t.Context(), federationtest.ID(9)); len(none) > 0 || err != nil {
		t.Errorf("Receipts of nothing = %v, %v", none, err)
	}
	for _, link := range accept.Links {
		rows := outboxOf(t, record, link, federation.Delivery{}, 10)
		if len(rows) != 2 || rows[0].Entry.Event.ID != accept.Event.ID || rows[0].Row >= rows[1].Row {
			t.Fatalf("%s is owed %+v, want the step and its receipt", link, rows)
		}
		want := federation.Delivery{
			Row:   rows[1].Row,
			Entry: federation.Entry{Event: receipt, State: federation.Assigned, Filed: accept.Filed},
			View:  complete.View, Queued: accept.Filed,
		}
		if d := diff(want, rows[1]); d != "" {
			t.Errorf("receipt owed to %s (-want +got):\n%s", link, d)
		}
		if err := record.Rows().Settle(t.Context(), link, []int64{rows[1].Row}, federation.Settlement{At: federationtest.At(9)}); err != nil {
			t.Errorf("Settle: %v", err)
		}
		if left := outboxOf(t, record, link, federation.Delivery{}, 10); len(left) != 1 {
			t.Errorf("%s is owed %d rows after its receipt, want the step alone", link, len(left))
		}
	}
	var versions []federation.Version
	for _, entry := range log(t, record, offer.View.ID) {
		versions = append(versions, entry.Version)
	}
	if d := diff([]federation.Version{1, 2, 3}, versions); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
	for _, did := range []federation.DID{ada, bob, receipt.From} {
		for _, entry := range replay(t, record, did, "", 10) {
			if entry.Event.Verb == federation.Confirm {
				t.Errorf("a receipt is in the inbox of %s", did)
			}
		}
	}
}

// overdue files an offer on which a clock runs since so many seconds into the test.
func overdue(t *testing.T, record *registry.Record, n int, clock federation.Clock, since int) federation.Filing {
	t.Helper()
	f := federationtest.File(federationtest.Offer(n, ada, bob), federation.View{})
	f.View.Clock, f.View.Since = clock, federationtest.At(since)
	mustAppend(t, record, f)
	return f
}

func (s suite) testDue(t *testing.T) {
	record := s.open(t)
	const tea federation.Clock = "tea"
	overdue(t, record, 1, tea, 100)
	overdue(t, record, 2, tea, 90)
	overdue(t, record, 3, tea, 101)
	overdue(t, record, 4, federation.UnansweredClock, 20)
	far := overdue(t, record, 5, tea, 0)
	far.Event = federationtest.Step(15, far.Event, federation.Progress, bob)
	far.After, far.View.Version = 1, 2
	far.View.Since = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)
	mustAppend(t, record, far)
	for n, verb := range map[int]federation.Verb{20: federation.Accept, 21: federation.Cancel} {
		opened := overdue(t, record, n, tea, 1)
		mustAppend(t, record, federationtest.File(federationtest.Step(n+10, opened.Event, verb, bob), opened.View))
	}

	for _, tt := range []struct {
		name  string
		clock federation.Clock
		since time.Time
		limit int
		want  []int
	}{
		{"those of one clock", tea, federationtest.At(100), 10, []int{2, 1}},
		{"those of another", federation.UnansweredClock, federationtest.At(20), 10, []int{4}},
		{"as many as asked for", tea, federationtest.At(100), 1, []int{2}},
		{"none asked for", tea, federationtest.At(100), 0, nil},
		{"one more second", tea, federationtest.At(101), 10, []int{2, 1, 3}},
		{"one second less", federation.UnansweredClock, federationtest.At(19), 10, nil},
		{"a clock that nothing waits for", federation.DeadlineClock, federationtest.At(1000), 10, nil},
		{"no clock", "", federationtest.At(1000), 10, nil},
		{"nothing ever", tea, time.Time{}, 10, nil},
	} {
		views, err := record.ListDue(t.Context(), tt.clock, tt.since, tt.limit)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		var want, got []federation.HandoffID
		for _, n := range tt.want {
			want = append(want, federationtest.ID(n))
		}
		for _, v := range views {
			got = append(got, v.ID)
		}
		if d := diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
	first := overdue(t, record, 40, tea, 1)
	if views, err := record.ListDue(t.Context(), tea, federationtest.At(2), 1); err != nil || diff([]federation.View{first.View}, views) != "" {
		t.Errorf("Due = %+v, %v, want the whole view", views, err)
	}
}

func (s suite) testStep(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	accept := federationtest.File(federationtest.Step(2, offer.Event, federation.Accept, bob), offer.View)
	receipt := federationtest.Confirm(3, accept.Event)
	accept.Receipt = &receipt
	progress := federationtest.File(federationtest.Step(2, offer.Event, federation.Progress, ada), accept.View) // another signer's, with the same id
	other := federationtest.File(federationtest.Offer(4, ada, bob), federation.View{})
	for _, f := range []federation.Filing{offer, accept, progress, other} {
		mustAppend(t, record, f)
	}
	entry, err := record.Step(t.Context(), offer.View.ID, federationtest.ID(2))
	want := federation.Entry{Event: accept.Event, Version: 2, State: federation.Assigned, Filed: accept.Filed}
	if d := diff(want, entry); err != nil || d != "" {
		t.Errorf("Step: %v (-want +got):\n%s", err, d)
	}
	for name, id := range map[string]federation.EventID{
		"a step that nobody took": federationtest.ID(9), "a receipt": receipt.ID, "a step of another handoff": other.Event.ID,
	} {
		if entry, err := record.Step(t.Context(), offer.View.ID, id); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("%s: %+v, %v, want ErrNotFound", name, entry, err)
		}
	}
}

func (s suite) testOpen(t *testing.T) {
	record := s.open(t)
	count := func(want int) {
		t.Helper()
		if got := snap(t, record, federation.SnapshotQuery{Step: federationtest.Offer(99, ada, bob), OpenOf: ada}).Open; got != want {
			t.Errorf("%d handoffs of %s are open, want %d", got, ada, want)
		}
	}
	count(0)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	mustAppend(t, record, federationtest.File(federationtest.Offer(2, ada, ""), federation.View{}))
	mustAppend(t, record, federationtest.File(federationtest.Offer(3, bob, ada), federation.View{}))
	count(2)
	accept := federationtest.File(federationtest.Step(4, offer.Event, federation.Accept, bob), offer.View)
	mustAppend(t, record, accept)
	count(2)
	mustAppend(t, record, federationtest.File(federationtest.Step(5, offer.Event, federation.Complete, bob), accept.View))
	count(1)
	for n, verb := range map[int]federation.Verb{
		10: federation.Decline, 11: federation.Cancel, 12: federation.Expire, 13: federation.Fail,
	} {
		opened := federationtest.File(federationtest.Offer(n, ada, bob), federation.View{})
		mustAppend(t, record, opened)
		mustAppend(t, record, federationtest.File(federationtest.Step(n+10, opened.Event, verb, bob), opened.View))
	}
	count(1)
}
