package federationtest

import (
	"testing"
	"time"

	"baton/federation"
)

func (s suite) testReceipt(t *testing.T) {
	record := s.open(t)
	offer := File(Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	accept := File(Step(2, offer.Event, federation.Accept, bob), offer.View)
	receipt := Confirm(3, accept.Event)
	accept.Receipt, accept.Feeds = &receipt, []string{"oftc", "libera"}
	again := accept
	other := Confirm(4, accept.Event)
	again.Receipt = &other
	for _, f := range []federation.Filing{accept, again} {
		mustAppend(t, record, f)
	}
	complete := File(Step(5, offer.Event, federation.Complete, bob), accept.View)
	mustAppend(t, record, complete)

	for _, link := range accept.Feeds {
		rows := owed(t, record, link, 0, 10)
		if len(rows) != 2 || rows[0].Entry.Event.ID != accept.Event.ID || rows[0].Row >= rows[1].Row {
			t.Fatalf("%s is owed %+v, want the step and its receipt", link, rows)
		}
		want := federation.Delivery{
			Row:   rows[1].Row,
			Entry: federation.Entry{Event: receipt, State: federation.Assigned, Filed: accept.Filed},
			View:  complete.View,
		}
		if d := diff(want, rows[1]); d != "" {
			t.Errorf("receipt owed to %s (-want +got):\n%s", link, d)
		}
		if err := record.Settle(t.Context(), link, []int64{rows[1].Row}, false); err != nil {
			t.Errorf("Settle: %v", err)
		}
		if left := owed(t, record, link, 0, 10); len(left) != 1 {
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

// unanswered files an offer that was opened and is to be answered at moments so
// many seconds into the test; a deadline of 0 is none.
func unanswered(t *testing.T, record federation.Store, n, opened, deadline int, to federation.DID) federation.Filing {
	t.Helper()
	offer := Offer(n, ada, to)
	offer.Deadline = time.Time{}
	if deadline != 0 {
		offer.Deadline = At(deadline)
	}
	f := File(offer, federation.View{})
	f.View.Opened = At(opened)
	mustAppend(t, record, f)
	return f
}

func (s suite) testDue(t *testing.T) {
	record := s.open(t)
	unanswered(t, record, 1, 5, 100, bob)
	unanswered(t, record, 2, 5, 90, "")
	unanswered(t, record, 3, 5, 101, bob)
	unanswered(t, record, 4, 20, 0, bob)
	unanswered(t, record, 5, 12, 0, "")
	unanswered(t, record, 6, 21, 0, bob)
	far := Offer(7, ada, bob)
	far.Deadline = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)
	mustAppend(t, record, File(far, federation.View{}))
	for n, verb := range map[int]federation.Verb{
		10: federation.Accept, 11: federation.Decline, 12: federation.Cancel, 13: federation.Expire,
	} {
		opened := unanswered(t, record, n, 1, 2, bob)
		mustAppend(t, record, File(Step(n+10, opened.Event, verb, bob), opened.View))
	}

	long := time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name             string
		deadline, opened time.Time
		limit            int
		want             []int
	}{
		{"both kinds", At(100), At(20), 10, []int{2, 5, 1, 4}}, // overdue by 10, 8, 0 and 0 seconds
		{"as many as asked for", At(100), At(20), 2, []int{2, 5}},
		{"none asked for", At(100), At(20), 0, nil},
		{"one more second", At(101), At(21), 10, []int{2, 5, 1, 4, 3, 6}},
		{"those with a deadline", At(100), time.Time{}, 10, []int{2, 1}},
		{"those without", time.Time{}, At(20), 10, []int{5, 4}},
		{"nothing yet", long, long, 10, nil},
		{"nothing ever", time.Time{}, time.Time{}, 10, nil},
	} {
		views, err := record.Due(t.Context(), tt.deadline, tt.opened, tt.limit)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		var want, got []federation.HandoffID
		for _, n := range tt.want {
			want = append(want, ID(n))
		}
		for _, v := range views {
			got = append(got, v.ID)
		}
		if d := diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
	first := unanswered(t, record, 30, 1, 2, bob)
	if views, err := record.Due(t.Context(), At(2), time.Time{}, 1); err != nil || diff([]federation.View{first.View}, views) != "" {
		t.Errorf("Due = %+v, %v, want the whole view", views, err)
	}
}

func (s suite) testUnfinished(t *testing.T) {
	record := s.open(t)
	count := func(want int) {
		t.Helper()
		if n, err := record.Unfinished(t.Context(), ada); err != nil || n != want {
			t.Errorf("Unfinished = %d, %v, want %d", n, err, want)
		}
	}
	count(0)
	offer := File(Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	mustAppend(t, record, File(Offer(2, ada, ""), federation.View{}))
	mustAppend(t, record, File(Offer(3, bob, ada), federation.View{}))
	count(2)
	accept := File(Step(4, offer.Event, federation.Accept, bob), offer.View)
	mustAppend(t, record, accept)
	count(2)
	mustAppend(t, record, File(Step(5, offer.Event, federation.Complete, bob), accept.View))
	count(1)
	for n, verb := range map[int]federation.Verb{
		10: federation.Decline, 11: federation.Cancel, 12: federation.Expire, 13: federation.Fail,
	} {
		opened := File(Offer(n, ada, bob), federation.View{})
		mustAppend(t, record, opened)
		mustAppend(t, record, File(Step(n+10, opened.Event, verb, bob), opened.View))
	}
	count(1)
}
