package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runSpoken(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("steps are read as they were said, not as they were filed", s.testSpokenOrder)
	t.Run("a stretch has neither of its ends, and of too many steps the first or the newest", s.testStretch)
	t.Run("each place has a history of its own", s.testPlaces)
	t.Run("a step is marked by its event id, else by the message that carried it", s.testMarks)
}

func inOps() federation.ChannelRef { return federation.ChannelRef{Venue: "#ops"} }

func recall(t *testing.T, record *registry.Record, part federation.TimelineQuery, limit int) []int {
	t.Helper()
	found, err := record.Spoken(t.Context(), part, limit)
	if err != nil || len(found) > max(limit, 0) {
		t.Fatalf("Spoken(%+v, %d) = %d steps, %v", part, limit, len(found), err)
	}
	var numbers []int
	for _, said := range found {
		numbers = append(numbers, int(said.Entry.Event.ID.Time().Sub(federationtest.At(0)).Seconds()))
	}
	return numbers
}

func (s suite) testSpokenOrder(t *testing.T) {
	record := s.open(t)
	late := federationtest.Offer(5, ada, bob)
	late.Arrival.Received = federationtest.At(1)
	first, second := federationtest.File(federationtest.Offer(3, ada, bob), federation.View{}), federationtest.File(late, federation.View{})
	receipt := federationtest.Confirm(9, first.Event)
	first.Receipt = &receipt
	mustAppend(t, record, first)
	mustAppend(t, record, second)
	accept := federationtest.File(federationtest.Step(4, first.Event, federation.Accept, bob), first.View)
	mustAppend(t, record, accept)
	if d := diff([]int{5, 3, 4}, recall(t, record, federation.TimelineQuery{Place: inOps()}, 10)); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	found, err := record.Spoken(t.Context(), federation.TimelineQuery{Place: inOps(), Newest: true}, 1)
	if err != nil || len(found) != 1 {
		t.Fatalf("Spoken = %d steps, %v", len(found), err)
	}
	want := federation.Entry{Event: accept.Event, Version: accept.View.Version, State: accept.View.State, Filed: accept.Filed}
	if d := diff(want, found[0].Entry); d != "" {
		t.Errorf("entry (-want +got):\n%s", d)
	}
	if d := diff(accept.View, found[0].View); d != "" || !found[0].Position.At.Equal(federationtest.At(4)) {
		t.Errorf("marked %v, view (-want +got):\n%s", found[0].Position, d)
	}
}

func (s suite) testStretch(t *testing.T) {
	record := s.open(t)
	for n := 1; n <= 6; n++ {
		ev := federationtest.Offer(n, ada, bob)
		ev.Arrival.Received = federationtest.At((n + 1) / 2) // in pairs
		mustAppend(t, record, federationtest.File(ev, federation.View{}))
	}
	mark := func(n int) federation.Position {
		m, err := record.PositionOf(t.Context(), inOps(), federationtest.ID(n).String())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, tt := range []struct {
		name  string
		part  federation.TimelineQuery
		limit int
		want  []int
	}{
		{"all", federation.TimelineQuery{}, 10, []int{1, 2, 3, 4, 5, 6}},
		{"the first", federation.TimelineQuery{}, 2, []int{1, 2}},
		{"the newest", federation.TimelineQuery{Newest: true}, 2, []int{5, 6}},
		{"after a step", federation.TimelineQuery{After: mark(3)}, 10, []int{4, 5, 6}},
		{"before a step", federation.TimelineQuery{Before: mark(4)}, 10, []int{1, 2, 3}},
		{"the newest before a step", federation.TimelineQuery{Before: mark(4), Newest: true}, 2, []int{2, 3}},
		{"between two", federation.TimelineQuery{After: mark(1), Before: mark(6)}, 3, []int{2, 3, 4}},
		{"the newest between two", federation.TimelineQuery{After: mark(1), Before: mark(6), Newest: true}, 3, []int{3, 4, 5}},
		{"from a moment on", federation.TimelineQuery{After: federation.Position{At: federationtest.At(2)}}, 10, []int{3, 4, 5, 6}},
		{"before a moment", federation.TimelineQuery{Before: federation.Position{At: federationtest.At(2)}}, 10, []int{1, 2}},
		{"between two that are the wrong way round", federation.TimelineQuery{After: mark(4), Before: mark(2)}, 10, nil},
		{"none", federation.TimelineQuery{}, 0, nil},
		{"fewer than none", federation.TimelineQuery{}, -1, nil},
	} {
		tt.part.Place = inOps()
		if d := diff(tt.want, recall(t, record, tt.part, tt.limit)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

func (s suite) testPlaces(t *testing.T) {
	record := s.open(t)
	private := federation.PrivateVenue(ada, bob)
	for n, p := range []federation.ChannelRef{inOps(), {Link: "oftc", Venue: "#ops"}, {Venue: "#lab"}, {Link: "oftc", Venue: private}, {Link: "lab", Venue: private}} {
		f := federationtest.File(federationtest.Offer(n+1, ada, bob), federation.View{})
		f.View.Venue, f.View.Link = p.Venue, p.Link
		mustAppend(t, record, f)
	}
	for _, tt := range []struct {
		place federation.ChannelRef
		want  []int
	}{
		{inOps(), []int{1}},
		{federation.ChannelRef{Link: "oftc", Venue: "#ops"}, []int{2}},
		{federation.ChannelRef{Link: "lab", Venue: "#ops"}, nil},
		{federation.ChannelRef{Venue: "#lab"}, []int{3}},
		{federation.ChannelRef{Venue: private}, []int{4, 5}},
		{federation.ChannelRef{Link: "lab", Venue: private}, []int{4, 5}},
		{federation.ChannelRef{Venue: federation.PrivateVenue(ada, cleo)}, nil},
		{federation.ChannelRef{}, nil},
	} {
		if d := diff(tt.want, recall(t, record, federation.TimelineQuery{Place: tt.place}, 10)); d != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.place, d)
		}
	}
}

func (s suite) testMarks(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	receipt := federationtest.Confirm(7, offer.Event)
	offer.Receipt = &receipt
	mustAppend(t, record, offer)
	twin := federationtest.Offer(2, ada, bob)
	twin.Arrival.MessageID = federationtest.ID(1).String() // any sender may choose it
	mustAppend(t, record, federationtest.File(twin, federation.View{}))
	again := federationtest.Offer(3, ada, bob)
	again.Arrival.MessageID = "msg-1"
	mustAppend(t, record, federationtest.File(again, federation.View{}))
	for id, want := range map[string]time.Time{federationtest.ID(1).String(): federationtest.At(1), "msg-1": federationtest.At(1), federationtest.ID(2).String(): federationtest.At(2), federationtest.ID(3).String(): federationtest.At(3)} {
		if m, err := record.PositionOf(t.Context(), inOps(), id); err != nil || !m.At.Equal(want) || m.N == 0 {
			t.Errorf("Mark(%q) = %+v, %v, want %v", id, m, err, want)
		}
	}
	for _, tt := range []struct {
		place federation.ChannelRef
		id    string
	}{{inOps(), "nothing"}, {inOps(), ""}, {inOps(), federationtest.ID(7).String()}, {federation.ChannelRef{Venue: "#lab"}, federationtest.ID(1).String()}, {federation.ChannelRef{}, federationtest.ID(7).String()}} {
		if _, err := record.PositionOf(t.Context(), tt.place, tt.id); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("Mark(%+v, %q): %v, want ErrNotFound", tt.place, tt.id, err)
		}
	}
}
