package airc_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// rawInbox returns the messages of an agent exactly as they were sent.
func rawInbox(t *testing.T, a *bridgetest.Agent) []string {
	t.Helper()
	raws, _, err := a.Inbox(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	texts := make([]string, len(raws))
	for i, raw := range raws {
		texts[i] = string(raw)
	}
	return texts
}

// parsed returns one message without its signature, and its data.handoff.
func parsed(t *testing.T, text string) (rest, handoff map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &rest); err != nil {
		t.Fatal(err)
	}
	delete(rest, "signature")
	data, _ := rest["payload"].(map[string]any)["data"].(map[string]any)
	handoff, _ = data["handoff"].(map[string]any)
	return rest, handoff
}

func (w *world) cancel(t *testing.T, id federation.HandoffID) {
	t.Helper()
	w.fromIRC(t, alice, federation.Event{Handoff: id, Verb: federation.Cancel}, map[string]string{})
}

func TestInboxShowsTheCurrentStateOfAHandoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
	scout := w.agent(t, "scout_7", 0x01)
	id := w.offer(t, alice, scout.DID)
	w.offer(t, alice, scout.DID)
	before := rawInbox(t, scout)
	if diff := cmp.Diff(before, rawInbox(t, scout)); len(before) != 2 || diff != "" {
		t.Fatalf("unchanged handoffs are read as other bytes: %s", diff)
	}
	w.cancel(t, id)
	after := rawInbox(t, scout)
	want, handoff := parsed(t, before[0])
	if handoff["state"] != "offered" || handoff["state_now"] != nil {
		t.Errorf("at first the offer shows %v", handoff)
	}
	handoff["state_now"] = "cancelled"
	got, _ := parsed(t, after[0])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("the withdrawn offer", diff)
	}
	if err := scout.Verify([]byte(after[0])); err != nil {
		t.Error(err)
	}
	if after[1] != before[1] {
		t.Errorf("the other offer is %s, was %s", after[1], before[1])
	}
	if _, cancel := parsed(t, after[2]); cancel["state"] != "cancelled" || cancel["state_now"] != nil {
		t.Errorf("the cancel shows %v", cancel)
	}

	_, text, err := scout.Do(t.Context(), http.MethodGet, "/messages/thread/"+wire.Handle(alice.DID), nil)
	var thread struct{ Messages []json.RawMessage }
	if err != nil || json.Unmarshal(text, &thread) != nil || len(thread.Messages) != 3 || string(thread.Messages[0]) != after[0] {
		t.Errorf("the thread is %s (%v), want first\n%s", text, err, after[0])
	}
	messages, _, err := w.record.Inbox(t.Context(), "scout_7", "", 1)
	if err != nil {
		t.Fatal(err)
	}
	_, pushed, err := w.link.Write(t.Context(), federation.Webhook{Participant: "scout_7"}, federation.Push{Content: messages[0]})
	if err != nil || string(pushed) != after[0] {
		t.Errorf("the webhook gets %s (%v), want\n%s", pushed, err, after[0])
	}
}

func TestInboxLeavesMessagesOfAgentsAsSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
	scout, planner, amy := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04), w.newcomer(t, "amy_1", nil)
	for _, from := range []string{"planner", "amy_1"} {
		if status, answer, err := scout.Consent(t.Context(), from, "accept"); err != nil || status != http.StatusOK {
			t.Fatal(status, answer, err)
		}
	}
	offer := request("Fix it", "handoff", map[string]any{"state": "offered"})
	start(t, planner, "scout_7", offer)
	if status, answer := amy.call(t, http.MethodPost, "/api/messages", map[string]any{"to": "scout_7", "body": "please", "payload": offer}); status != http.StatusCreated {
		t.Fatal(status, answer)
	}
	before := rawInbox(t, scout)
	if len(before) != 2 {
		t.Fatal(before)
	}
	for _, m := range inbox(t, scout) {
		if status, answer, err := scout.Send(t.Context(), m.From, "", ack(m.ID, "received")); err != nil || status != http.StatusCreated {
			t.Fatal(status, answer, err)
		}
	}
	if diff := cmp.Diff(before, rawInbox(t, scout)); diff != "" {
		t.Error(diff)
	}
}

func TestDeployedListsShowTheCurrentState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
	amy := w.newcomer(t, "amy_1", nil)
	agent, err := w.record.Agent(t.Context(), "amy_1")
	if err != nil {
		t.Fatal(err)
	}
	id := w.offer(t, alice, string(agent.DID))
	w.cancel(t, id)
	for path, want := range map[string][]any{
		"/api/messages?to=x": {"cancelled", nil},
		"/api/messages?with=" + url.QueryEscape(wire.Handle(alice.DID)): {"cancelled", nil},
	} {
		_, answer := amy.call(t, http.MethodGet, path, nil)
		var got []any
		listed, _ := answer["messages"].([]any)
		for _, m := range listed {
			payload, _ := m.(map[string]any)["payload"].(map[string]any)
			data, _ := payload["data"].(map[string]any)
			handoff, _ := data["handoff"].(map[string]any)
			got = append(got, handoff["state_now"])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

func TestPayloadWithTheCurrentStateIsNoLargerThanItsAgentTakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
	read := func(a *bridgetest.Agent) (size int, handoff map[string]any) {
		text := rawInbox(t, a)[0]
		var canonical struct{ Payload json.RawMessage }
		if err := json.Unmarshal([]byte(text), &canonical); err != nil {
			t.Fatal(err)
		}
		_, handoff = parsed(t, text)
		return len(canonical.Payload), handoff
	}
	unlimited := w.agent(t, "planner", 0x04)
	w.offer(t, alice, unlimited.DID)
	limit, _ := read(unlimited)
	exact := w.agent(t, "scout_7", 0x01, func(a *bridgetest.Agent) { a.Capabilities = map[string]any{"maxPayloadSize": limit} })
	w.cancel(t, w.offer(t, alice, exact.DID))
	if size, handoff := read(exact); size > limit || handoff["state_now"] != "cancelled" {
		t.Errorf("%d bytes for an agent that takes %d: %v", size, limit, handoff)
	}
}
