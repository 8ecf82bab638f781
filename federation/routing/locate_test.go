package routing_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/routing"
)

// Each case adds a source that overrules the sources of the cases before it.
func TestLocatePrefersTheFirstSource(t *testing.T) {
	t.Parallel()
	const did = federation.DID("did:web:b.test:bob")
	w := newWorld()
	w.peers = w.peers[1:]
	w.at(t, did, "", "")

	w.locations[did] = federation.MailboxLocation{DID: did, Home: "c.test", Source: federation.LocatedByAnswer}
	w.at(t, did, "c.test", federation.LocatedByAnswer)

	w.peers = newWorld().peers // b.test among them
	w.at(t, did, "b.test", federation.LocatedByName)

	w.bindings[did] = federation.Binding{DID: did, Link: "c.test"}
	w.at(t, did, "c.test", federation.LocatedByBinding)

	w.bindings[did] = federation.Binding{DID: did, Link: "c.test", Seen: now}
	w.at(t, did, "c.test", federation.LocatedByStep)

	w.bindings[did] = federation.Binding{DID: did, Link: "lab", Seen: now}
	w.at(t, did, self, federation.LocatedHere)

	w.bindings[did] = federation.Binding{DID: did, Link: "c.test", Seen: now}
	w.agents[did] = true
	w.at(t, did, self, federation.LocatedHere)

	w.locations[did] = federation.MailboxLocation{DID: did, Home: "c.test", Source: federation.LocatedByMove, Former: []federation.HomeID{self}, Since: now}
	w.at(t, did, "c.test", federation.LocatedByMove)
}

