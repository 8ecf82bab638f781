package store_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runHandoffs(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("handoffs are listed by every member of a filter, the newest movement first", s.testFilter)
	t.Run("a list has the handoffs with some words in their titles", s.testTitles)
	t.Run("a list is read on from each of its cursors", s.testListPages)
	t.Run("what moves is at the front again, and listed once", s.testListMoves)
	t.Run("a cursor that a list never gave out is unknown", func(t *testing.T) {
		for _, cursor := range []federation.Cursor{"1", "AAAA", "?", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA!"} {
			if _, _, err := open(t).Handoffs(t.Context(), federation.Filter{}, cursor, 10); !errors.Is(err, federation.ErrUnknownCursor) {
				t.Errorf("cursor %q: %v, want ErrUnknownCursor", cursor, err)
			}
		}
	})
	t.Run("a handoff is found by the end of its id", s.testFind)
}

func listed(t *testing.T, record *registry.Record, f federation.Filter, limit int) []int {
	t.Helper()
	var found []int
	var after federation.Cursor
	for range 100 {
		views, next, err := record.Handoffs(t.Context(), f, after, limit)
		if err != nil || len(views) > limit {
			t.Fatalf("Handoffs(%+v, %q, %d) = %d views, %v", f, after, limit, len(views), err)
		}
		for _, v := range views {
			found = append(found, int(v.ID.Time().Sub(federationtest.At(0)).Seconds()))
		}
		if after = next; next == "" {
			return found
		}
	}
	t.Fatalf("Handoffs(%+v) does not end", f)
	return nil
}

func (s suite) testFilter(t *testing.T) {
	record := s.open(t)
	first := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	open := federationtest.Offer(2, cleo, "")
	open.Venue, open.Caps = "#lab", []string{"go"}
	second := federationtest.File(open, federation.View{})
	third := federationtest.File(federationtest.Offer(3, bob, cleo), federation.View{})
	bounty := federationtest.Offer(4, ada, cleo)
	bounty.Kind, bounty.Caps = "bounty", nil
	fourth := federationtest.File(bounty, federation.View{})
	for _, f := range []federation.Filing{first, second, third, fourth} {
		mustAppend(t, record, f)
	}
	mustAppend(t, record, federationtest.File(federationtest.Step(5, second.Event, federation.Claim, ada), second.View))
	mustAppend(t, record, federationtest.File(federationtest.Step(6, first.Event, federation.Decline, bob), first.View))
	for _, tt := range []struct {
		name string
		f    federation.Filter
		want []int
	}{
		{"all", federation.Filter{}, []int{1, 2, 4, 3}},
		{"of an offerer and assignee", federation.Filter{DIDs: []federation.DID{ada}}, []int{1, 2, 4}},
		{"of an offeree and offerer", federation.Filter{DIDs: []federation.DID{bob}}, []int{1, 3}},
		{"of nobody", federation.Filter{DIDs: []federation.DID{federationtest.Person("nobody")}}, nil},
		{"of two DIDs", federation.Filter{DIDs: []federation.DID{ada, bob}}, []int{1, 2, 4, 3}},
		{"of two DIDs, one unknown", federation.Filter{DIDs: []federation.DID{federationtest.Person("nobody"), bob}}, []int{1, 3}},
		{"in a state", federation.Filter{State: federation.Offered}, []int{4, 3}},
		{"of a DID in a state", federation.Filter{DIDs: []federation.DID{ada}, State: federation.Assigned}, []int{2}},
		{"in a state that it left", federation.Filter{DIDs: []federation.DID{bob}, State: federation.Assigned}, nil},
		{"of a kind", federation.Filter{Kind: "bounty"}, []int{4}},
		{"in a venue", federation.Filter{Venue: "#lab"}, []int{2}},
		{"with a capability", federation.Filter{Capability: "review"}, []int{1, 3}},
		{"with two members", federation.Filter{Capability: "go", DIDs: []federation.DID{ada}}, []int{1, 2}},
		{"since a movement", federation.Filter{Since: federationtest.At(5)}, []int{1, 2}},
		{"since later", federation.Filter{Since: federationtest.At(7)}, nil},
	} {
		for _, limit := range []int{1, 2, 10} {
			if d := diff(tt.want, listed(t, record, tt.f, limit)); d != "" {
				t.Errorf("%s, %d at a time (-want +got):\n%s", tt.name, limit, d)
			}
		}
	}
}

