package home_test

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/home"
)

type situation struct {
	bench

	facts home.Snapshot
	step  federation.Event
	by    person
}

type outcome struct {
	code   federation.RefusalCode
	detail string // of a refusal
	filed  bool
	again  bool // it is a duplicate
	awaits bool
	entry  federation.Entry // of a duplicate
	view   federation.View
}

// decide judges the step in the situation, without any port.
func (s situation) decide() outcome {
	s.step.From, s.step.Stamped = s.by.did, true
	s.step.Signature.Document = string(s.step.From) + string(s.step.Verb) // tells one step from another
	d, err := s.home.Decide(s.facts, home.Submission{Event: s.step, Since: s.now}, s.now)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	switch {
	case d.Before.ID != s.facts.View.ID || d.Before.Version != s.facts.View.Version:
		s.t.Errorf("%s (%v): the decision has the handoff %+v, want %+v", s.step.Verb, err, d.Before, s.facts.View)
	case isRefusal:
		return outcome{code: refused.Code, detail: refused.Detail}
	case err != nil:
		s.t.Fatalf("%s: %v", s.step.Verb, err)
	}
	return outcome{
		filed: d.Action == home.File, again: d.Action == home.Repeat, awaits: d.Action == home.Await || d.Awaits, entry: d.Entry, view: d.After,
	}
}

// defect is one mistake in a step. The defects of a kind of step are listed in the order in which a
// home finds them.
type defect struct {
	name   string
	code   federation.RefusalCode
	detail string // a part of the detail besides the code
	cause  func(*situation)
	not    string // another one that it cannot be with
}

func offerDefects() []defect {
	return []defect{
		{name: "used", code: federation.EventIDInUse, cause: func(s *situation) { s.facts.Used = &federation.RefusalError{Code: federation.EventIDInUse} }},
		{name: "old", code: federation.EventIDClockSkew, cause: func(s *situation) { s.now = s.now.Add(time.Hour) }},
		{name: "exists", code: federation.EventIDInUse, cause: func(s *situation) { s.facts.View = s.offered(federation.Offered) }},
		{name: "far", code: federation.InvalidTag, detail: "deadline", cause: func(s *situation) { s.step.Deadline = s.now.Add(48 * time.Hour) }},
		{name: "names another", code: federation.IllegalStep, cause: func(s *situation) { s.step.ID = federationtest.ID(7) }},
		{name: "revives", code: federation.ReplacesNotTerminal, cause: func(s *situation) {
			s.step.Replaces = federationtest.ID(9)
			s.facts.Replaced = federation.View{ID: s.step.Replaces, Version: 1, State: federation.Assigned}
		}},
		{name: "denied", code: federation.PolicyDenied, cause: func(s *situation) { s.home.Policy.Require = home.Deny }},
		{name: "stranger", code: federation.PolicyDenied, detail: "membership", cause: func(s *situation) { s.facts.Outsider = true }},
		{name: "answers another", code: federation.WrongReference, cause: func(s *situation) {
			s.step.ReplyTo, s.facts.Reference = "some-message", federationtest.ID(5)
		}},
		{name: "too many", code: federation.QuotaExceeded, cause: func(s *situation) { s.facts.Open = 3 }},
		{name: "full", code: federation.InboxFull, cause: func(s *situation) {
			s.facts.Inboxes = map[federation.DID]federation.InboxUse{s.bob.did: {Entries: 10, SenderEntries: 1}}
		}},
	}
}

func stepDefects() []defect {
	return []defect{
		{name: "used", code: federation.EventIDInUse, cause: func(s *situation) { s.facts.Used = &federation.RefusalError{Code: federation.EventIDInUse} }},
		{name: "old", code: federation.EventIDClockSkew, cause: func(s *situation) { s.now = s.now.Add(time.Hour) }},
		{name: "elsewhere", code: federation.WrongVenue, cause: func(s *situation) { s.step.Venue = "#elsewhere" }},
		{name: "other kind", code: federation.IllegalStep, detail: "of kind", cause: func(s *situation) { s.facts.View.Kind = bounty }},
		{name: "over", code: federation.TerminalHandoff, cause: func(s *situation) { s.facts.View.Over, s.facts.View.State = true, federation.Expired }},
		{name: "too late for it", code: federation.IllegalStep, not: "over", cause: func(s *situation) { s.facts.View.State = federation.Offered }},
		{name: "replaces", code: federation.InvalidTag, cause: func(s *situation) { s.step.Replaces = federationtest.ID(9) }},
		{name: "denied", code: federation.PolicyDenied, cause: func(s *situation) { s.home.Policy.Require = home.Deny }},
		{name: "answers another", code: federation.WrongReference, cause: func(s *situation) {
			s.step.ReplyTo, s.facts.Reference = "some-message", federationtest.ID(5)
		}},
	}
}