// The cases are in the order of the table in the package comment.
func TestResolveReturnsTheAddressOfADID(t *testing.T) {
	t.Parallel()
	const did = federation.DID("did:web:b.test:bob")
	onLink := federation.Binding{DID: did, Link: "lab", Name: "bobby", Seen: now}
	atHome := federation.Binding{DID: did, Network: "home", Link: "c.test", Name: "bob", Seen: now}
	moved := federation.MailboxLocation{DID: did, Home: "c.test", Source: federation.LocatedByMove}
	answer := federation.MailboxLocation{DID: did, Home: "c.test", Source: federation.LocatedByAnswer}
	there := func(home federation.HomeID, source federation.LocationSource, since time.Time) federation.MailboxLocation {
		return federation.MailboxLocation{DID: did, Home: home, Source: source, Since: since}
	}
	for name, test := range map[string]struct {
		world func(w *world)
		want  routing.Address
	}{
		"moved, and seen here": {
			func(w *world) { w.locations[did], w.bindings[did] = moved, onLink },
			routing.Address{MailboxLocation: moved, Binding: onLink, Link: "lab"},
		},
		"an agent": {
			func(w *world) { w.agents[did] = true },
			routing.Address{MailboxLocation: there(self, federation.LocatedHere, time.Time{}), Agent: true},
		},
		"an agent that signed on a link": {
			func(w *world) { w.agents[did], w.bindings[did] = true, onLink },
			routing.Address{MailboxLocation: there(self, federation.LocatedHere, time.Time{}), Agent: true, Binding: onLink, Link: "lab"},
		},
		"seen on a link": {
			func(w *world) { w.bindings[did] = onLink },
			routing.Address{MailboxLocation: there(self, federation.LocatedHere, now), Binding: onLink, Link: "lab"},
		},
		"seen at another home": {
			func(w *world) { w.bindings[did] = atHome },
			routing.Address{MailboxLocation: there("c.test", federation.LocatedByStep, now), Binding: atHome},
		},
		"below the name of a home, and logged in here": {
			func(w *world) { w.loggedIn[did] = "lab" },
			routing.Address{MailboxLocation: there("b.test", federation.LocatedByName, time.Time{}), Link: "lab"},
		},
		"claimed by a home, and the home of its name is no peer": {
			func(w *world) { w.locations[did], w.peers = answer, w.peers[1:] },
			routing.Address{MailboxLocation: answer},
		},
		"unknown": {
			func(w *world) { w.peers = nil },
			routing.Address{MailboxLocation: there("", "", time.Time{})},
		},
	} {
		w := newWorld()
		test.world(w)
		got, err := w.locator().Resolve(t.Context(), did)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestLocateKnowsItsOwnHome(t *testing.T) {
	t.Parallel()
	newWorld().at(t, self.DID(), self, federation.LocatedHere)
}

func TestMaySpeakForAsksTheKnownHomeOfTheMailbox(t *testing.T) {
	t.Parallel()
	at := func(home federation.HomeID, source federation.LocationSource) federation.MailboxLocation {
		return federation.MailboxLocation{DID: bob, Home: home, Source: source}
	}
	housed := func(w *world) { w.housed["c.test"] = true }
	outage := errors.New("outage")
	for name, test := range map[string]struct {
		kept  federation.MailboxLocation
		world func(w *world)
		want  bool
		err   error
	}{
		"no location is known":            {want: true},
		"the mailbox is there":            {kept: at("b.test", federation.LocatedByStep), want: true},
		"another home only claims it":     {kept: at("c.test", federation.LocatedByAnswer), world: housed, want: true},
		"it is elsewhere":                 {kept: at("c.test", federation.LocatedByStep), world: housed},
		"an operator moved it elsewhere":  {kept: at("c.test", federation.LocatedByMove), world: housed},
		"it has left the known home":      {kept: at("c.test", federation.LocatedByStep), want: true},
		"it is here":                      {kept: at(self, federation.LocatedByMove)},
		"the known home is no peer":       {kept: at("d.test", federation.LocatedByStep)},
		"the known home is blocked":       {kept: at("c.test", federation.LocatedByStep), world: func(w *world) { w.peers[1].Blocked = true }},
		"the known home does not answer":  {kept: at("c.test", federation.LocatedByStep), world: func(w *world) { w.away["c.test"] = outage }, err: outage},
		"the record cannot be read today": {world: func(w *world) { w.broken = outage }, err: outage},
	} {
		w := newWorld()
		if test.kept.Home != "" {
			w.locations[bob] = test.kept
		}
		if test.world != nil {
			test.world(w)
		}
		if got, err := w.locator().MaySpeakFor(t.Context(), bob, "b.test"); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}

func TestLearnFromStepLocatesItsSigner(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kept       federation.MailboxLocation
		provenance federation.Provenance
		want       federation.HomeID
	}{
		"no location is known":                      {provenance: federation.Signed, want: "b.test"},
		"a location is known":                       {kept: federation.MailboxLocation{Home: "c.test", Source: federation.LocatedByDocument}, provenance: federation.Signed, want: "c.test"},
		"another home claims it, and bob signed":    {kept: federation.MailboxLocation{Home: "c.test", Source: federation.LocatedByAnswer}, provenance: federation.Signed, want: "b.test"},
		"another home claims it, and b.test signed": {kept: federation.MailboxLocation{Home: "c.test", Source: federation.LocatedByAnswer}, provenance: federation.Vouched, want: "c.test"},
	} {
		w := newWorld()
		if test.kept.DID = bob; test.kept.Home != "" {
			w.locations[bob] = test.kept
		}
		w.locator().LearnFromStep(t.Context(), bob, test.provenance, "b.test", now)
		if got := w.locations[bob].Home; got != test.want || len(w.offences) > 0 {
			t.Errorf("%s: bob is at %q, offences of %v", name, got, w.offences)
		}
	}
}

func TestLearnFromStepKeepsLocalNames(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if got, err := w.locator().LocalName(t.Context(), bob, "bobby"); err != nil || got != "bobby" {
		t.Errorf("a stranger is called %q (%v)", got, err)
	}
	w.bindings[bob] = federation.Binding{DID: bob, Link: "lab", Seen: now}
	if got, err := w.locator().LocalName(t.Context(), bob, "bobby"); err != nil || got != "" {
		t.Errorf("a user of this home is called %q (%v)", got, err)
	}
}

func TestOfPartiesLocatesEachMailbox(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.agents["did:key:alice"] = true
	view := federation.View{Offerer: "did:key:alice", Offeree: bob}
	all, err := w.locator().OfParties(t.Context(), view)
	if err != nil || len(all) != 2 || all[0].Home != self || all[1].Home != "" || all[1].DID != bob {
		t.Errorf("got %+v, %v", all, err)
	}
	w.peers = nil
	if all, err := w.locator().OfParties(t.Context(), view); err != nil || all != nil {
		t.Errorf("without peers: %+v, %v", all, err)
	}
}

func TestLocateReturnsErrorsOfTheRecord(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.broken = errors.New("disk")
	if _, err := w.locator().Here(t.Context(), bob); !errors.Is(err, w.broken) {
		t.Errorf("Here: %v", err)
	}
	view := federation.View{Home: self, Offerer: "did:key:alice", Offeree: bob, Version: 1}
	if _, err := w.locator().Recipients(t.Context(), federation.Event{From: "did:key:alice"}, view, time.Time{}); !errors.Is(err, w.broken) {
		t.Errorf("Recipients: %v", err)
	}
}
