//go:build interop

package main_test

import (
	"net/http"
	"slices"
	"testing"
)

// An agent that asks over plain HTTP and one of the AIRC registry work for each other:
// neither sees that the other one is elsewhere.
func TestRESTWorkCrossesToAIRC(t *testing.T) {
	t.Parallel()
	w := &world{house: newHouse(t)}
	w.start(t)
	w.ready(t)
	scout, scholar := w.hire(t, "scout_7"), logIn(t, w.url())
	view := func(id string) (state string) {
		var shown struct{ State, Offerer, Assignee string }
		scholar.must(t, http.StatusOK, http.MethodGet, "handoffs/"+id, nil, &shown)
		return shown.State
	}

	// From plain HTTP to the registry.
	id := scholar.offer(t, map[string]any{"to": scout.DID, "title": title, "context": map[string]any{"topic": "X"}})
	scout.next(t, "a handshake", func(m message) bool { return m.Payload.Type == "system:handshake_request" })
	handle := handleOf(string(scholar.did))
	consent(t, scout.Agent, handle)
	offer := scout.next(t, "the offer", isAbout("offer", id))
	if said := about(offer); said.Provenance != "vouched" || offer.From != handle {
		t.Errorf("the offer is from %s, %+v", offer.From, said)
	}
	for _, answer := range []map[string]any{
		payload("ack", map[string]any{"replyTo": offer.ID, "status": "received"}),
		payload("task:result", map[string]any{"requestId": offer.ID, "status": "completed", "result": map[string]any{"note": "three found", "sources": []string{"a"}}}),
	} {
		if got := post(t, scout.Agent, write(t, scout.Agent, scout.Envelope(offer.From, "", answer))); got.Status != http.StatusCreated {
			t.Fatalf("%v is answered %+v", answer, got)
		}
	}
	var verbs []string
	var cursor string
	for len(verbs) < 2 {
		for _, entry := range scholar.reads(t, cursor) {
			cursor = entry.Cursor
			verbs = append(verbs, entry.Step.Verb)
			if entry.Step.HandoffID != id || entry.Step.Verb == "complete" && (entry.Step.Note != "three found" || entry.Step.Context != `{"sources":["a"]}`) {
				t.Errorf("it reads %+v", entry)
			}
		}
	}
	if verbs[0] != "accept" || verbs[1] != "complete" || view(id) != "completed" {
		t.Errorf("it reads %v, and the handoff is %s", verbs, view(id))
	}

	// And back.
	request := scout.Envelope(handle, "Review it", payload("task:request", map[string]any{"description": "Review it"}))
	filed := post(t, scout.Agent, write(t, scout.Agent, request))
	if filed.Status != http.StatusCreated {
		t.Fatalf("the offer is answered %+v", filed)
	}
	back := scholar.reads(t, cursor)
	if len(back) != 1 || back[0].Step.HandoffID != filed.Handoff.ID || back[0].Step.Title != "Review it" || back[0].Step.From != scout.DID {
		t.Fatalf("after %s it reads %+v", cursor, back)
	}
	scholar.step(t, filed.Handoff.ID, "accept", nil)
	scholar.step(t, filed.Handoff.ID, "complete", map[string]any{"note": "reviewed", "context": map[string]any{"verdict": "good"}})
	for _, verb := range []string{"accept", "complete"} {
		scout.next(t, "the "+verb, isAbout(verb, filed.Handoff.ID))
	}
	if got := view(filed.Handoff.ID); got != "completed" {
		t.Errorf("the handoff is %s", got)
	}
	// Over plain HTTP the agent proves its own key, and lists the handoffs of its handle.
	own := logInWith(t, w.url(), scout.Key)
	var page struct{ Items []struct{ ID string } }
	own.must(t, http.StatusOK, http.MethodGet, "handoffs", nil, &page)
	if want := []struct{ ID string }{{filed.Handoff.ID}, {id}}; !slices.Equal(page.Items, want) {
		t.Errorf("%s lists %v, want %v", own.did, page.Items, want)
	}
}
