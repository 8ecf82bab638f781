package lifecycle_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"baton/federation"
	"baton/federation/lifecycle"
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

// The table of the specification, written a second time: which verb leads from
// which state to which, and by whom.
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
}

// What the act dialect allows besides.
var actTransitions = append(slices.Clone(transitions), []transition{
	{federation.Cancel, federation.Assigned, federation.Cancelled, offerer},
	{federation.Expire, federation.Assigned, federation.Expired, gateway},
}...)

func view(state federation.State) federation.View {
	v := federation.View{ID: federation.HandoffID{1}, Version: 3, State: state, Home: "gw.example", Offerer: offerer, Offeree: offeree}
	if state != federation.Offered && state != federation.Open {
		v.Assignee = assignee
	}
	if state == federation.Open {
		v.Offeree = ""
	}
	return v
}

func TestEveryVerbFromEveryStateByEverybody(t *testing.T) {
	verbs := []federation.Verb{
		federation.Offer, federation.Accept, federation.Decline, federation.Claim, federation.Progress,
		federation.Complete, federation.Fail, federation.Cancel, federation.Expire, "dance",
	}
	states := []federation.State{
		federation.Offered, federation.Open, federation.Assigned, federation.Completed,
		federation.Failed, federation.Declined, federation.Cancelled, federation.Expired,
	}
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
		before := view(state)
		after, err := lifecycle.Handoff(dialect).Check(before, federation.Event{Verb: verb, From: by})
		to, code := expected(rows, verb, state, by)
		refused, _ := errors.AsType[*federation.RefusalError](err)
		switch {
		case code == "" && (err != nil || after.State != to || after.Version != before.Version+1):
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
	case state == federation.Completed, state == federation.Failed, state == federation.Declined, state == federation.Cancelled, state == federation.Expired:
		return "", federation.TerminalHandoff
	case !fits:
		return "", federation.IllegalStep
	}
	return "", federation.WrongSender
}

func TestWhoeverAnswersIsTheAssignee(t *testing.T) {
	for _, test := range []struct {
		verb  federation.Verb
		state federation.State
		by    federation.DID
	}{{federation.Accept, federation.Offered, offeree}, {federation.Claim, federation.Open, stranger}} {
		after, err := lifecycle.Handoff(federation.HandoffTags).Check(view(test.state), federation.Event{Verb: test.verb, From: test.by})
		if err != nil || after.Assignee != test.by {
			t.Errorf("after %s the assignee is %q (%v)", test.verb, after.Assignee, err)
		}
	}
}

func TestAVouchedStepCountsForWhomItStands(t *testing.T) {
	ev := federation.Event{Verb: federation.Accept, From: stranger, For: offeree, Provenance: federation.Vouched}
	after, err := lifecycle.Handoff(federation.HandoffTags).Check(view(federation.Offered), ev)
	if err != nil || after.Assignee != offeree {
		t.Errorf("assignee %q, %v", after.Assignee, err)
	}
}

func TestOnlyAnswersHaveADeadline(t *testing.T) {
	v := view(federation.Offered)
	v.Deadline = time.Unix(1_790_000_000, 0)
	late := v.Deadline.Add(lifecycle.Tolerance + time.Second)
	step := federation.Event{Verb: federation.Accept, From: offeree, Arrival: federation.Arrival{Received: late}}
	_, err := lifecycle.Handoff(federation.HandoffTags).Check(v, step)
	if refused, _ := errors.AsType[*federation.RefusalError](err); refused == nil || refused.Code != federation.DeadlinePassed {
		t.Errorf("a late accept: %v, want deadline-passed", err)
	}
	step.Verb = federation.Decline
	if _, err := lifecycle.Handoff(federation.HandoffTags).Check(v, step); err != nil {
		t.Errorf("a late decline: %v", err)
	}
}
