package lifecycle_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/lifecycle"
)

type published struct {
	Opening  []opening  `json:"opening_sequences"`
	Revivals []revival  `json:"revival_sequences"`
	Sequence []sequence `json:"sequences"`
}

// opening is a first step, and what becomes of it.
type opening struct {
	Name          string
	Kind          federation.Kind
	Verb          federation.Verb
	Directed      bool
	NamesTask     bool `json:"names_task"`
	Expect        federation.State
	ExpectRefused string `json:"expect_refused"`
}

type revival struct {
	Name          string
	Opens         bool
	Names         string
	Predecessor   string
	ExpectRefused string `json:"expect_refused"`
}

// sequence is an offer, and the result of each step after it.
type sequence struct {
	Name string
	Task struct {
		Kind             federation.Kind
		Offer            string
		Offerer, Offeree federation.DID
		Deadline         int64
		BidDeadline      int64 `json:"bid_deadline"`
	}
	Steps []sequenceStep
}

type sequenceStep struct {
	Verb          federation.Verb
	Sender        federation.DID
	EventID       string `json:"event_id"`
	Accepts       string
	AcceptedBid   federation.DID `json:"accepted_bid"`
	Expect        federation.State
	ExpectRefused string `json:"expect_refused"`
}

// readPublished returns the published cases, false if the folder of vectors is
// not named.
func readPublished(t *testing.T) (published, bool) {
	t.Helper()
	dir := os.Getenv("BATON_VECTORS")
	if dir == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return published{}, false
	}
	text, err := os.ReadFile(filepath.Join(dir, "freeq", "act-transitions.json"))
	if err != nil {
		t.Fatal(err)
	}
	var set published
	if err := json.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	if len(set.Opening) == 0 || len(set.Revivals) == 0 || len(set.Sequence) == 0 {
		t.Fatal("the file has no cases")
	}
	return set, true
}

// The published sequences of the act dialect hold as they are. The RFC's rules
// reach the same verdicts, but for the one thing that only act allows once work is
// assigned.
func TestReplayFollowsPublishedSequences(t *testing.T) {
	set, there := readPublished(t)
	if !there {
		return
	}
	for _, s := range set.Sequence {
		for _, dialect := range []federation.Dialect{federation.ActTags, federation.HandoffTags} {
			t.Run(s.Name+", "+string(dialect), func(t *testing.T) { runSequence(t, s, dialect) })
		}
	}
}

func runSequence(t *testing.T, s sequence, dialect federation.Dialect) {
	t.Helper()
	kinds := lifecycle.Shipped()
	v := start(t, s, dialect)
	for _, step := range s.Steps {
		after, err := kinds.Check(v, event(t, s.Task.Kind, step), time.Unix(0, 0))
		want := step.ExpectRefused
		onlyAct := s.Task.Kind == federation.Handoff && v.State == federation.Assigned && step.Verb == federation.Cancel
		if dialect == federation.HandoffTags && onlyAct && want == "" {
			want = "illegal-step"
		}
		if got := refusalName(err); got != inOurs(want) || want == "" && after.State != step.Expect {
			t.Fatalf("%s by %s: %s, %q; want %s, %q", step.Verb, step.Sender, after.State, got, step.Expect, want)
		}
		if onlyAct && dialect == federation.HandoffTags {
			return // the later steps are about an ended handoff
		}
		v = after
	}
}

