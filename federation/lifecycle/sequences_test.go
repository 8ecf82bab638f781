package lifecycle_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"baton/federation"
	"baton/federation/lifecycle"
)

// sequence is one published case: an offer, and what becomes of each step after
// it.
type sequence struct {
	Name string
	Task struct {
		Kind, Offer      string
		Offerer, Offeree federation.DID
		Deadline         int64
	}
	Steps []sequenceStep
}

type sequenceStep struct {
	Verb          federation.Verb
	Sender        federation.DID
	System        bool
	EventID       string `json:"event_id"`
	Expect        federation.State
	ExpectRefused string `json:"expect_refused"`
}

// The published sequences of the act dialect hold as they are. The RFC's rules
// reach the same verdicts, but for what only act allows once work is assigned.
func TestPublishedSequences(t *testing.T) {
	dir := os.Getenv("BATON_VECTORS")
	if dir == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return
	}
	text, err := os.ReadFile(filepath.Join(dir, "freeq", "act-transitions.json"))
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ Sequences []sequence }
	if err := json.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	var ran int
	for _, s := range set.Sequences {
		if s.Task.Kind != string(federation.Handoff) {
			continue
		}
		for _, dialect := range []federation.Dialect{federation.ActTags, federation.HandoffTags} {
			ran++
			t.Run(s.Name+", "+string(dialect), func(t *testing.T) { runSequence(t, s, dialect) })
		}
	}
	if ran == 0 {
		t.Error("no sequence of kind handoff")
	}
}

func runSequence(t *testing.T, s sequence, dialect federation.Dialect) {
	t.Helper()
	v := lifecycle.Open(federation.Event{
		Handoff: federation.EventID{1}, Kind: federation.Handoff, Verb: federation.Offer, Dialect: dialect,
		From: s.Task.Offerer, To: s.Task.Offeree, Venue: "#ops",
	}, "irc.example")
	if s.Task.Deadline > 0 {
		v.Deadline = time.Unix(s.Task.Deadline, 0)
	}
	for _, step := range s.Steps {
		after, err := lifecycle.Handoff(dialect).Check(v, event(t, step))
		want := step.ExpectRefused
		if want == "client-confirm" {
			want = "unknown-verb" // where tags are read it has a code of its own
		}
		onlyAct := v.State == federation.Assigned && (step.Verb == federation.Cancel || step.Verb == federation.Expire)
		if dialect == federation.HandoffTags && onlyAct && want == "" {
			want = "illegal-step"
		}
		if got := refusalName(err); got != want || want == "" && after.State != step.Expect {
			t.Fatalf("%s by %s: %s, %q; want %s, %q", step.Verb, step.Sender, after.State, got, step.Expect, want)
		}
		if onlyAct && dialect == federation.HandoffTags {
			return // what follows is about a handoff that is over
		}
		v = after
	}
}

// event makes a step. Only the clock of the published ids counts: their rest is no
// ULID.
func event(t *testing.T, step sequenceStep) federation.Event {
	t.Helper()
	ev := federation.Event{Verb: step.Verb, From: step.Sender}
	if step.EventID != "" {
		id, err := ulid.ParseStrict(step.EventID[:10] + "0000000000000000")
		if err != nil {
			t.Fatal(err)
		}
		ev.ID, ev.Stamped = federation.EventID(id), true
	}
	return ev
}

// refusalName returns the published name of a refusal.
func refusalName(err error) string {
	refused, ok := errors.AsType[*federation.RefusalError](err)
	switch {
	case !ok:
		return ""
	case refused.Code == federation.TerminalHandoff:
		return "terminal-task"
	}
	return string(refused.Code)
}
