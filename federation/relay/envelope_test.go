package relay_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
)

// Three homes in a circle, each of which forwards steps for bob to the next: he moved from one to
// the next, and the last one was not told that he did not move on.
func TestPathEndsLoops(t *testing.T) {
	all := newGates(t, "a.test", "b.test", "c.test")
	a, b, c := all[0], all[1], all[2]
	bob := keyOf("bob").DID
	b.forward, c.forward = []federation.HomeID{"c.test", "a.test"}, []federation.HomeID{"a.test", "b.test"}
	c.moved = map[federation.DID]federation.HomeID{bob: "b.test"}
	a.moved = map[federation.DID]federation.HomeID{bob: "c.test"}
	for i, g := range all {
		g.run(all[(i+1)%len(all)])
		g.run(all[(i+2)%len(all)])
	}
	_, offer := a.take("alice", federation.Offer, to("bob"))
	for _, way := range [][2]*gate{{a, b}, {b, c}} {
		if err := way[0].deliver(way[1]); err != nil {
			t.Fatal(err)
		}
		way[1].comes(offer.ID, "offer")
	}
	step, err := c.record.Step(t.Context(), offer.ID, offer.ID)
	if want := []federation.HomeID{"a.test", "b.test"}; err != nil || !slices.Equal(step.Event.Arrival.Path, want) || step.Event.Arrival.Home != "a.test" {
		t.Errorf("at c it came by %q from %q (%v), want %q", step.Event.Arrival.Path, step.Event.Arrival.Home, err, want)
	}
	sent := func() (n int) {
		for _, g := range all {
			g.mu.Lock()
			n += g.sent
			g.mu.Unlock()
		}
		return n
	}
	before := sent()
	for _, way := range [][2]*gate{{b, a}, {c, a}, {c, b}} { // rows that end at their present home
		if err := way[0].deliver(way[1]); err != nil {
			t.Errorf("from %s back to %s: %v", way[0].id, way[1].id, err)
		}
	}
	if got := sent() - before; got != 0 {
		t.Errorf("%d batches went back to where the step is from", got)
	}
	_, cancel := a.take("alice", federation.Cancel, in(offer.ID))
	for _, way := range [][2]*gate{{a, b}, {b, c}} {
		if err := way[0].deliver(way[1]); err != nil {
			t.Fatal(err)
		}
	}
	c.comes(offer.ID, "offer cancel")
	chain, err := c.record.Chain(t.Context(), offer.ID, 2)
	if want, _ := a.record.Chain(t.Context(), offer.ID, 2); err != nil || chain != want {
		t.Errorf("after %s the chain at c is %x (%v), want %x", cancel.ID, chain, err, want)
	}
}

