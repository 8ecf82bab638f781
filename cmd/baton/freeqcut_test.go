//go:build interop && long

package main_test

import (
	"testing"

	"github.com/baton-gateway/baton/federation"
)

// cuts is how often the link breaks while handoffs go on over it.
const cuts = 50

// TestFreeqLinkLosesNothingOverFiftyBreaks breaks the link while handoffs of
// both homes are worked on, each step as soon as the last one is known.
func TestFreeqLinkLosesNothingOverFiftyBreaks(t *testing.T) {
	t.Parallel()
	w := newFreeqWorld(t)
	over, links := make(chan struct{}), 0
	go func() {
		defer close(over)
		for range cuts {
			n, err := w.server.AwaitNext(t.Context(), links)
			if err != nil {
				return
			}
			links = n
			w.server.Cut()
		}
	}()
	for n := 0; ; n++ {
		w.theirs(t)
		w.ours(t)
		select {
		case <-over:
			if n == 0 {
				t.Error("the link broke under no load")
			}
			return
		default:
		}
	}
}

// theirs does a handoff that a user of the server opened.
func (w *freeqWorld) theirs(t *testing.T) {
	t.Helper()
	id := w.offer(t, w.finn.DID, title)
	w.finn.next(t, "the offer", isAbout("offer", id.String()))
	for _, verb := range []string{"accept", "progress", "complete"} {
		if got, _ := printError(t, w.finn, handleOf(string(w.alice.DID)), answerPayload(verb, id.String())); got.Handoff.ID != id.String() {
			t.Fatalf("%s is answered %+v", verb, got)
		}
	}
	w.stands(t, id, federation.Completed)
	w.once(t, id)
}

// ours does a handoff that an agent of the gateway opened.
func (w *freeqWorld) ours(t *testing.T) {
	t.Helper()
	got, _ := printError(t, w.finn, handleOf(string(w.alice.DID)), payload("at.freeq:handoff", map[string]any{
		"handoff": map[string]any{"event": "offer", "title": title},
	}))
	id, err := federation.ParseEventID(got.Handoff.ID)
	if err != nil {
		t.Fatalf("the offer is answered %+v", got)
	}
	w.stands(t, id, federation.Offered)
	for _, step := range []struct {
		verb  federation.Verb
		state federation.State
	}{{federation.Accept, federation.Assigned}, {federation.Complete, federation.Completed}} {
		if _, err := w.alice.Step(w.server.Venue(id, w.alice.DID), id, step.verb, ""); err != nil {
			t.Fatal(err)
		}
		w.stands(t, id, step.state)
	}
	w.once(t, id)
}

// once checks that no step of a handoff is in the gateway's log twice.
func (w *freeqWorld) once(t *testing.T, id federation.HandoffID) {
	t.Helper()
	seen := map[string]int{}
	for _, line := range w.logged(t) {
		if line["msg"] == "step judged" && line["handoff_id"] == id.String() && line["outcome"] == "filed" && line["verb"] != "confirm" {
			event, _ := line["event_id"].(string)
			if seen[event]++; seen[event] > 1 {
				t.Errorf("%v %s is filed twice", line["verb"], event)
			}
		}
	}
}