func start(t *testing.T, s sequence, dialect federation.Dialect) federation.View {
	t.Helper()
	offer := federation.Event{
		ID: federation.EventID{1}, Handoff: federation.EventID{1}, Kind: s.Task.Kind, Verb: federation.Offer, Dialect: dialect,
		From: s.Task.Offerer, To: s.Task.Offeree, Venue: "#ops",
	}
	if s.Task.Deadline > 0 {
		offer.Deadline = time.Unix(s.Task.Deadline, 0)
	}
	if s.Task.BidDeadline > 0 {
		offer.BidDeadline = time.Unix(s.Task.BidDeadline, 0)
	}
	v, err := lifecycle.Shipped().Open(offer, "irc.example", time.Unix(0, 0))
	if refusalName(err) == string(federation.UnknownKind) { // the case is about that
		return federation.View{ID: offer.ID, Kind: offer.Kind, Dialect: dialect, Version: 1, State: federation.Open}
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// event makes a step. Only the clock of the published ids counts: their rest is no
// ULID.
func event(t *testing.T, kind federation.Kind, step sequenceStep) federation.Event {
	t.Helper()
	ev := federation.Event{Kind: kind, Verb: step.Verb, From: step.Sender, Arrival: federation.Arrival{AcceptedFrom: step.AcceptedBid}}
	if step.EventID != "" {
		ev.ID, ev.Stamped = minted(t, step.EventID), true
	}
	if step.Accepts != "" {
		ev.Accepts = minted(t, step.Accepts)
	}
	return ev
}

func minted(t *testing.T, text string) federation.EventID {
	t.Helper()
	id, err := ulid.ParseStrict(text[:10] + "0000000000000000")
	if err != nil {
		t.Fatal(err)
	}
	return federation.EventID(id)
}

func TestOpenFollowsPublishedOpenings(t *testing.T) {
	set, there := readPublished(t)
	if !there {
		return
	}
	for _, o := range set.Opening {
		t.Run(o.Name, func(t *testing.T) {
			ev := federation.Event{
				ID: federation.EventID{1}, Handoff: federation.EventID{1}, Kind: o.Kind, Verb: o.Verb, Dialect: federation.ActTags, From: offerer,
			}
			if o.Directed {
				ev.To = offeree
			}
			if o.NamesTask {
				ev.Handoff = federation.EventID{2}
			}
			v, err := lifecycle.Shipped().Open(ev, "irc.example", time.Unix(0, 0))
			if got := refusalName(err); got != inOurs(o.ExpectRefused) || v.State != o.Expect {
				t.Errorf("%s, %q; want %s, %q", v.State, got, o.Expect, o.ExpectRefused)
			}
		})
	}
}

func TestRevivesFollowsPublishedVectors(t *testing.T) {
	set, there := readPublished(t)
	if !there {
		return
	}
	predecessors := map[string]federation.View{
		"finished": view(federation.ActTags, federation.Failed), "live": view(federation.ActTags, federation.Assigned), "unknown": {},
	}
	for _, r := range set.Revivals {
		if r.ExpectRefused == "replaces-malformed" {
			continue // no event has one: the codecs refuse it
		}
		t.Run(r.Name, func(t *testing.T) {
			ev := federation.Event{Kind: federation.Handoff, Verb: federation.Offer, Handoff: federation.EventID{1}, Replaces: federation.EventID{2}}
			err := lifecycle.Revives(ev, predecessors[r.Predecessor])
			if !r.Opens {
				ev.Verb, ev.From = federation.Progress, assignee
				_, err = check(view(federation.ActTags, federation.Assigned), ev)
			}
			if got := refusalName(err); got != inOurs(r.ExpectRefused) {
				t.Errorf("%q, want %q", got, r.ExpectRefused)
			}
		})
	}
}

// inOurs returns a published name of a refusal as this program has it.
func inOurs(name string) string {
	ours := map[string]federation.RefusalCode{
		"terminal-task": federation.TerminalHandoff, "accepts-not-a-bid": federation.WrongReference,
		"replaces-not-opener": federation.InvalidTag,
		"client-confirm":      federation.UnknownVerb, // it has its own code when tags are read
	}
	if code, differs := ours[name]; differs {
		return string(code)
	}
	return name
}

// refusalName returns the code of a refusal, "" for none.
func refusalName(err error) string {
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if !ok {
		return ""
	}
	return string(refused.Code)
}
