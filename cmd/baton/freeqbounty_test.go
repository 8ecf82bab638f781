//go:build interop

package main_test

import (
	"maps"
	"net/http"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

// bounty lets alice take a step of a bounty on the server, the offer if it names none.
func (w *freeqWorld) bounty(t *testing.T, verb, of string, more extras) federation.EventID {
	t.Helper()
	tags := map[string]string{"+freeq.at/act": "bounty", "+freeq.at/act-verb": verb}
	if of != "" {
		tags["+freeq.at/act-id"] = of
	}
	for name, value := range more {
		tags["+freeq.at/act-"+name] = value
	}
	id, err := w.alice.Say(channel, maps.Clone(tags))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestFreeqBountyIsWonByAnAgent(t *testing.T) {
	t.Parallel()
	w := newFreeqWorld(t)
	id := w.bounty(t, "offer", "", extras{"title": title, "price": "10 EUR", "caps": skill})
	w.finn.next(t, "the bounty", isAbout("offer", id.String()))
	bid := w.agent(t, "bid", id)
	if err := w.server.AwaitFiled(patient(t), bid); err != nil {
		t.Fatal(err)
	}
	w.bounty(t, "award", id.String(), extras{"accepts": bid})
	if m := w.finn.next(t, "the award", isAbout("award", id.String())); about(m).Assignee != w.finn.DID {
		t.Errorf("the award says %s", m.Payload.Data)
	}
	w.agent(t, "progress", id)
	w.agent(t, "submit", id)
	w.stands(t, id, "under_review")
	w.bounty(t, "revise", id.String(), extras{"note": "with sources"})
	w.finn.next(t, "the review", isAbout("revise", id.String()))
	w.agent(t, "submit", id)
	w.stands(t, id, "under_review")
	w.bounty(t, "accept-work", id.String(), nil)
	if m := w.finn.next(t, "the end", isAbout("accept-work", id.String())); about(m).State != "accepted" {
		t.Errorf("the end says %s", m.Payload.Data)
	}
}

// agent lets finn take a step, and returns its event id. A step that moves something
// waits for the server.
func (w *freeqWorld) agent(t *testing.T, verb string, id federation.HandoffID) string {
	t.Helper()
	got, _ := printError(t, w.finn, handleOf(string(w.alice.DID)), answerNamed(verb, id.String()))
	if got.Status != http.StatusCreated && got.Status != http.StatusAccepted || got.Handoff.ID != id.String() {
		t.Fatalf("%s is answered %+v", verb, got)
	}
	return got.Handoff.EventID
}
