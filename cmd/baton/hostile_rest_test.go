package main_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

func (s *stage) rest(t *testing.T, name string, r httpRequest, want string) attempt {
	t.Helper()
	r.path = "/api/v1/" + r.path
	answer := s.answer(t, s.public(), r)
	return attempt{r.method + " " + r.path + ": " + name, answer, want}
}

// restLogin proves the DID of a party and returns its token.
func (s *stage) restLogin(t *testing.T, p party) (token string) {
	t.Helper()
	status, text := s.restProof(t, p, p)
	var given struct {
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal(text, &given); err != nil || status != http.StatusOK {
		t.Fatalf("an honest login is answered %d %s", status, text)
	}
	return given.Access
}

// restProof answers a challenge for the DID of one party with the signature of another.
func (s *stage) restProof(t *testing.T, of, by party) (status int, body []byte) {
	t.Helper()
	for range weakTries {
		var given struct{ Challenge string }
		status, body = s.exchange(t, s.public(), posting("/api/v1/auth/challenge", "", map[string]any{"did": of.did}))
		if status != http.StatusOK || json.Unmarshal(body, &given) != nil {
			return status, body
		}
		if of.secret == nil && !of.signs([]byte(given.Challenge)) {
			continue
		}
		signature := base64.RawURLEncoding.EncodeToString(by.sign([]byte(given.Challenge)))
		return s.exchange(t, s.public(), posting("/api/v1/auth/token", "", map[string]any{"did": of.did, "challenge": given.Challenge, "signature": signature}))
	}
	t.Fatal("no challenge fits the signature of a weak key")
	return 0, nil
}

// restOffer files an offer of an honest caller and returns its id.
func (s *stage) restOffer(t *testing.T, token string, offer map[string]any) (id string) {
	t.Helper()
	status, text := s.exchange(t, s.public(), posting("/api/v1/handoffs", token, offer))
	var filed struct{ ID string }
	if err := json.Unmarshal(text, &filed); err != nil || status != http.StatusCreated {
		t.Fatalf("an honest offer is answered %d %s", status, text)
	}
	s.files(filed.ID)
	return filed.ID
}

func (s *stage) toScout() map[string]any {
	return map[string]any{"to": s.scout.DID, "title": "Cite three sources"}
}

// signedOffer returns an offer with a document that the caller signed, for the pair of DIDs.
func (s *stage) signedOffer(t *testing.T, p party, changes map[string]string) map[string]any {
	t.Helper()
	to := federation.DID(s.scout.DID)
	venue := federation.PrivateVenue(p.did, to)
	step := p.seal(t, federation.HandoffTags, venue, func(id string) map[string]string {
		return offerFields(federation.HandoffTags, p, id, to, "Cite three sources")
	}, changes)
	return map[string]any{"document": documentOf(t, step, p), "signature": step.tags["+freeq.at/sig"]}
}

func restSteps() entrance {
	steps := func(t *testing.T, s *stage, token, name string, body any, want string) attempt {
		t.Helper()
		return s.rest(t, name, posting("handoffs", token, body), want)
	}
	return entrance{
		name: "REST steps and actions",
		never: map[lie]string{
			lieForeignHost: "any page may call the public listener", lieConnect: "the same HTTP listener as AIRC D1", lieSlow: "the same HTTP listener as AIRC D1",
		},
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			s.restOffer(t, s.restLogin(t, newParty(t)), s.toScout())
		},
		tries: map[lie]func(*testing.T, *stage) []attempt{
			lieWeakKey: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				var all []attempt
				for _, weak := range weakParties(t) {
					status, body := s.restProof(t, weak, weak)
					var said struct{ Code string }
					_ = json.Unmarshal(body, &said)
					all = append(all, attempt{"a login with " + weak.String(), fmt.Sprint(status, " ", said.Code), "401 unauthorized"})
				}
				return all
			},
			lieOtherIdentity: restOthers,
			lieReplayed: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				alice, mallory := newParty(t), newParty(t)
				token, other := s.restLogin(t, alice), s.restLogin(t, mallory)
				id := s.restOffer(t, token, s.toScout())
				signed := s.signedOffer(t, newParty(t), nil)
				return []attempt{
					steps(t, s, other, "an id of another party", map[string]any{"id": id, "to": s.scout.DID, "title": "Other work"}, "409 eventid-in-use"),
					steps(t, s, other, "the signed offer of another party", signed, "403 actor-mismatch"),
				}
			},
			lieTampered: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				alice := newParty(t)
				token := s.restLogin(t, alice)
				document, other, cut := s.signedOffer(t, alice, nil), s.signedOffer(t, alice, nil), s.signedOffer(t, alice, nil)
				document["document"] = strings.Replace(document["document"].(string), "three sources", "three coins", 1)
				other["signature"] = s.signedOffer(t, alice, nil)["signature"]
				cut["signature"] = cut["signature"].(string)[:60]
				return []attempt{
					steps(t, s, token, "another title", document, "401 signature-invalid"),
					steps(t, s, token, "the signature of another step", other, "401 signature-invalid"),
					steps(t, s, token, "half a signature", cut, "401 signature-invalid"),
				}
			},
			lieDoubled: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token := s.restLogin(t, newParty(t))
				return []attempt{
					steps(t, s, token, "two titles", twice(t, s.toScout(), "title", "Pay"), "400 usage"),
					steps(t, s, token, "two recipients", twice(t, s.toScout(), "to", "did:web:gw.test"), "400 usage"),
					s.rest(t, "two DIDs", posting("auth/challenge", "", twice(t, map[string]any{"did": s.scout.DID}, "did", "did:web:gw.test")), "400 usage"),
				}
			},
			lieMisshapen: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token := s.restLogin(t, newParty(t))
				all := s.misshapes(t, s.public(), "/api/v1/handoffs", token, "400 usage", "413 usage")
				return append(all, s.misshapes(t, s.public(), "/api/v1/auth/challenge", "", "400 usage", "413 usage")...)
			},
			lieOversize: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token := s.restLogin(t, newParty(t))
				with := func(name string, value any) map[string]any {
					offer := s.toScout()
					offer[name] = value
					return offer
				}
				return []attempt{
					steps(t, s, token, "a thousand capabilities", with("caps", strings.Split(strings.Repeat("a,", 1000), ",")[:1000]), "400 usage"),
					steps(t, s, token, "a DID of 10,000 bytes", with("to", "did:web:"+strings.Repeat("x", 10_000)), "400 usage"),
				}
			},
			lieTraversal: restPaths,
			lieMisaddressed: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				alice := newParty(t)
				token := s.restLogin(t, alice)
				elsewhere := alice.seal(t, federation.HandoffTags, "#elsewhere", func(id string) map[string]string {
					return offerFields(federation.HandoffTags, alice, id, federation.DID(s.scout.DID), "Cite three sources")
				}, nil)
				return []attempt{
					steps(t, s, token, "a channel that is not there", map[string]any{"channel": "#elsewhere", "title": "x"}, "400 invalid-target"),
					steps(t, s, token, "a channel that the caller is not in", map[string]any{"channel": channelOfStage, "title": "x"}, "403 policy-denied"),
					steps(t, s, token, "signed for another channel", map[string]any{"document": documentOf(t, elsewhere, alice), "signature": elsewhere.tags["+freeq.at/sig"]}, "403 policy-denied"),
					s.rest(t, "a handoff that is not there", posting("handoffs/01K0A3V9M7Q2X5R8T1W4Y6Z0AB/accept", token, nil), "404 unknown-handoff"),
					steps(t, s, token, "to a name of nobody", map[string]any{"to": "scout_77", "title": "x"}, "404 unknown-name"),
				}
			},
			lieForgedOrigin: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				alice := newParty(t)
				token := s.restLogin(t, alice)
				var all []attempt
				for _, step := range (scene{federation.HandoffTags, alice, newParty(t), taggedStep{}, federation.DID(s.scout.DID)}).forHomes(t) {
					changes := maps.Clone(step.step.fields)
					for name := range offerFields(federation.HandoffTags, alice, "", "", "") {
						delete(changes, name)
					}
					all = append(all, steps(t, s, token, step.name, s.signedOffer(t, alice, changes), "400 invalid-tag"))
				}
				return all
			},
			lieInvisible: restShown,
			lieBadToken: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token := s.restLogin(t, newParty(t))
				all := s.withBadTokens(t, s.public(), posting("/api/v1/handoffs", token, s.toScout()), "401 unauthorized", "401 unauthorized")
				return append(all, s.withBadTokens(t, s.public(), getting("/api/v1/actions", token), "401 unauthorized", "401 unauthorized")...)
			},
		},
	}
}

