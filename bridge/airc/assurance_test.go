package airc_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// stage is a registry with amy and scout_7, here or at another registry. The registry is
// more or less sure of the author of a message.
type stage struct {
	*world

	scout string // as amy writes to it
	say   func(t *testing.T, sure bool, payload map[string]any) map[string]any
	sent  int
}

// relays returns a stage whose scout is an agent of a.test. Messages that need no assurance are
// relayed without a signature.
func relays(t *testing.T, unsigned string) *stage {
	t.Helper()
	net := newInternet()
	net.join(t, "a.test", 0x0a, peers.Config{Domain: "b.test"})
	s := &stage{scout: "scout_7@a.test", world: net.join(t, "b.test", 0x0b, peers.Config{Domain: "a.test", Unsigned: unsigned, Networks: []string{"192.0.2.0/24"}})}
	peer := &client{world: s.world}
	s.say = func(t *testing.T, sure bool, payload map[string]any) map[string]any {
		t.Helper()
		s.sent++
		key := federation.SigningKey{}
		if sure {
			key = signingKey(0x0a)
		}
		body := map[string]any{"message_id": fmt.Sprintf("msg_%016d", s.sent), "payload": payload}
		status, answer := peer.call(t, http.MethodPost, "/federation/relay", forge(t, key, body))
		if status >= http.StatusBadRequest {
			t.Fatal(status, answer)
		}
		return answer
	}
	return s
}

// here returns a stage whose scout is an agent of the same registry.
func here(t *testing.T, post func(t *testing.T, w *world) func(payload map[string]any) (int, map[string]any)) *stage {
	t.Helper()
	s := &stage{scout: "scout_7", world: newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Domain = "b.test" })}
	write := post(t, s.world)
	s.say = func(t *testing.T, _ bool, payload map[string]any) map[string]any {
		t.Helper()
		status, answer := write(payload)
		if status >= http.StatusBadRequest {
			t.Fatal(status, answer)
		}
		return answer
	}
	return s
}

// A message may be a step of any verb, or no step, depending on how sure the registry is of
// its author.
func TestAssuranceLimitsSteps(t *testing.T) {
	t.Parallel()
	levels := map[string]struct {
		open  func(t *testing.T) *stage
		sure  bool
		steps bool
	}{
		"signed by the agent": {open: func(t *testing.T) *stage {
			t.Helper()
			return here(t, func(t *testing.T, w *world) func(map[string]any) (int, map[string]any) {
				t.Helper()
				scout := w.resident(t, "b.test", "scout_7", 0x01)
				return func(payload map[string]any) (int, map[string]any) {
					status, answer, err := scout.Send(t.Context(), "amy_1", "", payload)
					if err != nil {
						t.Fatal(err)
					}
					return status, answer
				}
			})
		}, steps: true},
		"with a token": {open: func(t *testing.T) *stage {
			t.Helper()
			return here(t, func(t *testing.T, w *world) func(map[string]any) (int, map[string]any) {
				t.Helper()
				scout := w.newcomer(t, "scout_7", nil)
				return func(payload map[string]any) (int, map[string]any) {
					return scout.call(t, http.MethodPost, "/api/messages", map[string]any{"to": "amy_1", "body": "hello", "payload": payload})
				}
			})
		}, steps: true},
		"signed by its registry":                {open: func(t *testing.T) *stage { t.Helper(); return relays(t, "") }, sure: true, steps: true},
		"not signed, of a registry so trusted":  {open: func(t *testing.T) *stage { t.Helper(); return relays(t, "allow") }, steps: true},
		"not signed, and so perhaps of anybody": {open: func(t *testing.T) *stage { t.Helper(); return relays(t, "hold") }},
	}
	native := func(verb string) func(message, handoff string) map[string]any {
		return func(_, handoff string) map[string]any {
			return payload("at.freeq:handoff", map[string]any{"event": verb, "handoff": map[string]any{"id": handoff}})
		}
	}
	for verb, test := range map[string]struct {
		before, want string // verbs of the handoff
		step         func(message, handoff string) map[string]any
	}{
		"accept":   {"offer", "offer accept", func(message, _ string) map[string]any { return ack(message, "received") }},
		"decline":  {"offer", "offer decline", func(message, _ string) map[string]any { return ack(message, "rejected") }},
		"progress": {"offer accept", "offer accept progress", func(message, _ string) map[string]any { return result(message, "partial") }},
		"complete": {"offer accept", "offer accept complete", func(message, _ string) map[string]any { return result(message, "completed") }},
		"fail":     {"offer accept", "offer accept fail", func(message, _ string) map[string]any { return result(message, "failed", "error", "no") }},
		"cancel":   {"offer", "offer cancel", native("cancel")}, // of its own offer
		"offer":    {"", "offer", func(string, string) map[string]any { return request("Review the patch") }},
	} {
		for level, l := range levels {
			t.Run(verb+" "+level, func(t *testing.T) {
				t.Parallel()
				s := l.open(t)
				amy := s.resident(t, "b.test", "amy_1", 0x05)
				if _, err := s.record.Accept(t.Context(), "amy_1", s.scout, time.Now()); err != nil {
					t.Fatal(err)
				}
				message, id := s.prepare(t, amy, verb, test.before)
				answer := s.say(t, l.sure, test.step(message, id.String()))
				filed, _ := answer["handoff"].(map[string]any)
				if id.IsZero() && filed != nil {
					id = parseHandoff(t, filed)
				}
				want := test.want
				if !l.steps {
					want = test.before
				}
				got := ""
				if !id.IsZero() {
					got = s.verbs(t, id)
				}
				if got != want || (filed != nil) != l.steps {
					t.Errorf("filed %q, want %q; answered %v", got, want, answer)
				}
			})
		}
	}
}

// prepare brings a handoff between amy and scout to a state in which a verb may follow, and returns
// its id and that of the message of its offer.
func (s *stage) prepare(t *testing.T, amy *bridgetest.Agent, verb, before string) (message string, id federation.HandoffID) {
	t.Helper()
	switch verb {
	case "offer":
		return "", id
	case "cancel":
		filed, _ := s.say(t, true, request("Cite three sources"))["handoff"].(map[string]any)
		return "", parseHandoff(t, filed)
	}
	status, answer, err := amy.Send(t.Context(), s.scout, "please", request("Cite three sources"))
	if err != nil || status >= http.StatusBadRequest {
		t.Fatal(status, answer, err)
	}
	message, _ = answer["id"].(string)
	filed, _ := answer["handoff"].(map[string]any)
	if before == "offer accept" {
		s.say(t, true, ack(message, "received"))
	}
	return message, parseHandoff(t, filed)
}

// parseHandoff returns the id in the answer to a step.
func parseHandoff(t *testing.T, filed map[string]any) federation.HandoffID {
	t.Helper()
	text, _ := filed["id"].(string)
	id, err := federation.ParseEventID(text)
	if err != nil {
		t.Fatal(filed, err)
	}
	return id
}
