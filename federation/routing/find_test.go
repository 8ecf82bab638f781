package routing_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
)

func (w *world) unroutedOffer(to federation.DID) federation.Delivery {
	w.agents[alice] = true
	return federation.Delivery{
		Entry: federation.Entry{Event: federation.Event{ID: eventID(1), From: alice, To: to, Verb: federation.Offer}},
		View:  federation.View{Home: self, Offerer: alice, Offeree: to},
	}
}

// An offer to a DID whose home is not known goes to the home that the first source names.
func TestFindRoutesAnUnroutedOffer(t *testing.T) {
	t.Parallel()
	const web = federation.DID("did:web:people.test%3A8443:bob")
	for name, test := range map[string]struct {
		to     federation.DID
		world  func(w *world)
		want   federation.HomeID
		source federation.LocationSource
	}{
		"its document names one":                    {bob, func(w *world) { w.named[bob], w.housed["c.test"] = "https://b.test/", true }, "b.test", federation.LocatedByDocument},
		"the host of a did:web":                     {web, func(w *world) { w.hosts["people.test:8443"], w.housed["c.test"] = "b.test", true }, "b.test", federation.LocatedByHost},
		"one peer says yes":                         {bob, func(w *world) { w.housed["c.test"] = true }, "c.test", federation.LocatedByAnswer},
		"one says yes, and no document can be read": {bob, func(w *world) { w.housed["c.test"], w.noDocs = true, errors.New("down") }, "c.test", federation.LocatedByAnswer},
		"one says yes, and one is away":             {bob, func(w *world) { w.housed["c.test"], w.away["b.test"] = true, errors.New("down") }, "c.test", federation.LocatedByAnswer},
		"it was found before":                       {bob, func(w *world) { w.bindings[bob] = federation.Binding{DID: bob, Link: "c.test", Seen: now} }, "c.test", federation.LocatedByStep},
	} {
		w := newWorld()
		test.world(w)
		if err := w.locator().Deliver(t.Context(), w.unroutedOffer(test.to), now); err != nil || !slices.Equal(w.sent, []federation.HomeID{test.want}) {
			t.Errorf("%s: sent to %v, %v", name, w.sent, err)
		}
		w.at(t, test.to, test.want, test.source)
	}
}

func TestFindKeepsAnOfferWithoutAHome(t *testing.T) {
	t.Parallel()
	const web = federation.DID("did:web:people.test:bob")
	for name, test := range map[string]struct {
		to    federation.DID
		world func(w *world)
		why   string
	}{
		"no home has it":                     {bob, func(*world) {}, "no home is known"},
		"its document names a stranger":      {bob, func(w *world) { w.named[bob] = "https://d.test" }, "which is no peer of this gateway"},
		"its host names a stranger":          {web, func(w *world) { w.hosts["people.test"] = "d.test" }, "which is no peer of this gateway"},
		"a peer does not answer":             {bob, func(w *world) { w.away["c.test"] = errors.New("timeout") }, "timeout"},
		"two homes say that they have it":    {bob, func(w *world) { w.housed["b.test"], w.housed["c.test"] = true, true }, "b.test and c.test each claim"},
		"it is found at a home that is gone": {bob, func(w *world) { w.locations[bob] = federation.MailboxLocation{DID: bob, Home: "d.test"} }, "which is no peer of this home"},
	} {
		w := newWorld()
		test.world(w)
		err := w.locator().Deliver(t.Context(), w.unroutedOffer(test.to), now)
		if !isUnavailable(err) || !strings.Contains(err.Error(), test.why) || len(w.sent) > 0 {
			t.Errorf("%s: %v, sent to %v", name, err, w.sent)
		}
	}
}

// A mailbox that moves is claimed by both homes for a while.
func TestFindReportsHomesThatClaimOneMailboxForLong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		agreed time.Duration // after which c.test claims it no more, for a moment; 0 for never
		want   []federation.HomeID
	}{
		"since ten minutes":        {want: []federation.HomeID{"b.test", "c.test"}},
		"since less, with a pause": {agreed: 5 * time.Minute},
	} {
		w := newWorld()
		locator := w.locator()
		for after := time.Duration(0); after <= 10*time.Minute; after += 5 * time.Minute {
			w.housed["b.test"], w.housed["c.test"] = true, true
			if after == test.agreed && after > 0 {
				w.housed["b.test"], w.housed["c.test"] = false, false
			}
			_ = locator.Deliver(t.Context(), w.unroutedOffer(bob), now.Add(after))
			if after < 10*time.Minute && len(w.offences) > 0 {
				t.Errorf("%s: after %s, offences of %v", name, after, w.offences)
			}
		}
		if !slices.Equal(w.offences, test.want) || len(w.locations) > 0 {
			t.Errorf("%s: offences of %v, kept %v", name, w.offences, w.locations)
		}
	}
}

func TestFindAsksPeersOnceAMinute(t *testing.T) {
	t.Parallel()
	w := newWorld()
	locator := w.locator()
	for _, after := range []time.Duration{0, time.Second, time.Minute - time.Second, time.Minute} {
		if err := locator.Deliver(t.Context(), w.unroutedOffer(bob), now.Add(after)); !isUnavailable(err) {
			t.Errorf("after %s: %v", after, err)
		}
	}
	if w.asked != 2 {
		t.Errorf("b.test was asked %d times, want twice", w.asked)
	}
}

func TestFindDropsStepsOfClosedHandoffs(t *testing.T) {
	t.Parallel()
	w := newWorld()
	d := w.unroutedOffer(bob)
	d.View.Over = true
	if err := w.locator().Deliver(t.Context(), d, now); !isRefused(err) {
		t.Errorf("got %v", err)
	}
}

func TestFindSendsAStepToEachHomeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.housed["b.test"] = true
	d := w.unroutedOffer(bob)
	d.View.Assignee = "did:key:carol"
	if err := w.locator().Deliver(t.Context(), d, now); err != nil || !slices.Equal(w.sent, []federation.HomeID{"b.test"}) {
		t.Errorf("sent to %v, %v", w.sent, err)
	}
	w = newWorld()
	w.housed["b.test"], w.away["b.test"] = true, nil
	w.refusing[eventID(1)] = true
	if err := w.locator().Deliver(t.Context(), w.unroutedOffer(bob), now); !isRefused(err) {
		t.Errorf("a refusal of the home: %v", err)
	}
}

// A message has no entry in the inbox here while its home is searched: nothing would deliver it.
func TestFindRefusesAMessageToALocalDID(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.agents[alice], w.agents[bob] = true, true
	err := w.locator().DeliverText(t.Context(), federation.Text{ID: eventID(1), From: alice, Author: alice, To: bob}, now)
	if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != federation.InvalidTarget || len(w.sent) != 0 {
		t.Errorf("sent to %v, %v", w.sent, err)
	}
}
