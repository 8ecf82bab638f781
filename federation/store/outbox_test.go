package store_test

import (
	"slices"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runOutbox(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("the outbox of a link has its steps in order, with the present view", s.testOwed)
	t.Run("rows are counted for each link and handoff", s.testOwedIn)
	t.Run("attempts are counted, for the link that made them", s.testAttempts)
	t.Run("a settled row is gone, and its number does not come back", s.testSettled)
	t.Run("what a link was given can be read again, from a time on", s.testGiven)
	t.Run("a step that a link has shown stops waiting for the DIDs bound to it", s.testShownToPeople)
}

func (s suite) testOwedIn(t *testing.T) {
	record := s.open(t)
	rows := oweOffers(t, record, 2)
	if err := record.Rows().Settle(t.Context(), "airc", rows, federation.Settlement{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		link    string
		handoff int
		want    int
	}{{"oftc", 1, 1}, {"oftc", 2, 1}, {"airc", 1, 0}, {"oftc", 9, 0}, {"nobody", 1, 0}} {
		if n, err := record.CountPending(t.Context(), tt.link, federationtest.ID(tt.handoff)); err != nil || n != tt.want {
			t.Errorf("OwedIn(%s, %d) = %d, %v, want %d", tt.link, tt.handoff, n, err, tt.want)
		}
	}
}

func (s suite) testAttempts(t *testing.T) {
	record := s.open(t)
	rows := oweOffers(t, record, 3)
	for _, err := range []error{
		record.Rows().Attempt(t.Context(), "oftc", rows[:2]),
		record.Rows().Attempt(t.Context(), "oftc", rows[:1]),
		record.Rows().Attempt(t.Context(), "airc", rows),
		record.Rows().Attempt(t.Context(), "oftc", nil),
	} {
		if err != nil {
			t.Errorf("Attempt: %v", err)
		}
	}
	var got []int
	for _, d := range outboxOf(t, record, "oftc", federation.Delivery{}, 10) {
		got = append(got, d.Attempt)
	}
	if d := diff([]int{2, 1, 0}, got); d != "" {
		t.Errorf("attempts (-want +got):\n%s", d)
	}
}

func (s suite) testSettled(t *testing.T) {
	record := s.open(t)
	rows := oweOffers(t, record, 3)
	for link, settled := range map[string][]int64{"oftc": rows[1:], "airc": rows[:1]} {
		if err := record.Rows().Settle(t.Context(), link, settled, federation.Settlement{At: federationtest.At(9)}); err != nil {
			t.Errorf("Settle: %v", err)
		}
	}
	if err := record.Rows().Settle(t.Context(), "oftc", rows[1:], federation.Settlement{At: federationtest.At(9)}); err != nil {
		t.Errorf("Settle again: %v", err)
	}
	later := federationtest.File(federationtest.Offer(9, ada, bob), federation.View{})
	later.Links = []string{"oftc"}
	mustAppend(t, record, later)
	left := outboxOf(t, record, "oftc", federation.Delivery{}, 10)
	if len(left) != 2 || left[0].Row != rows[0] || left[1].Row <= rows[2] {
		t.Errorf("owed are rows %+v, want %d and one after %d", left, rows[0], rows[2])
	}
}

func (s suite) testGiven(t *testing.T) {
	record := s.open(t)
	rows := oweOffers(t, record, 4)
	for i, row := range []int64{rows[2], rows[0], rows[1]} {
		settled := federation.Settlement{At: federationtest.At(20 + i)}
		if i == 1 {
			settled.State = federation.DeliveryRefused
		}
		if err := record.Rows().Settle(t.Context(), "oftc", []int64{row}, settled); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		link         string
		since, limit int
		want         []int64
	}{
		{"oftc", 0, 10, []int64{rows[2], rows[1]}},
		{"oftc", 22, 10, []int64{rows[1]}},
		{"oftc", 0, 1, []int64{rows[2]}},
		{"oftc", 23, 10, nil},
		{"oftc", 0, 0, nil},
		{"airc", 0, 10, nil},
	} {
		done, err := record.ListCompleted(t.Context(), tt.link, federationtest.At(tt.since), tt.limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, d := range done {
			got = append(got, d.Row)
			if d.Entry.Event.ID.IsZero() || d.View.ID != d.Entry.Event.Handoff || d.At.Before(federationtest.At(tt.since)) {
				t.Errorf("row %d is %+v", d.Row, d)
			}
		}
		if d := diff(tt.want, got); d != "" {
			t.Errorf("given to %s since %d, at most %d (-want +got):\n%s", tt.link, tt.since, tt.limit, d)
		}
	}
}

func (s suite) testShownToPeople(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	accept := federationtest.File(federationtest.Step(2, offer.Event, federation.Accept, bob), offer.View)
	accept.Links = []string{"oftc", "airc"}
	mustAppend(t, record, accept)
	row := outboxOf(t, record, "oftc", federation.Delivery{}, 10)[0].Row
	for _, step := range []struct {
		link  string
		shown bool
		left  int // waiting for ada: her offer binds her to oftc
	}{{"airc", true, 1}, {"oftc", true, 0}} {
		if err := record.Rows().Settle(t.Context(), step.link, []int64{row}, federation.Settlement{Shown: step.shown, At: federationtest.At(9)}); err != nil {
			t.Fatalf("Settle: %v", err)
		}
		if n, _, err := record.Waiting(t.Context(), ada); err != nil || n != step.left {
			t.Errorf("settled for %s: %d steps wait (%v), want %d", step.link, n, err, step.left)
		}
	}
}

func (s suite) testOwed(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	offer.Links = []string{"oftc", "airc"}
	mustAppend(t, record, offer)
	accept := federationtest.File(federationtest.Vouch(federationtest.Step(2, offer.Event, federation.Accept, bob), "original"), offer.View)
	accept.Links = []string{"oftc"}
	mustAppend(t, record, accept)

	got := outboxOf(t, record, "oftc", federation.Delivery{}, 10)
	if len(got) != 2 || got[0].Row >= got[1].Row {
		t.Fatalf("owed are %+v, want two rows that ascend", got)
	}
	for i, f := range []federation.Filing{offer, accept} {
		want := federation.Delivery{
			Row:   got[i].Row,
			Entry: federation.Entry{Event: withoutBytes(f.Event), Version: f.View.Version, State: f.View.State, Filed: f.Filed},
			View:  accept.View, Queued: f.Filed,
		}
		if d := diff(want, got[i]); d != "" {
			t.Errorf("row %d (-want +got):\n%s", i, d)
		}
	}
	if rest := outboxOf(t, record, "oftc", got[0], 10); len(rest) != 1 || rest[0].Row != got[1].Row {
		t.Errorf("after the first row are %+v", rest)
	}
	for limit, want := range map[int]int{-1: 0, 0: 0, 1: 1} {
		if some := outboxOf(t, record, "oftc", federation.Delivery{}, limit); len(some) != want {
			t.Errorf("Owed of %d returns %d rows", limit, len(some))
		}
	}
	if other := outboxOf(t, record, "airc", federation.Delivery{}, 10); len(other) != 1 {
		t.Errorf("the other link is owed %d rows, want 1", len(other))
	}
	if none := outboxOf(t, record, "libera", federation.Delivery{}, 10); len(none) != 0 {
		t.Errorf("a third link is owed %d rows, want none", len(none))
	}
}

// fileOffers files offers with a pending delivery to the link "oftc", and returns the rows.
func oweOffers(t *testing.T, record *registry.Record, offers int) []int64 {
	t.Helper()
	for n := range offers {
		f := federationtest.File(federationtest.Offer(n+1, ada, bob), federation.View{})
		f.Links = []string{"oftc"}
		mustAppend(t, record, f)
	}
	var rows []int64
	for _, d := range outboxOf(t, record, "oftc", federation.Delivery{}, offers) {
		rows = append(rows, d.Row)
	}
	if len(rows) != offers || !slices.IsSorted(rows) {
		t.Fatalf("rows are %v, want %d that ascend", rows, offers)
	}
	return rows
}

func outboxOf(t *testing.T, record *registry.Record, link string, after federation.Delivery, limit int) []federation.Delivery {
	t.Helper()
	deliveries, err := record.Outbox(t.Context(), link, after, limit)
	if err != nil {
		t.Fatalf("Outbox(%s, %+v, %d): %v", link, after, limit, err)
	}
	return deliveries
}