// offered returns the view of handoff 1 of alice in a state: to bob, or to anyone.
func (b bench) offered(state federation.State) federation.View {
	v := federation.View{
		ID: federationtest.ID(1), Kind: federation.Handoff, Dialect: federation.HandoffTags, Version: 1, State: state, Home: b.home.ID,
		Venue: "#ops", Offerer: b.alice.did, Opened: b.now, Moved: b.now,
	}
	switch state { //nolint:exhaustive // the others are not begun with here
	case federation.Offered:
		v.Offeree = b.bob.did
	case federation.Assigned:
		v.Assignee, v.Version, v.Answered = b.bob.did, 2, 2
	}
	return v
}

// flawless returns a situation in which a step by bob, or an offer by alice, is good.
func flawless(b bench, verb federation.Verb) situation {
	own := *b.home
	b.home = &own
	b.home.Limits.OpenHandoffs, b.home.Limits.Inbox = 3, federation.InboxLimits{Events: 10, EventsPerSender: 5}
	b.home.Limits.EventsPerMinute, b.home.Limits.ClaimCaps = 0, true
	s := situation{bench: b, by: b.bob, step: federation.Event{
		ID: federationtest.ID(2), Handoff: federationtest.ID(1), Kind: federation.Handoff, Verb: verb, Venue: "#ops",
		Dialect: federation.HandoffTags, Provenance: federation.Signed,
	}}
	switch verb { //nolint:exhaustive // the others are not begun with here
	case federation.Offer:
		s.by, s.step.ID, s.step.To = b.alice, s.step.Handoff, b.bob.did
	case federation.Claim:
		s.facts.View = b.offered(federation.Open)
		s.facts.View.Caps, s.facts.Declared = []string{"go"}, []string{"go", "review"}
	default:
		s.facts.View = b.offered(federation.Assigned)
	}
	return s
}

func TestDecideRefusesByTheFirstFault(t *testing.T) {
	wrongSender := defect{name: "not theirs", code: federation.WrongSender, cause: func(s *situation) { s.by = s.carol }}
	incapable := defect{name: "incapable", code: federation.MissingCapability, cause: func(s *situation) { s.facts.View.Caps = []string{"go", "cook"} }}
	hog := defect{name: "hog", code: federation.InboxFull, detail: "your share", cause: func(s *situation) {
		s.facts.Inboxes = map[federation.DID]federation.InboxUse{s.alice.did: {Entries: 5, SenderEntries: 5}}
	}}
	late := defect{name: "late", code: federation.DeadlinePassed, cause: func(s *situation) { s.facts.View.Deadline = s.now.Add(-time.Hour) }}
	before := func(name string, more ...defect) []defect {
		all := stepDefects()
		at := slices.IndexFunc(all, func(d defect) bool { return d.name == name })
		return slices.Insert(all, at, more...)
	}
	for _, test := range []struct {
		verb    federation.Verb
		defects []defect
	}{
		{federation.Offer, offerDefects()},
		{federation.Progress, append(before("denied", wrongSender), hog)},
		{federation.Claim, append(before("denied", late), incapable)},
	} {
		t.Run(string(test.verb), func(t *testing.T) {
			b := newBench(t)
			for set := range 1 << len(test.defects) {
				checkDefects(b, test.verb, test.defects, set)
			}
		})
	}
}

func checkDefects(b bench, verb federation.Verb, defects []defect, set int) {
	b.t.Helper()
	s := flawless(b, verb)
	var names []string
	var first *defect
	for i, d := range defects {
		if set&(1<<i) == 0 {
			continue
		}
		if slices.Contains(names, d.not) {
			return
		}
		d.cause(&s)
		names = append(names, d.name)
		if first == nil {
			first = &defects[i]
		}
	}
	got := s.decide()
	switch {
	case first == nil && !got.filed:
		b.t.Errorf("a good %s: %+v", verb, got)
	case first != nil && (got.code != first.code || !strings.Contains(got.detail, first.detail)):
		b.t.Errorf("%s with %q: %s %q, want %s", verb, names, got.code, got.detail, first.code)
	}
}

func TestDecideAnswersAFiledStepAsDuplicate(t *testing.T) {
	for _, verb := range []federation.Verb{federation.Offer, federation.Claim, federation.Progress} {
		for _, defects := range [][]defect{offerDefects(), stepDefects()} {
			for _, d := range defects {
				s := flawless(newBench(t), verb)
				d.cause(&s)
				s.facts.Used, s.facts.Filed = nil, &federation.Entry{State: federation.Declined, Version: 7}
				if got := s.decide(); !got.again || got.filed || got.entry.State != federation.Declined {
					t.Errorf("%s, %s: %+v, want a duplicate", verb, d.name, got)
				}
			}
		}
	}
}

