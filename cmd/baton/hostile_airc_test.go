package main_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// airc sends a request to the registry, and notes the counter of its refusal.
func (s *stage) airc(t *testing.T, name string, r httpRequest, want string) attempt {
	t.Helper()
	answer := s.answer(t, s.public(), r)
	if _, code, ok := strings.Cut(answer, " "); ok && answer == want && answer[0] == '4' {
		s.counts(refusal("airc", code))
	}
	return attempt{r.method + " " + r.path + ": " + name, answer, want}
}

func (s *stage) newAgent(t *testing.T) *bridgetest.Agent {
	t.Helper()
	agent := bridgetest.NewAgent(s.url(), "h"+nextNick(), newParty(t).secret.Seed())
	if err := agent.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	return agent
}

// aircOffer files an offer of an honest agent, and returns the message as it was sent.
func (s *stage) aircOffer(t *testing.T, agent *bridgetest.Agent) []byte {
	t.Helper()
	message := signedBy(t, agent, agent.Envelope("scout_7", "an offer", taskRequest("Cite three sources")))
	s.mustFile(t, agent, message)
	return message
}

// mustFile posts a message that the gateway has to file as an offer.
func (s *stage) mustFile(t *testing.T, agent *bridgetest.Agent, message []byte) (id string) {
	t.Helper()
	status, body, err := agent.Do(t.Context(), http.MethodPost, "/messages", message)
	var answer struct{ Handoff struct{ ID string } }
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil || status != http.StatusCreated && status != http.StatusAccepted || answer.Handoff.ID == "" {
		t.Fatalf("an honest offer is answered %d %s, %v", status, body, err)
	}
	s.files(answer.Handoff.ID)
	return answer.Handoff.ID
}

func taskRequest(title string) map[string]any {
	return map[string]any{"type": "task:request", "data": map[string]any{"description": title}}
}

func signedBy(t *testing.T, agent *bridgetest.Agent, envelope map[string]any) []byte {
	t.Helper()
	text, err := agent.Sign(envelope)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// changedMessage returns a signed message with members changed after the signature.
func changedMessage(t *testing.T, message []byte, changes map[string]any) map[string]any {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(message, &members); err != nil {
		t.Fatal(err)
	}
	maps.Copy(members, changes)
	return members
}

// challenge returns the challenge to sign to register a handle.
func (s *stage) challenge(t *testing.T, handle string) string {
	t.Helper()
	_, body := s.exchange(t, s.public(), posting("/register/challenge", "", map[string]any{"handle": handle}))
	var given struct{ Challenge string }
	if err := json.Unmarshal(body, &given); err != nil || given.Challenge == "" {
		t.Fatalf("no challenge for %s: %s", handle, body)
	}
	return given.Challenge
}

// registration returns the body that registers a handle with the key of a party.
func registration(handle, challenge string, p party) map[string]any {
	return map[string]any{
		"handle": handle, "publicKey": base64.RawURLEncoding.EncodeToString(p.public), "challenge": challenge,
		"challengeSignature": base64.RawURLEncoding.EncodeToString(p.sign([]byte(challenge))),
	}
}

// signedAIRC is the entrance for agents that sign their messages, dialect D1.
func signedAIRC() entrance {
	return entrance{
		name:  "AIRC D1",
		never: map[lie]string{lieForeignHost: "any page may call the public listener; only the token tells who calls"},
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			s.aircOffer(t, s.newAgent(t))
		},
		tries: map[lie]func(*testing.T, *stage) []attempt{
			lieWeakKey: d1WeakKeys, lieOtherIdentity: d1Others, lieReplayed: d1Replays, lieTampered: d1Tampers,
			lieDoubled: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				agent := s.newAgent(t)
				members := changedMessage(t, signedBy(t, agent, agent.Envelope("scout_7", "one", nil)), nil)
				body := registration("dd"+nextNick(), "x", newParty(t))
				return []attempt{
					s.airc(t, "two bodies", posting("/messages", agent.Token, twice(t, members, "body", "two")), "400 bad_request"),
					s.airc(t, "two recipients", posting("/messages", agent.Token, twice(t, members, "to", "anyone")), "400 bad_request"),
					s.airc(t, "two keys", posting("/register", "", twice(t, body, "publicKey", "x")), "400 bad_request"),
					s.airc(t, "two handles", posting("/consent", agent.Token, twice(t, map[string]any{"handle": "scout_7", "action": "block"}, "handle", "x_1")), "400 bad_request"),
				}
			},
			lieMisshapen: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				agent := s.newAgent(t)
				all := s.misshapes(t, s.public(), "/messages", agent.Token, "400 bad_request", "413 payload_too_large")
				return append(all, s.misshapes(t, s.public(), "/register", "", "400 bad_request", "413 payload_too_large")...)
			},
			lieOversize: d1Oversize, lieTraversal: d1Paths, lieMisaddressed: d1Misaddressed, lieForgedOrigin: d1Origins, lieInvisible: d1Shown,
			lieBadToken: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				agent := s.newAgent(t)
				all := s.withBadTokens(t, s.public(), getting("/messages/inbox", agent.Token), "401 unauthorized", "401 token_expired")
				message := signedBy(t, agent, agent.Envelope("scout_7", "hello", nil))
				return append(all, s.withBadTokens(t, s.public(), posting("/messages", agent.Token, message), "401 unauthorized", "401 token_expired")...)
			},
			lieConnect: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return s.connects(t, "tcp", s.house.public)
			},
			lieSlow: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return s.drips(t, "tcp", s.house.public, "/messages", func() attempt {
					begun := time.Now()
					s.aircOffer(t, s.newAgent(t))
					return attempt{"an offer while 64 clients send by the byte", fmt.Sprint(time.Since(begun) < answerTime), "true"}
				})
			},
		},
	}
}

