package airc_test

import (
	"testing"

	"github.com/baton-gateway/baton/federation"
)

func TestNoticeIsOneMessageOfTheRegistry(t *testing.T) {
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x34)
	id := w.offer(t, alice, scout.DID)
	ev := federation.Event{
		ID: w.mint(t), Handoff: id, Verb: federation.Accept, From: federation.DID(scout.DID),
		Arrival: federation.Arrival{Link: "airc", MessageID: "mine"},
	}
	n := federation.Notice{Kind: federation.NoticeUndeliverable, Event: ev, To: "lab", Code: "expired", Why: "nobody took it"}
	for range 2 { // it may be told again after a crash
		if err := w.link.Notify(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	messages := inbox(t, scout)
	told := messages[len(messages)-1]
	if len(messages) > 2 || told.From != "system" || told.Payload.Type != "at.freeq:handoff" {
		t.Fatalf("the agent has %+v", messages)
	}
	if want := "Your accept of handoff " + id.Short() + " cannot be delivered to lab: nobody took it."; told.Body != want {
		t.Errorf("told %q, want %q", told.Body, want)
	}
	handoff, _ := told.Payload.Data["handoff"].(map[string]any)
	data := told.Payload.Data
	if data["notice"] != "undeliverable" || data["code"] != "expired" || data["messageId"] != "mine" || handoff["event_id"] != ev.ID.String() || handoff["state"] != "offered" {
		t.Errorf("told %v", data)
	}
	stranger := n
	stranger.Event.From = alice.DID
	if err := w.link.Notify(t.Context(), stranger); err != nil {
		t.Errorf("of somebody who is no agent: %v", err)
	}
}