// restOthers acts for other parties.
func restOthers(t *testing.T, s *stage) []attempt {
	t.Helper()
	alice, mallory := newParty(t), newParty(t)
	status, body := s.restProof(t, alice, mallory)
	var said struct{ Code string }
	_ = json.Unmarshal(body, &said)
	all := []attempt{{"a login with the signature of another key", fmt.Sprint(status, " ", said.Code), "401 unauthorized"}}
	token := s.restLogin(t, mallory)
	id := s.restOffer(t, s.restLogin(t, alice), s.toScout())
	for _, verb := range []string{"accept", "decline", "cancel", "complete", "fail", "progress"} {
		all = append(all, s.rest(t, "a handoff of other parties", posting("handoffs/"+id+"/"+verb, token, map[string]any{}), "404 unknown-handoff"))
	}
	for _, verb := range []string{"offer", "expire", "confirm"} {
		all = append(all, s.rest(t, "a verb of the home", posting("handoffs/"+id+"/"+verb, token, map[string]any{}), "400 unknown-verb"))
	}
	return append(
		all,
		s.rest(t, "the log of other parties", getting("handoffs/"+id, token), "404 unknown-handoff"),
		s.rest(t, "the passport of other parties", getting("handoffs/"+id+"/passport", token), "404 unknown-handoff"),
		s.rest(t, "the actions of other parties", getting("actions/"+id, token), "404 unknown-handoff"),
		s.rest(t, "the profile of another party", httpRequest{method: http.MethodPut, path: "agents/" + string(alice.did), token: token, body: map[string]any{"caps": []string{"x"}}}, "403 forbidden"),
	)
}