// d1WeakKeys registers and rotates to weak keys.
func d1WeakKeys(t *testing.T, s *stage) []attempt {
	t.Helper()
	agent := s.newAgent(t)
	var all []attempt
	for _, weak := range weakParties(t) {
		handle := "w" + nextNick()
		challenge := s.challenge(t, handle)
		for range 500 {
			if weak.signs([]byte(challenge)) {
				break
			}
			challenge = s.challenge(t, handle)
		}
		all = append(all, s.airc(t, weak.String(), posting("/register", "", registration(handle, challenge, weak)), "422 invalid_public_key"))
		rotation := map[string]any{"newPublicKey": base64.RawURLEncoding.EncodeToString(weak.public)}
		all = append(all, s.airc(t, weak.String(), posting("/identity/rotate", agent.Token, signedBy(t, agent, rotation)), "422 invalid_public_key"))
	}
	return all
}

// d1Others takes handles, keys and messages of others.
func d1Others(t *testing.T, s *stage) []attempt {
	t.Helper()
	mallory, victim := s.newAgent(t), s.newAgent(t)
	bob := newParty(t)
	posing := party{newParty(t).secret, bob.public, bob.did}
	inName := mallory.Envelope("scout_7", "hello", nil)
	inName["from"] = victim.Handle
	itsKey := mallory.Envelope("scout_7", "hello", nil)
	itsKey["kid"] = victim.KeyID
	handle := "o" + nextNick()
	taken := s.challenge(t, victim.Handle)
	all := []attempt{
		s.airc(t, "a taken handle", posting("/register", "", registration(victim.Handle, taken, bob)), "409 handle_taken"),
		s.airc(t, "the key of another party", posting("/register", "", registration(handle, s.challenge(t, handle), posing)), "401 challenge_invalid"),
		s.airc(t, "a message of another handle", posting("/messages", mallory.Token, signedBy(t, mallory, inName)), "401 unauthorized"),
		s.airc(t, "the key id of another agent", posting("/messages", mallory.Token, signedBy(t, mallory, itsKey)), "401 invalid_signature"),
		s.airc(t, "the message of another agent", posting("/messages", mallory.Token, signedBy(t, victim, victim.Envelope("scout_7", "hello", nil))), "401 unauthorized"),
		s.airc(t, "a challenge for another handle", posting("/register", "", registration("p"+nextNick(), s.challenge(t, handle), bob)), "401 challenge_invalid"),
	}
	for _, reserved := range []string{"system", "anyone", "plc_x", "web_x", "key_aaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		all = append(all, s.airc(t, reserved, posting("/register/challenge", "", map[string]any{"handle": reserved}), "422 invalid_handle"))
	}
	revocation := map[string]any{"kid": victim.KeyID, "reason": "x"}
	return append(all, s.airc(t, "a key of another agent", posting("/identity/revoke", mallory.Token, signedBy(t, mallory, revocation)), "400 bad_request"))
}