// position is how a handoff of the exhaustive test stands, for the model and as a view.
type position struct {
	model model
	view  federation.View
}

// positionKey distinguishes positions that can go on differently.
type positionKey struct {
	kind               federation.Kind
	dialect            federation.Dialect
	state              federation.State
	offeree, assignee  federation.DID
	bids               int
	guest, numbered    bool
	deadline, bidsTime bool
}

func (p position) key() positionKey {
	return positionKey{
		p.model.kind, p.model.dialect, p.model.state, p.model.offeree, p.model.assignee, min(1, len(p.model.bids)), // further bids change nothing
		p.view.Remote, p.view.Numbered, p.model.deadline.IsZero(), p.model.bidsUntil.IsZero(),
	}
}

func (b bench) openings() []position {
	var all []position
	for _, kind := range []federation.Kind{federation.Handoff, bounty} {
		for _, dialect := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
			for _, to := range []federation.DID{"", b.alice.did, b.bob.did} {
				if kind == bounty && to != "" {
					continue
				}
				for _, term := range []time.Time{{}, b.now.Add(-time.Hour)} {
					m := model{kind: kind, dialect: dialect, state: federation.Open, offerer: b.alice.did, offeree: to, deadline: term, bidsUntil: term, steps: 1, bids: map[federation.EventID]federation.DID{}}
					if to != "" {
						m.state = federation.Offered
					}
					all = append(all, position{m, federation.View{
						ID: federationtest.ID(1), Kind: kind, Dialect: dialect, Version: 1, State: m.state, Home: b.home.ID, Venue: "#ops",
						Offerer: m.offerer, Offeree: to, Deadline: term, BidDeadline: term, Opened: b.now, Moved: b.now,
					}})
				}
			}
		}
	}
	return all
}

func (b bench) steps(p position, n int) (steps []federation.Event, by []person) {
	for _, who := range []person{b.alice, b.bob, b.carol} {
		for _, verb := range everyVerb {
			ev := federation.Event{
				ID: federationtest.ID(n), Handoff: p.view.ID, Kind: p.model.kind, Dialect: p.model.dialect, Verb: verb, From: who.did, Venue: "#ops",
				Provenance: federation.Signed, Stamped: true,
			}
			if verb == "award" {
				ev.Accepts = federationtest.ID(50) // of the first bid, if any
			}
			steps, by = append(steps, ev), append(by, who)
		}
	}
	return steps, by
}

func (p position) named(ev federation.Event) *federation.Entry {
	bidder, known := p.model.bids[ev.Accepts]
	if !known {
		return nil
	}
	return &federation.Entry{Event: federation.Event{ID: ev.Accepts, Handoff: ev.Handoff, Verb: "bid", From: bidder}, Version: 2}
}

// TestDecideFollowsTheModel visits every position that a handoff
// can come to by the steps of three people, and tries every step there.
func TestDecideFollowsTheModel(t *testing.T) {
	b := newBench(t)
	b.home.Limits.ClockSkew = 0
	seen, tried := map[positionKey]bool{}, 0
	for next := b.openings(); len(next) > 0; next = next[1:] {
		p := next[0]
		if seen[p.key()] {
			continue
		}
		seen[p.key()] = true
		steps, by := b.steps(p, 50+len(p.model.bids))
		for i, ev := range steps {
			tried++
			after := p.model
			after.bids = maps.Clone(p.model.bids)
			legal := after.take(ev, b.now)
			s := situation{bench: b, step: ev, by: by[i], facts: home.Snapshot{Snapshot: federation.Snapshot{View: p.view, Named: p.named(ev)}}}
			got := s.decide()
			if got.filed != legal || legal && (got.view.State != after.state || got.view.Assignee != after.assignee || got.view.Over != after.over()) {
				t.Fatalf("%s by %s on %+v: %+v, and the model %t %+v", ev.Verb, ev.From, p.view, got, legal, after)
			}
			if legal {
				next = append(next, position{after, got.view})
			}
		}
	}
	if len(seen) < 50 || tried < 1000 {
		t.Errorf("only %d positions and %d steps were tried", len(seen), tried)
	}
}

