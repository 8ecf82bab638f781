package mailbox_test

import (
	"slices"
	"testing"
	"time"

	"baton/federation"
	"baton/federation/mailbox"
)

const alice = federation.DID("did:key:z6Mkalice")

// recipients is one case of [mailbox.Locator.Recipients].
type recipients struct {
	event federation.Event
	after federation.View
	want  []string
}

func TestAStepGoesToTheHomesOfItsParties(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.agents[alice] = true
	w.locations[bob] = federation.MailboxLocation{DID: bob, Home: "b.test", Source: federation.LocatedByStep}
	w.locations["did:key:gone"] = federation.MailboxLocation{DID: "did:key:gone", Home: "gone.test", Source: federation.LocatedByStep}
	w.peers = append(w.peers, mailbox.Peer{Home: "d.test", Blocked: true})
	offer := federation.Event{From: alice, Verb: federation.Offer}
	between := federation.View{Home: self, Offerer: alice, Offeree: bob}
	for name, test := range map[string]recipients{
		"an offer to bob":                 {offer, between, []string{"b.test"}},
		"an offer to anyone":              {offer, federation.View{Home: self, Offerer: alice}, []string{"b.test", "c.test"}},
		"a claim that b.test brought":     {federation.Event{From: bob, Verb: federation.Claim, Arrival: federation.Arrival{Link: "b.test", Abroad: true}}, federation.View{Home: self, Offerer: alice, Assignee: bob}, []string{"c.test"}},
		"an accept that b.test brought":   {federation.Event{From: bob, Verb: federation.Accept, Arrival: federation.Arrival{Link: "b.test", Abroad: true}}, between, nil},
		"an accept that bob took here":    {federation.Event{From: bob, Verb: federation.Accept, Arrival: federation.Arrival{Link: "lab"}}, between, nil},
		"an offer to an unknown DID":      {offer, federation.View{Home: self, Offerer: alice, Offeree: "did:key:stranger"}, []string{mailbox.Unrouted}},
		"an offer to a home that is gone": {offer, federation.View{Home: self, Offerer: alice, Offeree: "did:key:gone"}, []string{mailbox.Unrouted}},
		"a receipt":                       {federation.Event{From: self.DID(), Verb: federation.Confirm}, between, nil},
		"a step of another home":          {offer, federation.View{Home: "c.test", Offerer: alice, Offeree: bob, Numbered: true}, nil},
	} {
		got, err := w.locator().Recipients(t.Context(), test.event, test.after, now)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s goes to %q (%v), want %q", name, got, err, test.want)
		}
	}
	w.peers = nil
	if got, err := w.locator().Recipients(t.Context(), offer, between, now); err != nil || got != nil {
		t.Errorf("without peers: %q, %v", got, err)
	}
}

func TestAMovedMailboxForwardsForThirtyDays(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	w := newWorld()
	w.peers = append(w.peers, mailbox.Peer{Home: "d.test"})
	w.locations[bob] = federation.MailboxLocation{DID: bob, Home: "b.test", Source: federation.LocatedByMove, From: self, Since: now}
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
