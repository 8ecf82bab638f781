package routing_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/routing"
)

const alice = federation.DID("did:key:z6Mkalice")

type recipients struct {
	event federation.Event
	after federation.View
	want  []string
}

func TestRecipientsAreTheHomesOfTheParties(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.agents[alice] = true
	w.locations[bob] = federation.MailboxLocation{DID: bob, Home: "b.test", Source: federation.LocatedByStep}
	w.locations["did:key:gone"] = federation.MailboxLocation{DID: "did:key:gone", Home: "gone.test", Source: federation.LocatedByStep}
	w.peers = append(w.peers, routing.Peer{Home: "d.test", Blocked: true})
	offer := federation.Event{From: alice, Verb: federation.Offer}
	between := federation.View{Home: self, Offerer: alice, Offeree: bob}
	onLab := func(from federation.DID) federation.View {
		return federation.View{Home: self, Offerer: from, Offeree: "did:key:stranger", Link: "lab", Venue: federation.PrivateVenue(from, "did:key:stranger")}
	}
	w.bindings["did:key:lena"] = federation.Binding{DID: "did:key:lena", Network: "irc", Link: "lab", Seen: now}
	for name, test := range map[string]recipients{
		"an offer to bob":                 {offer, between, []string{"b.test"}},
		"an offer to anyone":              {offer, federation.View{Home: self, Offerer: alice}, []string{"b.test", "c.test"}},
		"a claim that b.test brought":     {federation.Event{From: bob, Verb: federation.Claim, Arrival: federation.Arrival{Link: "b.test", Home: "b.test", RemoteVenue: true}}, federation.View{Home: self, Offerer: alice, Assignee: bob}, []string{"c.test"}},
		"an accept that b.test brought":   {federation.Event{From: bob, Verb: federation.Accept, Arrival: federation.Arrival{Link: "b.test", Home: "b.test", RemoteVenue: true}}, between, nil},
		"an offer that b.test gives back": {federation.Event{From: alice, Verb: federation.Offer, Arrival: federation.Arrival{Link: "b.test"}}, between, []string{"b.test"}},
		"an open one that it gives back":  {federation.Event{From: alice, Verb: federation.Offer, Arrival: federation.Arrival{Link: "b.test"}}, federation.View{Home: self, Offerer: alice}, []string{"b.test", "c.test"}},
		"an accept that bob took here":    {federation.Event{From: bob, Verb: federation.Accept, Arrival: federation.Arrival{Link: "lab"}}, between, nil},
		"an offer to an unknown DID":      {offer, federation.View{Home: self, Offerer: alice, Offeree: "did:key:stranger"}, []string{routing.Unrouted}},
		"an agent's offer, put on a link": {offer, onLab(alice), nil},
		"a first offer from a link":       {federation.Event{From: "did:key:new", Verb: federation.Offer, Arrival: federation.Arrival{Link: "lab"}}, onLab("did:key:new"), []string{routing.Unrouted}},
		"a cancel of an offer from there": {federation.Event{From: "did:key:lena", Verb: federation.Cancel, Arrival: federation.Arrival{Link: "http"}}, onLab("did:key:lena"), []string{routing.Unrouted}},
		"an offer to a home that is gone": {offer, federation.View{Home: self, Offerer: alice, Offeree: "did:key:gone"}, []string{routing.Unrouted}},
		"a receipt":                       {federation.Event{From: self.DID(), Verb: federation.Confirm}, between, nil},
		"a step of another home":          {offer, federation.View{Home: "c.test", Offerer: alice, Offeree: bob, Numbered: true}, nil},
	} {
		got, err := w.locator().Recipients(t.Context(), test.event, test.after, now)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s goes to %q (%v), want %q", name, got, err, test.want)
		}
	}
}

// An offer to bob, whose mailbox is at b.test, is no offer to an inbox here once b.test is no
// longer a peer.
func TestRecipientsKeepARouteToARemovedPeer(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]func(w *world){
		"a step that it brought": func(w *world) {
			w.bindings[bob] = federation.Binding{DID: bob, Network: "home", Link: "b.test", Seen: now}
		},
		"a kept location": func(w *world) {
			w.locations[bob] = federation.MailboxLocation{DID: bob, Home: "b.test", Source: federation.LocatedByStep, Since: now}
		},
	} {
		for _, others := range [][]routing.Peer{nil, {{Home: "c.test"}}} {
			w := newWorld()
			w.agents[alice] = true
			where(w)
			w.peers = others
			l := w.locator()
			offer := federation.Event{From: alice, Verb: federation.Offer}
			view := federation.View{Home: self, Offerer: alice, Offeree: bob}
			got, err := l.Recipients(t.Context(), offer, view, now)
			if err != nil || !slices.Equal(got, []string{routing.Unrouted}) {
				t.Errorf("%s, %d other peers: it goes to %q (%v)", name, len(others), got, err)
			}
			d := federation.Delivery{Entry: federation.Entry{Event: offer}, View: view}
			if err := l.Deliver(t.Context(), d, now); !isUnavailable(err) || !strings.Contains(err.Error(), "b.test, which is no peer") {
				t.Errorf("%s: delivered: %v", name, err)
			}
			if at, err := l.OfParties(t.Context(), view); err != nil || len(at) != 2 || at[1].Home != "b.test" {
				t.Errorf("%s: the parties are at %+v, %v", name, at, err)
			}
			w.peers = append(w.peers, routing.Peer{Home: "b.test"}) // the route returns
			if err := l.Deliver(t.Context(), d, now); err != nil || !slices.Equal(w.sent, []federation.HomeID{"b.test"}) {
				t.Errorf("%s: delivered to %v, %v", name, w.sent, err)
			}
		}
	}
}