// remote is a home's handling of a step of another home's handoff: it files the steps ruled by that
// home, and steps that move nothing; it keeps any other step until that home has ruled.
func (p position) remote(pending []federation.Event, ev federation.Event) (filed, awaits, again bool) {
	assumed, waits, kept := p.model, false, false
	for _, each := range pending {
		kept = kept || each.From == ev.From && each.Verb == ev.Verb
		if each.From == ev.From {
			waits = assumed.take(each, each.Time()) || waits
		}
	}
	legal := assumed.follow(ev.From, ev.Verb) != ""
	switch {
	case !p.view.Numbered && !waits && ev.Verb == federation.Progress:
		return legal, false, false
	case kept:
		return false, true, true
	}
	return false, legal, false
}

// TestDecideKeepsRemoteStepsAsTheModel tries every step of three people in every
// position of a directed and of an open remote handoff, while up to two others wait.
func TestDecideKeepsRemoteStepsAsTheModel(t *testing.T) {
	b := newBench(t)
	b.home.Limits.ClockSkew = 0
	for _, begin := range b.openings() {
		if begin.model.kind != federation.Handoff || begin.model.offeree == b.alice.did || !begin.model.deadline.IsZero() {
			continue
		}
		for _, numbered := range []bool{false, true} {
			begin.view.Remote, begin.view.Numbered, begin.view.Home = true, numbered, elsewhere
			for _, assigned := range []bool{false, true} {
				p := begin
				if assigned {
					p.model.state, p.model.assignee, p.model.steps = federation.Assigned, b.bob.did, 2
					p.view.State, p.view.Assignee, p.view.Version = federation.Assigned, b.bob.did, 2
				}
				b.checkRemote(t, p)
			}
		}
	}
}

// checkRemote tries every step in a position, with every set of one or two that wait.
func (b bench) checkRemote(t *testing.T, p position) {
	t.Helper()
	steps, by := b.steps(p, 50)
	var movers []federation.Event
	for i, ev := range steps {
		if verb := ev.Verb; verb == "accept" || verb == "claim" || verb == "progress" || verb == "complete" || verb == "cancel" {
			ev.ID = federationtest.ID(60 + i)
			ev.Signature.Document = string(ev.From) + string(ev.Verb)
			movers = append(movers, ev)
		}
	}
	sets := [][]federation.Event{nil}
	for i, first := range movers {
		sets = append(sets, []federation.Event{first})
		for _, second := range movers[i+1:] {
			sets = append(sets, []federation.Event{first, second})
		}
	}
	for i, ev := range steps {
		if ev.Verb == "expire" || ev.Verb == "auto-accept" { // its home says so, over its link
			continue
		}
		for _, waiting := range sets {
			b.checkHeld(t, p, waiting, ev, by[i])
		}
	}
}

func (b bench) checkHeld(t *testing.T, p position, waiting []federation.Event, ev federation.Event, by person) {
	t.Helper()
	s := situation{bench: b, step: ev, by: by, facts: home.Snapshot{Snapshot: federation.Snapshot{View: p.view}}}
	for _, each := range waiting {
		s.facts.Pending = append(s.facts.Pending, federation.Pending{Event: each, Home: elsewhere, Since: b.now})
	}
	got := s.decide()
	filed, awaits, again := p.remote(waiting, ev)
	if got.filed != filed || got.awaits != awaits || got.again != again {
		t.Fatalf("%s by %s on %s (numbered %t) with %d waiting (%v): %+v; the model: filed %t, awaits %t, again %t",
			ev.Verb, ev.From, p.view.State, p.view.Numbered, len(waiting), verbs(waiting), got, filed, awaits, again)
	}
}

func verbs(events []federation.Event) (all []string) {
	for _, ev := range events {
		all = append(all, string(ev.Verb)+" by "+string(ev.From))
	}
	return all
}

// TestDecideIsDeterministic judges one step twice, with another one in between.
func TestDecideIsDeterministic(t *testing.T) {
	b := newBench(t)
	rapid.Check(t, func(r *rapid.T) {
		draw := func(name string) situation {
			verb := rapid.SampledFrom([]federation.Verb{federation.Offer, federation.Claim, federation.Progress}).Draw(r, name)
			defects := offerDefects()
			if verb != federation.Offer {
				defects = stepDefects()
			}
			s := flawless(b, verb)
			for _, d := range defects {
				if rapid.IntRange(0, 3).Draw(r, d.name) == 0 {
					d.cause(&s)
				}
			}
			return s
		}
		one, other := draw("one"), draw("other")
		first := one.decide()
		other.decide()
		if second := one.decide(); cmp.Or(first.code, second.code) != first.code || first.filed != second.filed || first.view.State != second.view.State {
			r.Fatalf("%+v, and then %+v", first, second)
		}
	})
}