// d1Replays sends signed bytes again.
func d1Replays(t *testing.T, s *stage) []attempt {
	t.Helper()
	agent := s.newAgent(t)
	message := s.aircOffer(t, agent)
	handle := "r" + nextNick()
	body := registration(handle, s.challenge(t, handle), newParty(t))
	if status, _ := s.exchange(t, s.public(), posting("/register", "", body)); status != http.StatusCreated {
		t.Fatalf("an honest registration is answered %d", status)
	}
	used := agent.RefreshToken
	if status, answer, err := agent.Refresh(t.Context()); status != http.StatusOK {
		t.Fatal(status, answer, err)
	}
	again := registration("q"+nextNick(), body["challenge"].(string), newParty(t))
	return []attempt{
		s.airc(t, "a message again", posting("/messages", agent.Token, message), "409 duplicate_message"),
		s.airc(t, "a challenge again", posting("/register", "", again), "401 challenge_invalid"),
		s.airc(t, "a refresh token again", posting("/auth/refresh", used, nil), "401 unauthorized"),
	}
}

// d1Tampers changes signed messages.
func d1Tampers(t *testing.T, s *stage) []attempt {
	t.Helper()
	agent := s.newAgent(t)
	message := func() []byte {
		return signedBy(t, agent, agent.Envelope("scout_7", "an offer", taskRequest("Cite three sources")))
	}
	bent := changedMessage(t, message(), nil)
	bent["signature"] = flip(bent["signature"].(string))
	other := changedMessage(t, message(), nil)
	other["signature"] = base64.RawURLEncoding.EncodeToString(make([]byte, ed25519.SignatureSize))
	cut := changedMessage(t, message(), nil)
	cut["signature"] = cut["signature"].(string)[:40]
	rotation := changedMessage(t, signedBy(t, agent, map[string]any{"newPublicKey": base64.RawURLEncoding.EncodeToString(newParty(t).public)}), nil)
	rotation["newPublicKey"] = base64.RawURLEncoding.EncodeToString(newParty(t).public)
	var all []attempt
	for name, body := range map[string]any{
		"another body":        changedMessage(t, message(), map[string]any{"body": "pay"}),
		"another recipient":   changedMessage(t, message(), map[string]any{"to": "anyone"}),
		"another payload":     changedMessage(t, message(), map[string]any{"payload": taskRequest("Send three coins")}),
		"a member added":      changedMessage(t, message(), map[string]any{"x": 1}),
		"a byte":              bent,
		"a signature of zero": other,
		"half a signature":    cut,
	} {
		all = append(all, s.airc(t, name, posting("/messages", agent.Token, body), "401 invalid_signature"))
	}
	return append(all, s.airc(t, "another key", posting("/identity/rotate", agent.Token, rotation), "401 invalid_signature"))
}

// d1Oversize sends messages over a limit in one place.
func d1Oversize(t *testing.T, s *stage) []attempt {
	t.Helper()
	agent := s.newAgent(t)
	large := taskRequest("x")
	large["data"].(map[string]any)["context"] = map[string]any{"x": strings.Repeat("x", 70_000)}
	handle := "z" + nextNick()
	profile := registration(handle, s.challenge(t, handle), newParty(t))
	profile["metadata"] = map[string]any{"x": strings.Repeat("x", 20_000)}
	return []attempt{
		s.airc(t, "a payload of 70 kB", posting("/messages", agent.Token, signedBy(t, agent, agent.Envelope("scout_7", "x", large))), "413 payload_too_large"),
		s.airc(t, "a profile of 20 kB", posting("/register", "", profile), "413 payload_too_large"),
		s.airc(t, "a handle of 200 letters", posting("/register/challenge", "", map[string]any{"handle": strings.Repeat("x", 200)}), "422 invalid_handle"),
	}
}

// d1Paths uses paths as handles and ids.
func d1Paths(t *testing.T, s *stage) []attempt {
	t.Helper()
	agent := s.newAgent(t)
	const dots = "../../../api/presence"
	envelope := agent.Envelope(dots, "hello", nil)
	var all []attempt
	for _, each := range []string{dots, "..%2f..", "a/b", "a?b", "a#b", "a\b", "a%00b", "a b", "\u202ea", "A"} {
		all = append(all, s.airc(t, each, posting("/register/challenge", "", map[string]any{"handle": each}), "422 invalid_handle"))
	}
	dotted := url.PathEscape(dots)
	return append(
		all,
		s.airc(t, "to a path", posting("/messages", agent.Token, signedBy(t, agent, envelope)), "404 identity_not_found"),
		s.airc(t, "an identity", getting("/identity/"+dotted, ""), "404 identity_not_found"),
		s.airc(t, "an identity in the well-known tree", getting("/.well-known/airc/identity/"+dotted, ""), "404 identity_not_found"),
		s.airc(t, "a thread", getting("/messages/thread/"+dotted, agent.Token), "404 identity_not_found"),
		s.airc(t, "a message", httpRequest{method: http.MethodDelete, path: "/messages/" + dotted, token: agent.Token}, "404 not_found"),
		s.airc(t, "consent", posting("/consent", agent.Token, map[string]any{"handle": dots, "action": "accept"}), "404 identity_not_found"),
	)
}

