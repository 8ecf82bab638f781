package main_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A client of the deployed dialect has a handle and a token.
type deployedClient struct {
	handle, token, did string
}

// enrol registers a client below /api, with the text of a public key or without.
func (s *stage) enrol(t *testing.T, key string) deployedClient {
	t.Helper()
	c := deployedClient{handle: "d" + nextNick()}
	body := map[string]any{"action": "register", "username": c.handle}
	if key != "" {
		body["publicKey"] = key
	}
	status, text := s.exchange(t, s.public(), posting("/api/presence", "", body))
	var given struct{ Token, DID string }
	if err := json.Unmarshal(text, &given); err != nil || status != http.StatusCreated {
		t.Fatalf("registration below /api is answered %d %s", status, text)
	}
	c.token, c.did = given.Token, given.DID
	return c
}

func keyText(p party) string { return "ed25519:" + base64.StdEncoding.EncodeToString(p.public) }

func (s *stage) d3Offer(t *testing.T, c deployedClient) {
	t.Helper()
	status, text := s.exchange(t, s.public(), posting("/api/messages", c.token, map[string]any{
		"to": "scout_7", "text": "an offer", "payload": taskRequest("Cite three sources"),
	}))
	var answer struct{ Handoff struct{ ID string } }
	if err := json.Unmarshal(text, &answer); err != nil || status/100 != 2 || answer.Handoff.ID == "" {
		t.Fatalf("an honest offer below /api is answered %d %s", status, text)
	}
	s.files(answer.Handoff.ID)
}

// deployedAIRC is the entrance for the clients in use, dialect D3.
func deployedAIRC() entrance {
	return entrance{
		name: "AIRC D3",
		never: map[lie]string{
			lieForgedOrigin: "a client signs no step", lieForeignHost: "any page may call the public listener",
			lieConnect: "the same HTTP listener as AIRC D1", lieSlow: "the same HTTP listener as AIRC D1",
			lieInvisible: "what people read of a step is written in one place for all dialects: see AIRC D1",
		},
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			s.d3Offer(t, s.enrol(t, ""))
		},
		tries: map[lie]func(*testing.T, *stage) []attempt{
			lieWeakKey: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				c := s.enrol(t, "")
				var all []attempt
				for _, weak := range weakParties(t) {
					register := map[string]any{"action": "register", "username": "w" + nextNick(), "publicKey": keyText(weak)}
					rotate := map[string]any{"new_public_key": keyText(weak)}
					all = append(all, s.airc(t, weak.String(), posting("/api/presence", "", register), "422 invalid_public_key"))
					all = append(all, s.airc(t, weak.String(), posting("/api/identity/"+c.handle+"/rotate", c.token, rotate), "422 invalid_public_key"))
				}
				return all
			},
			lieOtherIdentity: d3Others,
			lieReplayed: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				c := s.enrol(t, "")
				send := func(name, text, want string) attempt {
					return s.airc(t, name, posting("/api/messages", c.token, map[string]any{"to": "scout_7", "text": text, "id": "replayed_0123456789"}), want)
				}
				return []attempt{send("the first time", "one", "202"), send("other words under the same id", "two", "409 duplicate_message")}
			},
			lieTampered: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				c := s.enrol(t, keyText(newParty(t)))
				var all []attempt
				for name, proof := range map[string]any{
					"no proof": nil, "a proof of zeros": base64.StdEncoding.EncodeToString(make([]byte, 64)),
					"a proof of another key": map[string]any{"signature": base64.StdEncoding.EncodeToString(newParty(t).sign([]byte("x"))), "timestamp": "2026-11-23T00:00:00Z"},
				} {
					body := map[string]any{"new_public_key": keyText(newParty(t)), "proof": proof}
					got := s.airc(t, name, posting("/api/identity/"+c.handle+"/rotate", c.token, body), "401 invalid_signature")
					if strings.HasSuffix(got.answer, "invalid_timestamp") {
						got.answer = got.want // the time is checked before the signature
					}
					all = append(all, got)
				}
				return all
			},
			lieDoubled: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				c := s.enrol(t, "")
				message := map[string]any{"to": "scout_7", "text": "one"}
				register := map[string]any{"action": "register", "username": "t" + nextNick()}
				return []attempt{
					s.airc(t, "two texts", posting("/api/messages", c.token, twice(t, message, "text", "two")), "400 bad_request"),
					s.airc(t, "two names", posting("/api/presence", "", twice(t, register, "username", "scout_7")), "400 bad_request"),
				}
			},
			lieMisshapen: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				c := s.enrol(t, "")
				all := s.misshapes(t, s.public(), "/api/messages", c.token, "400 bad_request", "413 payload_too_large")
				return append(all, s.misshapes(t, s.public(), "/api/presence", "", "400 bad_request", "413 payload_too_large")...)
			},
			lieOversize: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				c := s.enrol(t, "")
				large := map[string]any{"to": "scout_7", "text": "x", "payload": map[string]any{"type": "x", "data": map[string]any{"x": strings.Repeat("x", 70_000)}}}
				return []attempt{
					s.airc(t, "a text of 4,001 characters", posting("/api/messages", c.token, map[string]any{"to": "scout_7", "text": strings.Repeat("x", 4001)}), "400 bad_request"),
					s.airc(t, "a payload of 70 kB", posting("/api/messages", c.token, large), "413 payload_too_large"),
					s.airc(t, "an id of 200 characters", posting("/api/messages", c.token, map[string]any{"to": "scout_7", "text": "x", "id": strings.Repeat("x", 200)}), "400 bad_request"),
					s.airc(t, "a handle of 200 letters", posting("/api/presence", "", map[string]any{"action": "register", "username": strings.Repeat("x", 200)}), "422 invalid_handle"),
				}
			},
			lieTraversal: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				c := s.enrol(t, "")
				const dots = "../../../operator/v1/handoffs"
				escaped := url.PathEscape(dots)
				return []attempt{
					s.airc(t, "a handle", posting("/api/presence", "", map[string]any{"action": "register", "username": dots}), "422 invalid_handle"),
					s.airc(t, "an identity", getting("/api/identity/"+escaped, ""), "404 identity_not_found"),
					s.airc(t, "a verification", getting("/api/identity/"+escaped+"/verification", ""), "404 identity_not_found"),
					s.airc(t, "a rotation", posting("/api/identity/"+escaped+"/rotate", c.token, map[string]any{}), "403 not_your_handle"),
					s.airc(t, "a recipient", posting("/api/messages", c.token, map[string]any{"to": dots, "text": "x"}), "404 identity_not_found"),
					s.airc(t, "a user", getting("/api/presence?user="+url.QueryEscape(dots), ""), "404 identity_not_found"),
				}
			},
			lieMisaddressed: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				c := s.enrol(t, "")
				return []attempt{
					s.airc(t, "an agent that is not there", posting("/api/messages", c.token, map[string]any{"to": "nobody_here", "text": "x"}), "404 identity_not_found"),
					s.airc(t, "no recipient", posting("/api/messages", c.token, map[string]any{"text": "x"}), "400 bad_request"),
				}
			},
			lieBadToken: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				c := s.enrol(t, "")
				return s.withBadTokens(t, s.public(), posting("/api/messages", c.token, map[string]any{"to": "scout_7", "text": "x"}), "401 unauthorized", "401 token_expired")
			},
		},
	}
}