// A path proves only one thing: that a step has been somewhere.
func TestPathRefusesImpossiblePaths(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	offer := a.sign("alice", federation.Offer, to("bob"))
	batch := written("a.test", "b.test", ruled(t, a, "a.test", offer, 1, federation.Link([32]byte{}, offer.Signature.Document)))
	for name, test := range map[string]struct {
		path []federation.HomeID
		want string
	}{
		"one that has been here":              {[]federation.HomeID{"b.test", "a.test"}, "it loops"},
		"one through too many homes":          {[]federation.HomeID{"x.test", "y.test", "z.test", "a.test"}, "more than 3 homes"},
		"one that ends at another home":       {[]federation.HomeID{"a.test", "x.test"}, "status 400"},
		"one that no home could have written": {[]federation.HomeID{""}, "stored"}, // as none
	} {
		answer, err := post(t, a, b, batch, test.path...)
		if got := fmt.Sprint(answer, err); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// A home forwards the rulings of a third home for parties whose mailbox it had.
func TestPathForwardsOnlyForMovedMailboxes(t *testing.T) {
	for _, party := range []string{"bob", "alice"} {
		all := newGates(t, "a.test", "b.test", "c.test")
		a, b, c := all[0], all[1], all[2]
		offer := a.sign("alice", federation.Offer, to("bob"))
		batch := written("c.test", "b.test", ruled(t, a, "a.test", offer, 1, federation.Link([32]byte{}, offer.Signature.Document)))
		b.moved = map[federation.DID]federation.HomeID{keyOf("carol").DID: "c.test"}
		if answer, err := post(t, c, b, batch, "a.test", "c.test"); !strings.Contains(fmt.Sprint(answer, err), "wrong-sender") {
			t.Errorf("before %s moves: %v, %v", party, answer, err)
		}
		b.moved[keyOf(party).DID] = "c.test"
		if answer, err := post(t, c, b, batch, "a.test", "c.test"); !strings.Contains(fmt.Sprint(answer, err), "stored") {
			t.Errorf("after %s moved: %v, %v", party, answer, err)
		}
		view, err := b.record.View(t.Context(), offer.ID)
		if err != nil || view.Home != "a.test" {
			t.Errorf("the home of the handoff is %q (%v), want a.test", view.Home, err)
		}
	}
}

// A home may forward a ruling long after the ruling home replaced its key, but no newer one of that key.
func TestPathForwardsRulingsOfEndedKeys(t *testing.T) {
	for name, test := range map[string]struct {
		ended time.Duration // since the ruling
		want  string
	}{
		"the key ended after the ruling":  {time.Hour, "stored"},
		"the key ended before the ruling": {-time.Hour, "signature-invalid"},
	} {
		all := newGates(t, "a.test", "b.test", "c.test")
		a, b, c := all[0], all[1], all[2]
		offer := a.sign("alice", federation.Offer, to("bob"))
		batch := written("c.test", "b.test", ruled(t, a, "a.test", offer, 1, federation.Link([32]byte{}, offer.Signature.Document)))
		b.moved = map[federation.DID]federation.HomeID{keyOf("bob").DID: "c.test"}
		a.endKey(time.Now().Add(test.ended))
		b.ahead.Store(int64(2 * time.Hour))
		if answer, err := post(t, c, b, batch, "a.test", "c.test"); !strings.Contains(fmt.Sprint(answer, err), test.want) {
			t.Errorf("%s: %v, %v; want %s", name, answer, err, test.want)
		}
	}
}

func TestPathIsReportedAsReceived(t *testing.T) {
	want := relay.Envelope{Signature: "s", Path: []federation.HomeID{"a.test", "b.test"}}
	if got := relay.NewEnvelope(nil, want.Header()); !slices.Equal(got.Path, want.Path) || got.Signature != want.Signature {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := relay.NewEnvelope(nil, relay.Envelope{}.Header()); got.Path != nil {
		t.Errorf("no path is %q", got.Path)
	}
}

func TestMoveTakesAMailboxFromItsFormerHome(t *testing.T) {
	all := newGates(t, "a.test", "b.test", "c.test")
	a, b, c := all[0], all[1], all[2]
	bob := keyOf("bob").DID
	if err := b.peers["c.test"].Move(t.Context(), bob); err != nil {
		t.Fatal(err)
	}
	if c.people[bob] != "c.test" {
		t.Errorf("bob is at %q", c.people[bob])
	}
	err := b.peers["c.test"].Move(t.Context(), bob)
	if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Detail != "it is not there" {
		t.Errorf("a DID that is elsewhere: %v", err)
	}
	a.people[bob], b.gone = "b.test", []federation.MovedMailbox{{DID: bob, Home: "c.test"}}
	a.run(b)
	a.take("alice", federation.Offer, to("bob"))
	if err := a.deliver(b); err != nil || a.people[bob] != "c.test" {
		t.Errorf("a sender learns nothing there: bob is at %q, %v", a.people[bob], err)
	}
}

// The home that forwards is a peer of the ruling home, and the new mailbox home is not: the offer
// reaches it only this way.
func TestPathForwardsOpenOffersToNewMailboxHomes(t *testing.T) {
	all := newGates(t, "a.test", "b.test", "c.test")
	a, b, c := all[0], all[1], all[2]
	offer := a.sign("alice", federation.Offer, anyone)
	first := federation.Link([32]byte{}, offer.Signature.Document)
	open := written("c.test", "b.test", ruled(t, a, "a.test", offer, 1, first))
	claim := a.sign("bob", federation.Claim, in(offer.ID))
	claimed := written("c.test", "b.test", ruled(t, a, "a.test", claim, 2, federation.Link(first, claim.Signature.Document)))
	outcome := func(batch map[string]any) string {
		t.Helper()
		answer, err := post(t, c, b, batch, "a.test", "c.test")
		return fmt.Sprint(answer, err)
	}
	for name, batch := range map[string]map[string]any{"the offer": open, "the claim": claimed} {
		if got := outcome(batch); !strings.Contains(got, "wrong-sender") {
			t.Errorf("%s, while no mailbox moved: %s", name, got)
		}
	}
	if got := offences(t, b, "c.test"); got[federation.MisbehaviorRuling] == 0 {
		t.Errorf("the claims about rulings: %v", got)
	}
	b.moved = map[federation.DID]federation.HomeID{keyOf("bob").DID: "c.test"}
	for _, step := range []struct {
		batch map[string]any
		want  string
	}{{claimed, "gap"}, {open, "stored"}, {claimed, "stored"}} {
		if got := outcome(step.batch); !strings.Contains(got, step.want) {
			t.Errorf("after the move: %s, want %s", got, step.want)
		}
	}
	b.comes(offer.ID, "offer claim")
}

// The new mailbox home of a party may lack the handoff: the former one sends all of it.
func TestPathForwardsTheStepsBeforeAForwardedStep(t *testing.T) {
	all := newGates(t, "a.test", "b.test", "c.test")
	a, b, c := all[0], all[1], all[2]
	a.run(b)
	b.run(c)
	_, offer := a.take("alice", federation.Offer, to("bob"))
	if err := a.deliver(b); err != nil {
		t.Fatal(err)
	}
	b.forward = []federation.HomeID{"c.test"}
	c.moved = map[federation.DID]federation.HomeID{keyOf("bob").DID: "b.test"}
	a.take("alice", federation.Cancel, in(offer.ID))
	if err := a.deliver(b); err != nil {
		t.Fatal(err)
	}
	if err := b.deliver(c); err != nil {
		t.Fatal(err)
	}
	c.comes(offer.ID, "offer cancel")
	if got := offences(t, c, "b.test"); len(got) > 0 {
		t.Errorf("the former mailbox home has offences: %v", got)
	}
}
