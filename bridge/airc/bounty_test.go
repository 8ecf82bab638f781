package airc_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

func TestBountyIsAwardedToOneBidder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.meet(t)
	from, native := wire.Handle(alice.DID), "at.freeq:handoff"
	worker, rival, watcher := w.able(t, "worker", 0x01, "go"), w.able(t, "rival", 0x02, "go"), w.able(t, "watcher", 0x03, "go")
	befriend(t, from, worker, rival, watcher)
	step := func(verb federation.Verb, accepts federation.EventID, id federation.HandoffID) {
		ev := federation.Event{ID: id, Handoff: id, Kind: "bounty", Verb: verb, Accepts: accepts, Caps: []string{"go"}, Title: "Fix it"}
		if verb != federation.Offer {
			ev.ID = federation.EventID{}
		}
		w.fromIRC(t, alice, ev, map[string]string{})
	}
	id := w.mint(t)
	step(federation.Offer, federation.EventID{}, id)
	say := func(a *bridgetest.Agent, verb string, status int) {
		t.Helper()
		p := payload(native, map[string]any{"event": verb, "replyTo": inbox(t, a)[0].ID})
		if got, answer, err := a.Send(t.Context(), from, "mine", p); err != nil || got != status {
			t.Fatalf("%s by %s: %d %v %v, want %d", verb, a.Handle, got, answer, err, status)
		}
	}
	say(worker, "bid", http.StatusCreated)
	say(rival, "bid", http.StatusCreated)
	say(watcher, "claim", http.StatusBadRequest)
	step("award", w.steps(t, id)[1].ID, id)
	say(rival, "submit", http.StatusForbidden)
	say(worker, "submit", http.StatusCreated)
	step("accept-work", federation.EventID{}, id)

	if got, want := w.verbs(t, id), "offer bid bid award submit accept-work"; got != want {
		t.Errorf("filed %q, want %q", got, want)
	}
	for a, want := range map[*bridgetest.Agent][]string{
		worker:  {from + " " + native, from + " " + native, from + " " + native}, // the offer, the award, the end
		rival:   {from + " " + native, "system " + native},
		watcher: {from + " " + native, "system " + native}, // told once that the offer is gone, and not of the bids
	} {
		if diff := cmp.Diff(want, types(inbox(t, a))); diff != "" {
			t.Errorf("%s: %s", a.Handle, diff)
		}
	}
}
