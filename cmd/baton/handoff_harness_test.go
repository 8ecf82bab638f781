//go:build interop

package main_test

import (
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

const (
	title      = `Cite 3 sources; "X" \ é`
	background = `{"q":"X","depth":2}`
)

// terms returns the fields of an offer beside its parties.
func terms(deadline time.Time) map[string]string {
	return map[string]string{
		"handoff-task": title, "handoff-context": background, "handoff-caps": "web-search,summarize",
		"handoff-deadline": strconv.FormatInt(deadline.Unix(), 10), "handoff-x-colour": "unknown to the gateway",
	}
}

// session is one handoff as its test goes through it.
type session struct {
	id       string
	offer    map[string]string // tags
	deadline time.Time
	message  string // id of the message that brought the offer
	cursor   string // in the agent's inbox, after that
}

// offer makes alice offer something to scout, and waits until all can read that.
func (w *world) offer(t *testing.T) session {
	t.Helper()
	s := session{deadline: time.Now().Add(time.Hour).Truncate(time.Second)}
	s.offer, s.id = w.key.offer(channel, w.scout.DID, terms(s.deadline))
	send(t, w.alice, s.offer)
	await(t, "the offer's line", func() bool { return slices.ContainsFunc(w.bob.Received(), isLine(s.id, "alice offers")) })
	return s
}

// greet makes scout poll, find only the handshake, and consent.
func (w *world) greet(t *testing.T) (knock message, cursor string) {
	t.Helper()
	messages, cursor := awaitInbox(t, w.scout, "")
	if len(messages) != 1 || messages[0].Payload.Type != "system:handshake_request" {
		t.Fatalf("before consent the inbox has %+v", messages)
	}
	consent(t, w.scout, handleOf(w.key.did))
	return messages[0], cursor
}

// read makes scout read the offer that it consented to.
func (w *world) read(t *testing.T, s *session, cursor string) message {
	t.Helper()
	messages, after := awaitInbox(t, w.scout, cursor)
	if len(messages) != 1 || messages[0].Payload.Type != "task:request" {
		t.Fatalf("after consent the inbox has %+v", messages)
	}
	s.message, s.cursor = messages[0].ID, after
	return messages[0]
}

// reply is a step in a message of the agent.
type reply struct {
	verb, state, line string
	context           string // the part of the payload in the step beside the note
	payload           map[string]any
}

// replies returns the agent's part of a handoff.
func (s session) replies() []reply {
	return []reply{
		{"accept", "assigned", "accepts: " + title, "", payload("ack", map[string]any{"replyTo": s.message, "status": "received"})},
		{"progress", "assigned", "reports progress: " + title + " — two of 3", "", payload("task:result", map[string]any{
			"requestId": s.message, "status": "partial", "result": map[string]any{"note": "two of 3"},
		})},
		{"complete", "completed", "completes: " + title + " — done", `{"sources":["a","b","c"]}`, payload("task:result", map[string]any{
			"requestId": s.message, "status": "completed", "result": map[string]any{"note": "done", "sources": []any{"a", "b", "c"}},
		})},
	}
}

// answer posts a step as scout, which must be filed.
func (w *world) answer(t *testing.T, r reply) (text []byte, eventID string) {
	t.Helper()
	text = write(t, w.scout, w.scout.Envelope(handleOf(w.key.did), r.verb, r.payload))
	answer := post(t, w.scout, text)
	if answer.Status != http.StatusCreated {
		t.Fatalf("%s is answered %+v", r.verb, answer)
	}
	return text, answer.Handoff.EventID
}

// fence returns when both clients have all lines written before.
func (w *world) fence(t *testing.T) {
	t.Helper()
	if err := w.alice.Send(nil, "PRIVMSG", channel, "fence"); err != nil {
		t.Fatal(err)
	}
	if err := w.bob.Send(nil, "PRIVMSG", channel, "fence"); err != nil {
		t.Fatal(err)
	}
	for _, client := range []*bridgetest.IRCClient{w.alice, w.bob} {
		next(t, client, "the fence", func(m bridgetest.IRCMessage) bool { return m.Command == "PRIVMSG" && m.Params[1] == "fence" })
	}
}