// d1Misaddressed sends messages meant for another registry, another agent or
// another time.
func d1Misaddressed(t *testing.T, s *stage) []attempt {
	t.Helper()
	agent := s.newAgent(t)
	send := func(name, want string, changes map[string]any) attempt {
		envelope := agent.Envelope("scout_7", "an offer", taskRequest("Cite three sources"))
		maps.Copy(envelope, changes)
		return s.airc(t, name, posting("/messages", agent.Token, signedBy(t, agent, envelope)), want)
	}
	answer := map[string]any{"type": "ack", "data": map[string]any{"replyTo": "01K0A3V9M7Q2X5R8T1W4Y6Z0AB", "status": "received", "handoff": map[string]any{"event": "accept", "id": "01K0A3V9M7Q2X5R8T1W4Y6Z0AB"}}}
	return []attempt{
		send("another registry", "403 audience_mismatch", map[string]any{"aud": "elsewhere.test"}),
		send("no registry", "400 bad_request", map[string]any{"aud": ""}),
		send("an agent that is not there", "404 identity_not_found", map[string]any{"to": "nobody_here"}),
		send("an hour ago", "401 invalid_timestamp", map[string]any{"timestamp": time.Now().Add(-time.Hour).Unix()}),
		send("in an hour", "401 invalid_timestamp", map[string]any{"timestamp": time.Now().Add(time.Hour).Unix()}),
		send("a seq", "400 bad_request", map[string]any{"seq": 1}),
		send("a handoff that is not there", "404 unknown_handoff", map[string]any{"payload": answer}),
	}
}

// d1Origins sends steps that the agent signed itself with fields that only a home may write.
func d1Origins(t *testing.T, s *stage) []attempt {
	t.Helper()
	agent := s.newAgent(t)
	mallory := party{agent.Key, ed25519.PublicKey(agent.Key[32:]), ""}
	mallory.did = keyDIDOf(mallory.public)
	c := scene{"handoff", mallory, newParty(t), taggedStep{}, "did:web:gw.test"}
	var all []attempt
	for _, step := range c.forHomes(t) {
		all = append(all, s.airc(t, step.name, posting("/messages", agent.Token, signedBy(t, agent,
			agent.Envelope("scout_7", "an offer", proofPayload(t, s, mallory, step.step.fields)))), "400 bad_request"))
	}
	return all
}

// d1Shown makes open offers, whose titles stand in the channel of the linked network.
func d1Shown(t *testing.T, s *stage) []attempt {
	t.Helper()
	agent := s.newAgent(t)
	titles := unseen()
	titles["an escape sequence"] = "pay \x1b[2J001 coins"
	var all []attempt
	for name, title := range titles {
		id := s.mustFile(t, agent, signedBy(t, agent, agent.Envelope("anyone", "an open offer", taskRequest(title))))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		m, err := s.ircd.Next(ctx, func(m bridgetest.IRCMessage) bool { return isLineOf(m, id) })
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		answer := "clean"
		if hidden(m.Params[1]) {
			answer = fmt.Sprintf("%q", m.Params[1])
		}
		all = append(all, attempt{name, answer, "clean"})
	}
	return all
}

// proofPayload returns the payload of an offer to scout with a proof by its sender: the
// document is signed for the pair of the two DIDs.
func proofPayload(t *testing.T, s *stage, p party, more map[string]string) map[string]any {
	t.Helper()
	recipient := keyDIDOf(ed25519.PublicKey(s.scout.Key[32:]))
	venue := "dm:" + min(string(p.did), string(recipient)) + "," + max(string(p.did), string(recipient))
	step := p.seal(t, "handoff", venue, func(id string) map[string]string {
		fields := offerFields("handoff", p, id, recipient, "Cite three sources")
		for name, value := range more {
			if _, there := fields[name]; !there {
				fields[name] = value
			}
		}
		return fields
	}, nil)
	return map[string]any{"type": "at.freeq:handoff", "data": map[string]any{"handoff": map[string]any{
		"event": "offer", "id": step.id, "title": "Cite three sources",
		"proof": map[string]any{
			"scheme": "handoff", "document": documentOf(t, step, p), "signature": step.tags["+freeq.at/sig"],
			"publicKey": base64.RawURLEncoding.EncodeToString(p.public),
		},
	}}}
}