// d3Others takes handles, tokens and keys of others. A key merely named by a client maps to
// no DID: the agent that proves it later receives the messages addressed to it.
func d3Others(t *testing.T, s *stage) []attempt {
	t.Helper()
	victim, mallory := s.enrol(t, keyText(newParty(t))), s.enrol(t, "")
	bob := newParty(t)
	thief := s.enrol(t, keyText(bob))
	identity := s.answer(t, s.public(), getting("/identity/"+url.PathEscape(string(bob.did)), ""))
	proved := s.restLogin(t, bob)
	sender := s.restLogin(t, newParty(t))
	s.restOffer(t, sender, map[string]any{"to": bob.did, "title": "For Bob alone"})
	_, stolen := s.exchange(t, s.public(), getting("/api/messages/inbox", thief.token))
	_, reached := s.exchange(t, s.public(), getting("/api/v1/inbox", proved))
	return []attempt{
		{"the DID of a key that was only named", identity, "404 identity_not_found"},
		{"the offer to Bob in the inbox of the thief", fmt.Sprint(strings.Contains(string(stolen), "For Bob alone")), "false"},
		{"the offer to Bob in the inbox of Bob", fmt.Sprint(strings.Contains(string(reached), "For Bob alone")), "true"},
		s.airc(t, "a message of another handle", posting("/api/messages", mallory.token, map[string]any{"from": victim.handle, "to": "scout_7", "text": "x"}), "403 not_your_handle"),
		s.airc(t, "a heartbeat of another handle", posting("/api/presence", mallory.token, map[string]any{"username": victim.handle, "action": "heartbeat"}), "403 not_your_handle"),
		s.airc(t, "the messages of another handle", getting("/api/messages?user="+victim.handle, mallory.token), "403 not_your_handle"),
		s.airc(t, "a rotation of another handle", posting("/api/identity/"+victim.handle+"/rotate", mallory.token, map[string]any{"new_public_key": keyText(newParty(t))}), "403 not_your_handle"),
	}
}