// restShown offers titles with control characters, and reads the titles that other agents see.
func restShown(t *testing.T, s *stage) []attempt {
	t.Helper()
	token := s.restLogin(t, newParty(t))
	var all []attempt
	for name, title := range map[string]string{"an escape sequence": "\x1b[2Jclean", "a newline": "one\ntwo"} {
		id := s.restOffer(t, token, map[string]any{"to": s.scout.DID, "title": title})
		var filed struct{ Title string }
		if _, text := s.exchange(t, s.public(), getting("/api/v1/handoffs/"+id, token)); json.Unmarshal(text, &filed) != nil || filed.Title == "" {
			t.Fatalf("%s: the handoff is answered %s", name, text)
		}
		answer := "clean"
		if hidden(filed.Title) {
			answer = fmt.Sprintf("%q", filed.Title)
		}
		all = append(all, attempt{name, answer, "clean"})
	}
	return all
}

// restPaths uses paths as ids, verbs and DIDs.
func restPaths(t *testing.T, s *stage) []attempt {
	t.Helper()
	token := s.restLogin(t, newParty(t))
	const dots = "../../../operator/v1/handoffs"
	escaped := url.PathEscape(dots)
	id := s.restOffer(t, token, s.toScout())
	return []attempt{
		s.rest(t, "a handoff", getting("handoffs/"+escaped, token), "400 usage"),
		s.rest(t, "a passport", getting("handoffs/"+escaped+"/passport", token), "400 usage"),
		s.rest(t, "a verb", posting("handoffs/"+id+"/"+url.PathEscape("../../x"), token, map[string]any{}), "400 usage"),
		s.rest(t, "an action", getting("actions/"+escaped, token), "400 usage"),
		s.rest(t, "an agent", getting("agents/"+escaped, token), "400 usage"),
		s.rest(t, "a DID with dots", posting("auth/challenge", "", map[string]any{"did": "did:web:../../etc"}), "400 usage"),
		s.rest(t, "a DID with escaped dots", posting("auth/challenge", "", map[string]any{"did": "did:web:%2e%2e%2fetc"}), "400 usage"),
		s.rest(t, "a recipient with dots", posting("handoffs", token, map[string]any{"to": "did:web:../../etc", "title": "x"}), "400 invalid-target"),
		s.rest(t, "an event", posting("handoffs", token, map[string]any{"id": dots, "to": s.scout.DID, "title": "x"}), "400 usage"),
	}
}