func TestRecipientsFollowALostRoute(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		seen func(w *world, l *routing.Locator)
		want []federation.HomeID
	}{
		"here": {func(_ *world, l *routing.Locator) { l.LearnFromLogin(context.Background(), bob, now.Add(time.Hour)) }, nil},
		"by a step from c": {func(_ *world, l *routing.Locator) {
			l.LearnFromStep(context.Background(), bob, federation.Signed, "c.test", now.Add(time.Hour))
		}, []federation.HomeID{"c.test"}},
		"by c, which says so": {func(w *world, _ *routing.Locator) { w.housed["c.test"] = true }, []federation.HomeID{"c.test"}},
	} {
		w := newWorld()
		w.bindings[bob] = federation.Binding{DID: bob, Network: "home", Link: "b.test", Seen: now}
		w.peers = w.peers[1:]
		l := w.locator()
		test.seen(w, l)
		d := federation.Delivery{View: federation.View{Home: self, Offerer: self.DID(), Offeree: bob}}
		if err := l.Deliver(t.Context(), d, now.Add(2*time.Hour)); err != nil || !slices.Equal(w.sent, test.want) {
			t.Errorf("seen %s: sent to %v, %v; want %v", name, w.sent, err, test.want)
		}
	}
}

func TestRecipientsAreNoneWithoutPeers(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.agents[alice], w.peers = true, nil
	offer := federation.Event{From: alice, Verb: federation.Offer}
	got, err := w.locator().Recipients(t.Context(), offer, federation.View{Home: self, Offerer: alice, Offeree: bob}, now)
	if err != nil || got != nil {
		t.Errorf("without peers: %q, %v", got, err)
	}
}

func TestLearnFromLoginLocatesTheMailbox(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kept   federation.MailboxLocation
		home   federation.HomeID
		source federation.LocationSource
	}{
		"of an unknown DID":                  {home: self, source: federation.LocatedByLogin},
		"of one that another home claims":    {federation.MailboxLocation{Home: "b.test", Source: federation.LocatedByAnswer}, self, federation.LocatedByLogin},
		"of one that takes steps elsewhere":  {federation.MailboxLocation{Home: "b.test", Source: federation.LocatedByStep}, "b.test", federation.LocatedByStep},
		"of one that an operator moved away": {federation.MailboxLocation{Home: "b.test", Source: federation.LocatedByMove}, "b.test", federation.LocatedByMove},
		"of one whose home is gone":          {federation.MailboxLocation{Home: "gone.test", Source: federation.LocatedByStep}, self, federation.LocatedByLogin},
	} {
		w := newWorld()
		if test.kept.DID = bob; test.kept.Home != "" {
			w.locations[bob] = test.kept
		}
		l := w.locator()
		l.LearnFromLogin(t.Context(), bob, now)
		if at, err := l.Locate(t.Context(), bob); err != nil || at.Home != test.home || at.Source != test.source {
			t.Errorf("a login %s: at %q by %q, %v", name, at.Home, at.Source, err)
		}
		here, err := l.Here(t.Context(), bob)
		if err != nil || here != (test.home == self) {
			t.Errorf("a login %s: here %t, %v", name, here, err)
		}
	}
}

func TestRecipientsForwardMovedMailboxesForThirtyDays(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	w := newWorld()
	w.peers = append(w.peers, routing.Peer{Home: "d.test"})
	w.locations[bob] = federation.MailboxLocation{DID: bob, Home: "b.test", Source: federation.LocatedByMove, Former: []federation.HomeID{self}, Since: now}
	view := federation.View{Home: "c.test", Offerer: alice, Offeree: bob, Numbered: true}
	through := func(homes ...federation.HomeID) federation.Event {
		return federation.Event{From: alice, Verb: federation.Offer, Arrival: federation.Arrival{Path: homes}}
	}
	for name, test := range map[string]struct {
		event federation.Event
		after federation.View
		at    time.Time
		want  []string
	}{
		"at once":                      {through("c.test"), view, now, []string{"b.test"}},
		"after thirty days":            {through("c.test"), view, now.Add(30 * day), []string{"b.test"}},
		"a moment later":               {through("c.test"), view, now.Add(30*day + time.Second), nil},
		"where the step has been":      {through("c.test", "b.test"), view, now, nil},
		"to the home of the handoff":   {through("b.test"), federation.View{Home: "b.test", Offerer: alice, Offeree: bob, Numbered: true}, now, nil},
		"without a ruling to show":     {through("c.test"), federation.View{Home: "c.test", Offerer: alice, Offeree: bob}, now, nil},
		"of a party that did not move": {through("c.test"), federation.View{Home: "c.test", Offerer: alice, Numbered: true}, now, nil},
	} {
		got, err := w.locator().Recipients(t.Context(), test.event, test.after, test.at)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: forwarded to %q (%v), want %q", name, got, err, test.want)
		}
	}
	moved := w.locator().MovedAway(t.Context(), view, now)
	if want := (federation.MovedMailbox{DID: bob, Home: "b.test"}); len(moved) != 1 || moved[0] != want {
		t.Errorf("MovedAway returns %+v", moved)
	}
}