// testTitles searches for words in any order and case, of any alphabet. A database knows fewer
// letters than a filter does.
func (s suite) testTitles(t *testing.T) {
	record := s.open(t)
	for i, title := range []string{"", "Cite THREE sources", "\u0130stanbul: 100%_sure", "L'\u00c9cole \"A\\B\"", "10 \u212aelvin"} {
		ev := federationtest.Offer(i+1, ada, bob)
		ev.Title = title
		mustAppend(t, record, federationtest.File(ev, federation.View{}))
	}
	for search, want := range map[string][]int{
		"":                {5, 4, 3, 2, 1},
		"three":           {2},
		"SOURCES cite":    {2},
		"cite four":       nil,
		"istanbul":        {3},
		"%_SURE":          {3},
		"_":               {3},
		"100_":            nil,
		"\u00e9COLE":      {4},
		"\"a\\b\"":        {4},
		"kelvin":          {5},
		"ki":              nil,
		"handoff offered": nil,
	} {
		for _, limit := range []int{1, 10} {
			if d := diff(want, listed(t, record, federation.Filter{Title: search}, limit)); d != "" {
				t.Errorf("%q, %d at a time (-want +got):\n%s", search, limit, d)
			}
		}
	}
}

func (s suite) testListPages(t *testing.T) {
	record := s.open(t)
	const handoffs = 12
	var want []federation.View
	for n := range handoffs {
		f := federationtest.File(federationtest.Offer(1+n, ada, bob), federation.View{})
		f.View.Moved = federationtest.At(n / 4) // some move at one moment
		want = slices.Insert(want, 0, f.View)
		mustAppend(t, record, f)
	}
	all, next, err := record.Handoffs(t.Context(), federation.Filter{}, "", handoffs+1)
	if d := diff(want, all); err != nil || next != "" || d != "" {
		t.Fatalf("Handoffs: next %q, %v (-want +got):\n%s", next, err, d)
	}
	for limit := 1; limit <= handoffs; limit++ {
		page, next, err := record.Handoffs(t.Context(), federation.Filter{}, "", limit)
		if d := diff(want[:limit], page); err != nil || d != "" {
			t.Fatalf("first %d: %v (-want +got):\n%s", limit, err, d)
		}
		if next == "" {
			continue
		}
		for range 2 { // reading changes nothing
			rest, _, err := record.Handoffs(t.Context(), federation.Filter{}, next, handoffs)
			if d := diff(want[limit:], rest); err != nil || d != "" {
				t.Errorf("after the first %d: %v (-want +got):\n%s", limit, err, d)
			}
		}
	}
	for _, limit := range []int{-1, 0} {
		if none, _, err := record.Handoffs(t.Context(), federation.Filter{}, "", limit); err != nil || len(none) != 0 {
			t.Errorf("Handoffs of %d = %d, %v", limit, len(none), err)
		}
	}
}

func (s suite) testListMoves(t *testing.T) {
	record := s.open(t)
	offers := map[int]federation.Filing{}
	for n := range 3 {
		offers[n+1] = federationtest.File(federationtest.Offer(n+1, ada, bob), federation.View{})
		mustAppend(t, record, offers[n+1])
	}
	accept := federationtest.File(federationtest.Step(4, offers[1].Event, federation.Accept, bob), offers[1].View)
	mustAppend(t, record, accept)
	mustAppend(t, record, federationtest.File(federationtest.Step(5, offers[1].Event, federation.Progress, bob), accept.View))
	mustAppend(t, record, federationtest.File(federationtest.Step(6, offers[2].Event, federation.Accept, bob), offers[2].View))
	for _, dids := range [][]federation.DID{{ada}, {bob}, {ada, bob}, nil} {
		if d := diff([]int{2, 1, 3}, listed(t, record, federation.Filter{DIDs: dids}, 2)); d != "" {
			t.Errorf("of %q (-want +got):\n%s", dids, d)
		}
	}
}

func (s suite) testFind(t *testing.T) {
	record := s.open(t)
	for _, n := range []int{1, 2, 1000001, 2000001} {
		mustAppend(t, record, federationtest.File(federationtest.Offer(n, ada, bob), federation.View{}))
	}
	for suffix, want := range map[string][]federation.HandoffID{
		federationtest.ID(2).Short():           {federationtest.ID(2)},
		federationtest.ID(2).String():          {federationtest.ID(2)},
		federationtest.ID(1).Short():           {federationtest.ID(1), federationtest.ID(1000001), federationtest.ID(2000001)},
		federationtest.ID(1).String()[16:]:     {federationtest.ID(1)},
		federationtest.ID(2).String()[20:][:5]: nil,
		federationtest.ID(2).String()[21:]:     nil,
		federationtest.ID(3).Short():           nil,
		"X" + federationtest.ID(2).String():    nil,
		"":                                     nil,
	} {
		if got, err := record.Find(t.Context(), suffix); err != nil || diff(want, got) != "" {
			t.Errorf("Find(%q) = %v, %v, want %v", suffix, got, err, want)
		}
	}
}
