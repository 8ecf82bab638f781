package lifecycle_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/lifecycle"
)

const (
	offerer  federation.DID = "did:example:offerer"
	offeree  federation.DID = "did:example:offeree"
	assignee federation.DID = "did:example:assignee"
	stranger federation.DID = "did:example:stranger"
	gateway  federation.DID = "did:web:gw.example"
)

type transition struct {
	verb     federation.Verb
	from, to federation.State
	by       federation.DID
}

// The table of the specification, written a second time: the states of each verb, and its
// role.
//
// spec: handofftag "Lifecycle"
var transitions = []transition{
	{federation.Accept, federation.Offered, federation.Assigned, offeree},
	{federation.Decline, federation.Offered, federation.Declined, offeree},
	{federation.Claim, federation.Open, federation.Assigned, stranger},
	{federation.Progress, federation.Assigned, federation.Assigned, assignee},
	{federation.Complete, federation.Assigned, federation.Completed, assignee},
	{federation.Fail, federation.Assigned, federation.Failed, assignee},
	{federation.Cancel, federation.Offered, federation.Cancelled, offerer},
	{federation.Cancel, federation.Open, federation.Cancelled, offerer},
	{federation.Expire, federation.Offered, federation.Expired, gateway},
	{federation.Expire, federation.Open, federation.Expired, gateway},
	{federation.Expire, federation.Assigned, federation.Expired, gateway},
}

// The further transitions of the act dialect.
var actTransitions = append(slices.Clone(transitions), []transition{
	{federation.Cancel, federation.Assigned, federation.Cancelled, offerer},
}...)

var over = []federation.State{federation.Completed, federation.Failed, federation.Declined, federation.Cancelled, federation.Expired}

func view(d federation.Dialect, state federation.State) federation.View {
	v := federation.View{
		ID: federation.HandoffID{1}, Kind: federation.Handoff, Dialect: d, Version: 3, State: state, Over: slices.Contains(over, state),
		Home: "gw.example", Offerer: offerer, Offeree: offeree,
	}
	if state != federation.Offered && state != federation.Open {
		v.Assignee = assignee
	}
	if state == federation.Open {
		v.Offeree = ""
	}
	return v
}

// check judges a step of kind handoff, filed at some time.
func check(v federation.View, ev federation.Event) (federation.View, error) {
	ev.Kind = federation.Handoff
	return lifecycle.Shipped().Check(v, ev, time.Unix(1_790_000_000, 0))
}

func TestCheckCoversEveryVerbStateAndRole(t *testing.T) {
	verbs := []federation.Verb{
		federation.Accept, federation.Decline, federation.Claim, federation.Progress,
		federation.Complete, federation.Fail, federation.Cancel, federation.Expire, "dance",
	}
	states := append([]federation.State{federation.Offered, federation.Open, federation.Assigned}, over...)
	for dialect, rows := range map[federation.Dialect][]transition{federation.HandoffTags: transitions, federation.ActTags: actTransitions} {
		for _, verb := range verbs {
			for _, state := range states {
				everybody(t, dialect, rows, verb, state)
			}
		}
	}
}

// everybody tries one verb from one state as each of the parties.
func everybody(t *testing.T, dialect federation.Dialect, rows []transition, verb federation.Verb, state federation.State) {
	t.Helper()
	for _, by := range []federation.DID{offerer, offeree, assignee, stranger, gateway} {
		before := view(dialect, state)
		after, err := check(before, federation.Event{Verb: verb, From: by})
		to, code := expected(rows, verb, state, by)
		refused, _ := errors.AsType[*federation.RefusalError](err)
		switch {
		case code == "" && (err != nil || after.State != to || after.Version != before.Version+1 || after.Over != slices.Contains(over, to)):
			t.Errorf("%s: %s from %s by %s: %s, %v; want %s", dialect, verb, state, by, after.State, err, to)
		case code != "" && (refused == nil || refused.Code != code || after.State != state):
			t.Errorf("%s: %s from %s by %s: %s, %v; want %s", dialect, verb, state, by, after.State, err, code)
		}
	}
}

// expected looks a step up in the table: the state after it, or the code that
// names the first thing wrong.
func expected(rows []transition, verb federation.Verb, state federation.State, by federation.DID) (federation.State, federation.RefusalCode) {
	var known, fits bool
	for _, row := range rows {
		known = known || row.verb == verb
		if row.verb != verb || row.from != state {
			continue
		}
		fits = true
		if row.by == by || verb == federation.Claim {
			return row.to, ""
		}
	}
	switch {
	case !known:
		return "", federation.UnknownVerb
	case slices.Contains(over, state):
		return "", federation.TerminalHandoff
	case !fits:
		return "", federation.IllegalStep
	}
	return "", federation.WrongSender
}

func TestViewAssigneeIsTheActorOfTheAnswer(t *testing.T) {
	for _, test := range []struct {
		verb  federation.Verb
		state federation.State
		by    federation.DID
	}{{federation.Accept, federation.Offered, offeree}, {federation.Claim, federation.Open, stranger}} {
		after, err := check(view(federation.HandoffTags, test.state), federation.Event{Verb: test.verb, From: test.by})
		if err != nil || after.Assignee != test.by {
			t.Errorf("after %s the assignee is %q (%v)", test.verb, after.Assignee, err)
		}
	}
}

