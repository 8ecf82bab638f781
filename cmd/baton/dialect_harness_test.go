//go:build interop

package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// unlimited is a table for tests that do more in a minute than the limits allow.
const unlimited = "[limits]\ndid_events_per_minute = 0\nregistrations_per_hour = 0\nuser_events_per_minute = 0\n" + anyAddress

// skill is the capability of a twin's agent.
const skill = "web-search"

// twin is a world whose gateway joins two networks by the same channel, with an
// agent with a skill and accepts alice.
type twin struct {
	*world
	dev   *network
	carol *bridgetest.IRCClient // on the second network; negotiated message-tags
	finn  *mailbox
}

// newTwin starts all of it. Offers that enter on the links from elsewhere are in the
// dialect.
func newTwin(t *testing.T, d dialect, tables ...string) *twin {
	t.Helper()
	h := newHouse(t)
	tw := &twin{world: &world{house: h, net: newNetwork(t, h, "lab", "1LA"), key: newPerson(t)}}
	tw.dev = newNetwork(t, h, "dev", "2DE")
	speaks := fmt.Sprintf("dialect = %q\n", d)
	if len(tables) == 0 {
		tables = []string{unlimited}
	}
	h.configure(t, append(tables, tw.net.table+speaks, tw.dev.table+speaks)...)
	tw.start(t)
	tw.ready(t)
	tw.alice = tw.net.join(t, "alice", "message-tags")
	tw.bob = tw.net.join(t, "bob")
	tw.scout = tw.register(t, "scout_7")
	tw.carol = tw.dev.join(t, "carol", "message-tags")
	tw.finn = tw.hire(t, "finn", skill)
	hello := tw.befriend(t, tw.finn)
	for _, verb := range []string{"offer", "cancel"} {
		rfcTags.await(t, tw.carol, verb, hello)
	}
	return tw
}

func (w *world) hire(t *testing.T, handle string, skills ...string) *mailbox {
	t.Helper()
	agent := bridgetest.NewAgent(w.url(), handle, newPerson(t).key.Seed())
	agent.Capabilities = map[string]any{"skills": skills}
	if err := agent.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.secrets = append(w.secrets, agent.Token)
	return &mailbox{Agent: agent}
}

// befriend makes an agent accept alice after her first message. It returns the id of a
// closed handoff.
func (w *world) befriend(t *testing.T, agent *mailbox) string {
	t.Helper()
	first := rfcTags.offer(w.key, channel, extras{"to": agent.DID, "title": "say hello"})
	send(t, w.alice, first.tags)
	agent.next(t, "a handshake", func(m message) bool { return m.Payload.Type == "system:handshake_request" })
	consent(t, agent.Agent, handleOf(w.key.did))
	agent.next(t, "the first offer", isAbout("offer", first.handoff))
	send(t, w.alice, rfcTags.step(w.key, channel, "cancel", first.handoff, nil).tags)
	agent.next(t, "the end of it", isAbout("cancel", first.handoff))
	return first.handoff
}

// mailbox is an agent that reads its inbox once.
type mailbox struct {
	*bridgetest.Agent
	cursor string
	kept   []message // read, and not asked for yet
}

// next waits for a message that matches, and takes it.
func (b *mailbox) next(t *testing.T, what string, match func(message) bool) message {
	t.Helper()
	var found message
	await(t, what+" to "+b.Handle, func() bool {
		messages, after := inbox(t, b.Agent, b.cursor)
		b.kept, b.cursor = append(b.kept, messages...), after
		for i, m := range b.kept {
			if match(m) {
				found = m
				b.kept = append(b.kept[:i:i], b.kept[i+1:]...)
				return true
			}
		}
		return false
	})
	return found
}

// own returns the DID of the key that the agent registered.
func (b *mailbox) own() person { return person{key: b.Key, did: didKey(b.Key[32:])} }

// described is the handoff fields of each message.
type described struct {
	ID         string `json:"id"`
	Event      string `json:"event"`
	EventID    string `json:"event_id"`
	State      string `json:"state"`
	Venue      string `json:"venue"`
	Dialect    string `json:"dialect"`
	From       string `json:"from_did"`
	To         string `json:"to_did"`
	Assignee   string `json:"assignee"`
	Note       string `json:"note"`
	Provenance string `json:"provenance"`
	Proof      *proof `json:"proof"`
}

