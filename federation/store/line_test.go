package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// lineAt is a line that ada says in #ops, n seconds after the start.
func lineAt(n int, id string) federation.Line {
	return federation.Line{
		Position: federation.Position{At: federationtest.At(n)}, ID: id, Place: federation.ChannelRef{Venue: "#ops"}, Author: ada,
		Command: "PRIVMSG", Source: "ada!ada@host", Text: "\x02line\x02 " + id, Account: string(ada), Tags: map[string]string{"+draft/reply": "x"},
	}
}

func lineIDs(lines []federation.Line) (ids []string) {
	for _, l := range lines {
		ids = append(ids, l.ID)
	}
	return ids
}

func (s suite) testLines(t *testing.T) {
	record := s.open(t)
	lines := []federation.Line{lineAt(1, "a"), lineAt(2, "b"), lineAt(2, "c"), lineAt(4, "d")}
	other := lineAt(3, "a")
	other.Place.Link = "client"
	private := lineAt(5, "p")
	private.Place, private.To = federation.ChannelRef{Venue: federation.PrivateVenue(ada, bob)}, bob
	for _, l := range append(lines, other, private) {
		if at, err := record.KeepLine(t.Context(), l); err != nil || !at.Equal(l.Position.At) {
			t.Fatalf("KeepLine: %v, %v", at, err)
		}
	}
	again := lineAt(9, "b")
	again.Text = "another text"
	if at, err := record.KeepLine(t.Context(), again); err != nil || !at.Equal(federationtest.At(2)) {
		t.Errorf("a repeated line is on file since %v, %v; want %v", at, err, federationtest.At(2))
	}

	ops := federation.ChannelRef{Venue: "#ops"}
	all, err := record.Lines(t.Context(), federation.TimelineQuery{Place: ops}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].Position.N = 0
	}
	if diff := cmp.Diff(lines, all); diff != "" {
		t.Errorf("lines of #ops (-want +got):\n%s", diff)
	}
	b, err := record.LineMark(t.Context(), ops, "b")
	if err != nil || !b.At.Equal(federationtest.At(2)) {
		t.Fatalf("LineMark: %v, %v", b, err)
	}
	if _, err := record.LineMark(t.Context(), ops, "p"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("the mark of a line of another place: %v", err)
	}
	for name, ask := range map[string]struct {
		part  federation.TimelineQuery
		limit int
		want  []string
	}{
		"the newest":                  {federation.TimelineQuery{Place: ops, Newest: true}, 2, []string{"c", "d"}},
		"after a line of one moment":  {federation.TimelineQuery{Place: ops, After: b}, 10, []string{"c", "d"}},
		"before it":                   {federation.TimelineQuery{Place: ops, Before: b, Newest: true}, 10, []string{"a"}},
		"between":                     {federation.TimelineQuery{Place: ops, After: b, Before: federation.Position{At: federationtest.At(4)}}, 10, []string{"c"}},
		"a channel of one link":       {federation.TimelineQuery{Place: other.Place}, 10, []string{"a"}},
		"a private conversation":      {federation.TimelineQuery{Place: private.Place}, 10, []string{"p"}},
		"a place without a line":      {federation.TimelineQuery{Place: federation.ChannelRef{Venue: "#none"}}, 10, nil},
		"the oldest, one at the most": {federation.TimelineQuery{Place: ops}, 1, []string{"a"}},
	} {
		got, err := record.Lines(t.Context(), ask.part, ask.limit)
		if diff := cmp.Diff(ask.want, lineIDs(got)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}

	for _, did := range []federation.DID{ada, bob} {
		venues, err := record.LineVenues(t.Context(), did, time.Time{}, 10)
		if diff := cmp.Diff([]string{private.Place.Venue}, venues); err != nil || diff != "" {
			t.Errorf("conversations of %s: %v (-want +got):\n%s", did, err, diff)
		}
	}
	if venues, err := record.LineVenues(t.Context(), ada, federationtest.At(6), 10); err != nil || len(venues) != 0 {
		t.Errorf("conversations since then: %v, %v", venues, err)
	}

	if n, err := record.PruneLines(t.Context(), federationtest.At(2), 2); err != nil || n != 2 {
		t.Errorf("PruneLines: %d, %v", n, err)
	}
	if n, err := record.PruneLines(t.Context(), federationtest.At(2), 2); err != nil || n != 1 {
		t.Errorf("PruneLines: %d, %v", n, err)
	}
	left, err := record.Lines(t.Context(), federation.TimelineQuery{Place: ops}, 10)
	if diff := cmp.Diff([]string{"d"}, lineIDs(left)); err != nil || diff != "" {
		t.Errorf("left: %v (-want +got):\n%s", err, diff)
	}
}
