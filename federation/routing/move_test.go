package routing_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/routing"
)

func (w *world) fill(entries byte) {
	for n := range entries {
		id := eventID(n + 1)
		w.views[id] = federation.View{ID: id, Home: self, Version: 1}
		w.inbox = append(w.inbox, federation.Lease{
			LeaseToken: federation.LeaseToken{Cursor: federation.Cursor(id.String())}, Entry: federation.Entry{Event: federation.Event{ID: id, Handoff: id}},
		})
	}
}

func clock() time.Time { return now }

func TestMoveTakesEntriesAlong(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.agents[bob] = true
	w.fill(100) // more than one batch
	locator := w.locator()
	moved, err := locator.Move(t.Context(), bob, "b.test", true, clock)
	if want := (routing.Moved{DID: bob, Home: "b.test", Waiting: 100}); err != nil || moved != want || len(w.given)+len(w.sent) > 0 {
		t.Errorf("a dry run: %+v, %v", moved, err)
	}
	w.refusing[eventID(7)] = true
	guest := w.views[eventID(8)]
	guest.Home = "old.test" // without numbered rulings
	w.views[eventID(8)] = guest

	moved, err = locator.Move(t.Context(), bob, "b.test", false, clock)
	if want := (routing.Moved{DID: bob, Home: "b.test", Taken: 98, Waiting: 2}); err != nil || moved != want {
		t.Errorf("the move: %+v, %v", moved, err)
	}
	if len(w.given) != 1 || len(w.sent) != 98 || len(w.inbox) != 2 {
		t.Errorf("given to %v, %d sent, %d left", w.given, len(w.sent), len(w.inbox))
	}
	if slices.ContainsFunc(w.inbox, func(l federation.Lease) bool { return l.Device != "" }) {
		t.Errorf("what is left is leased: %v", w.inbox)
	}
	if at := w.locations[bob]; at.Source != federation.LocatedByMove || at.Home != "b.test" || !slices.Equal(at.Former, []federation.HomeID{self}) || !at.Since.Equal(now) {
		t.Errorf("kept: %+v", at)
	}
	w.refusing, w.inbox = nil, nil
	w.fill(1)
	if moved, err = locator.Move(t.Context(), bob, "b.test", false, clock); err != nil || moved.Taken != 1 {
		t.Errorf("a second move: %+v, %v", moved, err)
	}
}

func TestMoveEndsIfTheOtherHomeIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.agents[bob] = true
	w.fill(3)
	w.away["b.test"] = &federation.UnavailableError{What: "home b.test"}
	if _, err := w.locator().Move(t.Context(), bob, "b.test", false, clock); !isUnavailable(err) || len(w.locations) > 0 {
		t.Errorf("before it: %v, kept %v", err, w.locations)
	}
	w.locations[bob] = federation.MailboxLocation{DID: bob, Home: "b.test", Source: federation.LocatedByMove, Former: []federation.HomeID{self}, Since: now}
	if _, err := w.locator().Move(t.Context(), bob, "b.test", false, clock); !isUnavailable(err) || len(w.inbox) != 3 {
		t.Errorf("after it: %v, %d entries left", err, len(w.inbox))
	}
	w.away["b.test"] = nil
	if moved, err := w.locator().Move(t.Context(), bob, "b.test", false, clock); err != nil || moved.Taken != 3 || moved.Waiting != 0 {
		t.Errorf("a second move, at once: %+v, %v", moved, err)
	}
}