func about(m message) described {
	var data struct{ Handoff described }
	_ = json.Unmarshal(m.Payload.Data, &data) // a message about something else has none
	return data.Handoff
}

// isAbout matches a message that brings a step of a handoff.
func isAbout(verb, handoff string) func(message) bool {
	return func(m message) bool {
		d := about(m)
		return d.ID == handoff && d.Event == verb && !strings.Contains(string(m.Payload.Data), `"notice"`)
	}
}

// outcome is the registry's answer to a message.
type outcome struct {
	Status  int `json:"-"` // of HTTP
	Error   string
	Message string
	ID      string
	Consent string
	Handoff struct {
		ID       string
		Event    string
		EventID  string `json:"event_id"`
		State    string
		Assignee string
	}
}

func printError(t *testing.T, agent *mailbox, to string, payload any) (got outcome, sent []byte) {
	t.Helper()
	sent = write(t, agent.Agent, agent.Envelope(to, "on it", payload))
	status, body, err := agent.Do(t.Context(), http.MethodPost, "/messages", sent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	got.Status = status
	return got, sent
}

// answerPayload returns a step after the offer as an agent sends it.
func answerPayload(verb, handoff string) map[string]any {
	switch verb {
	case "accept", "claim":
		return payload("ack", map[string]any{"replyTo": handoff, "status": "received"})
	case "decline":
		return payload("ack", map[string]any{"replyTo": handoff, "status": "rejected", "message": verb})
	case "progress":
		return payload("task:result", map[string]any{"requestId": handoff, "status": "partial", "result": map[string]any{"note": verb}})
	case "complete":
		return payload("task:result", map[string]any{"requestId": handoff, "status": "completed", "result": map[string]any{"note": verb}})
	case "fail":
		return payload("task:result", map[string]any{"requestId": handoff, "status": "failed", "error": verb})
	}
	return answerNamed(verb, handoff)
}

// answerNamed returns a step as an agent sends it that names the verb.
func answerNamed(verb, handoff string) map[string]any {
	return payload("at.freeq:handoff", map[string]any{"handoff": map[string]any{"id": handoff, "event": verb}})
}

// payloadTypes is how an agent reads each step.
func payloadTypes() map[string]string {
	return map[string]string{
		"offer": "task:request", "accept": "ack", "claim": "ack", "decline": "ack", "progress": "task:result",
		"complete": "task:result", "fail": "task:result", "cancel": "at.freeq:handoff", "expire": "at.freeq:handoff",
	}
}

// seenAsSigned checks that a step reaches a client with the signed tags.
func seenAsSigned(t *testing.T, client *bridgetest.IRCClient, d dialect, verb string, s signed) {
	t.Helper()
	if diff := cmp.Diff(s.tags, ownTags(d.await(t, client, verb, s.handoff))); diff != "" {
		t.Errorf("%s as %s sees it (-signed +seen):\n%s", verb, client.Nick, diff)
	}
}

// seenConfirmed checks that the home confirms a step.
func (tw *twin) seenConfirmed(t *testing.T, client *bridgetest.IRCClient, venue, handoff, event string) {
	t.Helper()
	m := next(t, client, "the receipt of "+event, func(m bridgetest.IRCMessage) bool {
		return actTags.names("confirm", handoff)(m) && m.Tags[actTags.tag("subject")] == event
	})
	if err := actTags.verify(m.Tags, venue, tw.homeKey(t)); err != nil || m.Nick != "Baton" || actTags.from(m.Tags) != homeDID {
		t.Errorf("receipt from %s, %v: %v", m.Nick, m.Tags, err)
	}
	want := map[string]string{vendor + "act": "handoff", actTags.tag("verb"): "confirm", actTags.tag("id"): handoff, actTags.tag("subject"): event, vendor + "from": homeDID}
	got := maps.Clone(ownTags(m))
	delete(got, vendor+"sig")
	delete(got, vendor+"eventid")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("receipt (-want +got):\n%s", diff)
	}
	if fresh := m.Tags[vendor+"eventid"]; fresh == event || len(fresh) != len(event) {
		t.Errorf("the receipt has the event id %q", fresh)
	}
}