func TestViewNamesLinksThatLackAStep(t *testing.T) {
	before := view(federation.HandoffTags, federation.Assigned)
	before.Partial = []string{"dev"}
	by := func(verb federation.Verb, command bool) federation.Event {
		return federation.Event{Verb: verb, From: before.Assignee, Arrival: federation.Arrival{Link: "lab", ViaCommand: command}}
	}
	for _, test := range []struct {
		step federation.Event
		want []string
	}{
		{by(federation.Complete, true), []string{"dev", "lab"}},
		{by(federation.Complete, false), []string{"dev"}},
		{by(federation.Progress, true), []string{"dev"}}, // moves nothing
	} {
		after, err := check(before, test.step)
		if err != nil || !slices.Equal(after.Partial, test.want) {
			t.Errorf("after %+v it is partial on %v, %v; want %v", test.step, after.Partial, err, test.want)
		}
	}
}

func TestCheckCountsAVouchedStepForItsDID(t *testing.T) {
	ev := federation.Event{Verb: federation.Accept, From: stranger, For: offeree, Provenance: federation.Vouched}
	after, err := check(view(federation.HandoffTags, federation.Offered), ev)
	if err != nil || after.Assignee != offeree {
		t.Errorf("assignee %q, %v", after.Assignee, err)
	}
}

func TestCheckAppliesDeadlinesOnlyToAnswers(t *testing.T) {
	v := view(federation.HandoffTags, federation.Offered)
	v.Deadline = time.Unix(1_790_000_000, 0)
	late := v.Deadline.Add(lifecycle.Tolerance + time.Second)
	step := federation.Event{Verb: federation.Accept, From: offeree, Arrival: federation.Arrival{Received: late}}
	_, err := check(v, step)
	if refused, _ := errors.AsType[*federation.RefusalError](err); refused == nil || refused.Code != federation.DeadlinePassed {
		t.Errorf("a late accept: %v, want deadline-passed", err)
	}
	step.Verb = federation.Decline
	if _, err := check(v, step); err != nil {
		t.Errorf("a late decline: %v", err)
	}
}

func TestStateNamesTheRunningClock(t *testing.T) {
	filed, deadline := time.Unix(1_790_000_000, 0), time.Unix(1_790_009_000, 0)
	offer := federation.Event{
		ID: federation.EventID{1}, Handoff: federation.EventID{1}, Kind: federation.Handoff, Verb: federation.Offer,
		From: offerer, To: offeree, Dialect: federation.HandoffTags,
	}
	kinds := lifecycle.Shipped()
	plain, err := kinds.Open(offer, "gw.example", filed)
	if err != nil || plain.Clock != federation.UnansweredClock || !plain.Since.Equal(filed) || kinds.Then(plain) != federation.Expire {
		t.Errorf("an offer: %s since %s, then %s (%v)", plain.Clock, plain.Since, kinds.Then(plain), err)
	}
	offer.Deadline = deadline
	v, err := kinds.Open(offer, "gw.example", filed)
	if err != nil || v.Clock != federation.DeadlineClock || !v.Since.Equal(deadline) {
		t.Errorf("an offer with a deadline: %s since %s (%v)", v.Clock, v.Since, err)
	}
	later := filed.Add(time.Hour)
	for _, verb := range []federation.Verb{federation.Accept, federation.Progress} {
		later = later.Add(time.Hour)
		v, err = kinds.Check(v, federation.Event{Kind: federation.Handoff, Verb: verb, From: offeree}, later)
		if err != nil || v.Clock != federation.AbandonedClock || !v.Since.Equal(later) || v.Answered != 2 {
			t.Errorf("after %s: %s since %s, answered by step %d (%v)", verb, v.Clock, v.Since, v.Answered, err)
		}
	}
	v, err = kinds.Check(v, federation.Event{Kind: federation.Handoff, Verb: federation.Complete, From: offeree}, later)
	if err != nil || v.Clock != "" || !v.Since.IsZero() || kinds.Then(v) != "" || !v.Over {
		t.Errorf("at the end: %+v (%v)", v, err)
	}
}

func TestCheckRefusesAStepOfAnotherKind(t *testing.T) {
	v := view(federation.ActTags, federation.Assigned)
	_, err := lifecycle.Shipped().Check(v, federation.Event{Kind: "bounty", Verb: federation.Progress, From: assignee}, time.Time{})
	if refused, _ := errors.AsType[*federation.RefusalError](err); refused == nil || refused.Code != federation.IllegalStep {
		t.Errorf("error %v, want illegal-step", err)
	}
}

func TestKindsWithoutTableRefuseAllSteps(t *testing.T) {
	err := lifecycle.Kinds{}.Known(federation.Event{Kind: federation.Handoff, Verb: federation.Offer})
	if refused, _ := errors.AsType[*federation.RefusalError](err); refused == nil || refused.Code != federation.UnknownKind {
		t.Errorf("error %v, want unknown-kind", err)
	}
}