func TestMoveRefusesRemoteMailboxes(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if _, err := w.locator().Move(t.Context(), bob, "d.test", false, clock); !isOf[*routing.PeerError](err) {
		t.Errorf("to a home that is no peer: %v", err)
	}
	for name, did := range map[string]federation.DID{"a DID without a location": bob, "this home": self.DID()} {
		if _, err := w.locator().Move(t.Context(), did, "b.test", false, clock); !isOf[*routing.ElsewhereError](err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.locations[bob] = federation.MailboxLocation{DID: bob, Home: "c.test", Source: federation.LocatedByStep}
	if _, err := w.locator().Move(t.Context(), bob, "b.test", false, clock); !isOf[*routing.ElsewhereError](err) {
		t.Errorf("a mailbox elsewhere: %v", err)
	}
	delete(w.locations, bob)
	w.fill(1)
	if moved, err := w.locator().Move(t.Context(), bob, "b.test", false, clock); err != nil || moved.Taken != 1 {
		t.Errorf("entries without a location: %+v, %v", moved, err)
	}
}

func isOf[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func TestTakeOverAsksTheMailboxHome(t *testing.T) {
	t.Parallel()
	w := newWorld()
	locator := w.locator()
	w.locations[bob] = federation.MailboxLocation{DID: bob, Home: "c.test", Source: federation.LocatedByStep}
	w.housed["c.test"] = true
	if why, err := locator.TakeOver(t.Context(), bob, "b.test", now); err != nil || why != "its mailbox is known to be at c.test" {
		t.Errorf("from a home that does not have it: %q, %v", why, err)
	}
	w.away["c.test"] = &federation.UnavailableError{What: "home c.test"}
	if _, err := locator.TakeOver(t.Context(), bob, "b.test", now); !isUnavailable(err) || w.locations[bob].Source != federation.LocatedByStep {
		t.Errorf("while the known home does not answer: %v, kept %v", err, w.locations)
	}
	delete(w.away, "c.test")
	if why, err := locator.TakeOver(t.Context(), bob, "c.test", now); err != nil || why != "" {
		t.Errorf("from the home that has it: %q, %v", why, err)
	}
	w.at(t, bob, self, federation.LocatedByMove)
	for from, want := range map[federation.HomeID]bool{"c.test": true, "b.test": false} {
		here, err := locator.MovedHere(t.Context(), bob, from)
		anyone, failed := locator.MovedFrom(t.Context(), from)
		if here != want || anyone != want || err != nil || failed != nil {
			t.Errorf("moved here from %s: %t, %t; %v %v", from, here, anyone, err, failed)
		}
	}
	w.broken = errors.New("the disk is gone")
	if _, err := locator.MovedHere(t.Context(), bob, "c.test"); !errors.Is(err, w.broken) {
		t.Errorf("a record that cannot be read: %v", err)
	}
	w.broken = nil
	if why, err := locator.TakeOver(t.Context(), bob, "c.test", now); err != nil || why != "" {
		t.Errorf("once more: %q, %v", why, err)
	}
}

// A mailbox moved from c.test to b.test, and this home knows it only at c.test.
func TestTakeOverAcceptsASecondMove(t *testing.T) {
	t.Parallel()
	w := newWorld()
	locator := w.locator()
	w.locations[bob] = federation.MailboxLocation{DID: bob, Home: "c.test", Source: federation.LocatedByAnswer}
	if why, err := locator.TakeOver(t.Context(), bob, "b.test", now); err != nil || why != "" {
		t.Errorf("from its new home: %q, %v", why, err)
	}
	w.at(t, bob, self, federation.LocatedByMove)
}

// A mailbox moved from c.test to this home, and on to b.test.
func TestMoveForwardsASecondMove(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.peers = append(w.peers, routing.Peer{Home: "d.test"}, routing.Peer{Home: "e.test"})
	locator := w.locator()
	if why, err := locator.TakeOver(t.Context(), bob, "c.test", now); err != nil || why != "" {
		t.Fatalf("the first move: %q, %v", why, err)
	}
	if _, err := locator.Move(t.Context(), bob, "b.test", false, clock); err != nil {
		t.Fatalf("the second move: %v", err)
	}
	for from, want := range map[federation.HomeID]bool{"c.test": true, "b.test": false, "d.test": false} {
		here, err := locator.MovedHere(t.Context(), bob, from)
		if here != want || err != nil {
			t.Errorf("moved here from %s: %t, %v", from, here, err)
		}
	}
	if err := locator.LearnMove(t.Context(), federation.MovedMailbox{DID: bob, Home: "e.test"}, "b.test", now); err != nil {
		t.Fatal(err)
	}
	view := federation.View{Home: "d.test", Offerer: alice, Offeree: bob, Numbered: true}
	event := federation.Event{From: alice, Verb: federation.Offer, Arrival: federation.Arrival{Path: []federation.HomeID{"d.test", "c.test"}}}
	if to, err := locator.Recipients(t.Context(), event, view, now); err != nil || !slices.Equal(to, []string{"b.test"}) {
		t.Errorf("after a third move, forwarded to %v, want the home that knows of this one: %v", to, err)
	}
	if gone := locator.MovedAway(t.Context(), view, now); len(gone) != 1 || gone[0].Home != "e.test" {
		t.Errorf("other homes are told %v", gone)
	}
	if why, err := locator.TakeOver(t.Context(), bob, "e.test", now); err != nil || why != "" {
		t.Errorf("its return: %q, %v", why, err)
	}
	if to, err := locator.Recipients(t.Context(), event, view, now); err != nil || len(to) > 0 {
		t.Errorf("after its return, forwarded to %v, %v", to, err)
	}
}

func TestLearnMoveTrustsOnlyTheFormerHome(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from, to federation.HomeID
		want     federation.HomeID
	}{
		"from the home that had it":     {"b.test", "c.test", "c.test"},
		"from another one":              {"c.test", "b.test", "b.test"},
		"to a home that is no peer":     {"b.test", "d.test", "b.test"},
		"to this home, which has a say": {"b.test", self, "b.test"},
	} {
		w := newWorld()
		w.locations[bob] = federation.MailboxLocation{DID: bob, Home: "b.test", Source: federation.LocatedByStep}
		if err := w.locator().LearnMove(t.Context(), federation.MovedMailbox{DID: bob, Home: test.to}, test.from, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := w.locations[bob].Home; got != test.want {
			t.Errorf("%s: bob is at %q", name, got)
		}
	}
}
