//go:build interop

package main_test

import (
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// freeqProperties is a gateway with a freeq server, two users of it, and a caller over plain HTTP
// that offers work in their channel. The gateway is the home of that work.
type freeqProperties struct {
	*freeqWorld

	desk *caller
	bob  *bridgetest.FreeqUser
}

func newFreeqProperties(t *testing.T) *freeqProperties {
	t.Helper()
	w := &freeqProperties{freeqWorld: newFreeqWorld(t, offersOverREST)}
	w.desk, w.bob = logIn(t, w.url()), w.server.Join("bob", didOf(seeded("bob")), seeded("bob"))
	return w
}

// offers has the caller offer work, to alice or to any user, which the server shows in its
// channel.
func (w *freeqProperties) offers(t *testing.T, more map[string]any) federation.HandoffID {
	t.Helper()
	terms := map[string]any{"title": "on freeq", "channel": channel}
	maps.Copy(terms, more)
	id, err := federation.ParseEventID(w.desk.offer(t, terms))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// refuses checks that the gateway refuses a step of the server with a code.
func (w *freeqProperties) refuses(t *testing.T, code string, do func()) {
	t.Helper()
	series := fmt.Sprintf(`baton_refusals_total{code=%q,network="freeq"}`, code)
	before := w.counters(t)[series]
	do()
	await(t, "a refusal with "+code, func() bool { return w.counters(t)[series] > before })
}

// steps has a user of the server take a step in the channel.
func (w *freeqProperties) steps(t *testing.T, user *bridgetest.FreeqUser, id federation.HandoffID, verb federation.Verb) {
	t.Helper()
	if _, err := user.Step(channel, id, verb, ""); err != nil {
		t.Fatal(err)
	}
}

// assignee returns the assignee that the gateway names, "" for none.
func (w *freeqProperties) assignee(t *testing.T, id federation.HandoffID) string {
	t.Helper()
	var shown struct{ Assignee string }
	w.desk.must(t, http.StatusOK, http.MethodGet, "handoffs/"+id.String(), nil, &shown)
	return shown.Assignee
}

func (w *propertyWorld) forgedAct(t *testing.T) {
	t.Helper()
	alice := person{key: seeded("alice"), did: string(w.freeq.alice.DID)}
	offer := actTags.offer(alice, channel, extras{"to": w.freeq.finn.DID, "title": "on freeq"})
	offer.tags[actTags.tag("title")] = "something else"
	series := `baton_events_total{network="freeq",outcome="refused",verb="offer",verdict="invalid"}`
	before := w.freeq.counters(t)[series]
	w.freeq.refuses(t, "SIGNATURE_INVALID", func() {
		w.freeq.server.Say(w.freeq.server.Event(map[string]any{
			"type": "tagmsg", "from": "alice", "target": channel, "tags": offer.tags, "account": alice.did,
		}))
	})
	if got := w.freeq.counters(t)[series]; got != before+1 {
		t.Errorf("%v offers were invalid, want one more than %v", got, before)
	}
}

func (w *propertyWorld) expiredAct(t *testing.T) {
	t.Helper()
	id := w.freeq.offers(t, map[string]any{"to": w.freeq.alice.DID, "deadline": past(2 * time.Second).UTC().Format(time.RFC3339)})
	w.freeq.stands(t, id, federation.Expired)
	w.freeq.refuses(t, "TERMINAL_TASK", func() { w.freeq.steps(t, w.freeq.alice, id, federation.Accept) })
	if got := w.freeq.assignee(t, id); got != "" {
		t.Errorf("a late accept assigns the work to %s", got)
	}
}

func (w *propertyWorld) actTwice(t *testing.T) {
	t.Helper()
	id := w.freeq.offers(t, nil)
	w.freeq.stands(t, id, federation.Open)
	w.freeq.steps(t, w.freeq.alice, id, federation.Claim)
	w.freeq.stands(t, id, federation.Assigned)
	w.freeq.refuses(t, "ILLEGAL_STEP", func() { w.freeq.steps(t, w.freeq.bob, id, federation.Claim) })
	if got := w.freeq.assignee(t, id); got != string(w.freeq.alice.DID) {
		t.Errorf("the second claim makes %q the assignee", got)
	}
}

func (w *propertyWorld) actOfOthers(t *testing.T) {
	t.Helper()
	id := w.freeq.offers(t, map[string]any{"to": w.freeq.alice.DID})
	w.freeq.stands(t, id, federation.Offered)
	w.freeq.refuses(t, "WRONG_SENDER", func() { w.freeq.steps(t, w.freeq.bob, id, federation.Accept) })
	w.freeq.steps(t, w.freeq.alice, id, federation.Accept)
	w.freeq.stands(t, id, federation.Assigned)
	if got := w.freeq.assignee(t, id); got != string(w.freeq.alice.DID) {
		t.Errorf("the assignee is %q", got)
	}
}
