package main_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"
)

// relayID returns an id that no relay had before.
func relayID() string { return "msg_own_" + nextNick() + "_0123456789" }

// relays posts relays of own.test, which the gateway knows, with members changed before its
// signature.
func (s *stage) relays(t *testing.T, name string, changes map[string]any, want string) attempt {
	t.Helper()
	return s.airc(t, name, posting("/federation/relay", "", s.relayTo(t, changes)), want)
}

func (s *stage) relayTo(t *testing.T, changes map[string]any) []byte {
	t.Helper()
	all := map[string]any{"to_address": "@scout_7@gw.test", "message_id": relayID()}
	maps.Copy(all, changes)
	return s.registry.relay(t, all)
}

func (s *stage) relays202(t *testing.T) {
	t.Helper()
	if a := s.relays(t, "an honest relay", nil, "202"); a.answer != a.want {
		t.Fatalf("an honest relay is answered %q", a.answer)
	}
}

// relayEntrance is the entrance for messages of other registries.
func relayEntrance() entrance {
	return entrance{
		name: "AIRC relay",
		never: map[lie]string{
			lieBadToken:    "registries sign what they send and show no token",
			lieForeignHost: "any page may call the public listener", lieConnect: "the same HTTP listener as AIRC D1", lieSlow: "the same HTTP listener as AIRC D1",
			lieInvisible: "a relayed message is no step to people of a network before its recipient answers it",
		},
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			s.relays202(t)
		},
		tries: map[lie]func(*testing.T, *stage) []attempt{
			lieWeakKey:       relayWeakKeys,
			lieOtherIdentity: relayOthers,
			lieReplayed: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				id := relayID()
				first := s.relayTo(t, map[string]any{"message_id": id})
				all := []attempt{s.airc(t, "the first time", posting("/federation/relay", "", first), "202")}
				return append(all, s.relays(t, "other bytes under the same id", map[string]any{"message_id": id, "body": "other words"}, "409 duplicate_message"))
			},
			lieTampered: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				var all []attempt
				for name, changes := range map[string]map[string]any{
					"another body": {"body": "pay"}, "another recipient": {"to": "amy_1", "to_address": "@amy_1@gw.test"}, "a member added": {"x": 1},
					"a signature of zero": {"origin_registry_signature": "ed25519:" + base64.StdEncoding.EncodeToString(make([]byte, 64))},
				} {
					body := changedMessage(t, s.relayTo(t, nil), changes)
					all = append(all, s.airc(t, name, posting("/federation/relay", "", body), "400 INVALID_REGISTRY_SIGNATURE"))
				}
				return all
			},
			lieDoubled: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				members := changedMessage(t, s.relayTo(t, nil), nil)
				return []attempt{
					s.airc(t, "two bodies", posting("/federation/relay", "", twice(t, members, "body", "pay")), "400 bad_request"),
					s.airc(t, "two origins", posting("/federation/relay", "", twice(t, members, "origin_registry", "other.test")), "400 bad_request"),
				}
			},
			lieMisshapen: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return s.misshapes(t, s.public(), "/federation/relay", "", "400 bad_request", "413 payload_too_large")
			},
			lieOversize: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				large := map[string]any{"type": "x", "data": map[string]any{"x": strings.Repeat("x", 70_000)}}
				return []attempt{s.relays(t, "a payload of 70 kB", map[string]any{"payload": large}, "413 payload_too_large")}
			},
			lieTraversal: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				var all []attempt
				for name, changes := range map[string]map[string]any{
					"a sender with dots":    {"from_address": "@../../x@own.test"},
					"a recipient with dots": {"to": "../../x", "to_address": "@../../x@gw.test"},
					"an origin with a path": {"origin_registry": "own.test/../x", "from_address": "@amy_1@own.test/../x"},
					"an origin with a port": {"origin_registry": "own.test:1", "from_address": "@amy_1@own.test:1"},
					"an origin with a user": {"origin_registry": "x@own.test", "from_address": "@amy_1@x@own.test"},
				} {
					all = append(all, s.relays(t, name, changes, "400 bad_request"))
				}
				return all
			},
			lieMisaddressed: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return []attempt{
					s.relays(t, "for another registry", map[string]any{"to_address": "@scout_7@other.test"}, "403 audience_mismatch"),
					s.relays(t, "for no registry", map[string]any{"to_address": "scout_7"}, "403 audience_mismatch"),
					s.relays(t, "an agent that is not there", map[string]any{"to": "nobody_here", "to_address": "@nobody_here@gw.test"}, "404 REMOTE_IDENTITY_NOT_FOUND"),
					s.relays(t, "an hour ago", map[string]any{"timestamp": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}, "401 invalid_timestamp"),
					s.relays(t, "an envelope to another agent", withEnvelope(t, map[string]any{"to": "amy_1"}), "400 bad_request"),
					s.relays(t, "an envelope for another registry", withEnvelope(t, map[string]any{"aud": "other.test"}), "400 bad_request"),
					s.relays(t, "an envelope of another body", withEnvelope(t, map[string]any{"body": "pay"}), "400 bad_request"),
				}
			},
			lieForgedOrigin: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return []attempt{
					s.relays(t, "of an agent of another registry", map[string]any{"from_address": "@amy_1@other.test"}, "400 bad_request"),
					s.relays(t, "of this registry", map[string]any{"origin_registry": "gw.test", "from_address": "@amy_1@gw.test"}, "403 FEDERATION_BLOCKED"),
				}
			},
		},
	}
}

// withEnvelope returns the members of a relay with an envelope of its agent. Some members
// of the envelope differ from the same members of the relay.
func withEnvelope(t *testing.T, changes map[string]any) map[string]any {
	t.Helper()
	envelope := map[string]any{
		"v": "0.1", "id": relayID(), "kid": "k_0123456789abcdef", "aud": "own.test", "from": "amy_1", "to": "scout_7@gw.test",
		"timestamp": time.Now().Unix(), "body": "hello",
	}
	maps.Copy(envelope, changes)
	text, err := json.Marshal(envelope)
	if err == nil {
		text, err = jcs.Transform(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	envelope["signature"] = base64.RawURLEncoding.EncodeToString(newParty(t).sign(text))
	return map[string]any{"envelope": envelope}
}

// relayWeakKeys signs as registries with weak keys. The gateway reads the key of each
// registry from its well-known document.
func relayWeakKeys(t *testing.T, s *stage) []attempt {
	t.Helper()
	var all []attempt
	for _, weak := range weakParties(t) {
		var body []byte
		for range 500 {
			unsigned := changedMessage(t, s.relayTo(t, nil), map[string]any{"message_id": relayID()})
			delete(unsigned, "origin_registry_signature")
			text, err := json.Marshal(unsigned)
			if err != nil {
				t.Fatal(err)
			}
			if !weak.signs(text) {
				continue
			}
			unsigned["origin_registry_signature"] = "ed25519:" + base64.StdEncoding.EncodeToString(weak.sign(text))
			if body, err = json.Marshal(unsigned); err != nil {
				t.Fatal(err)
			}
			break
		}
		all = append(all, s.airc(t, weak.String(), posting("/federation/relay", "", body), "400 INVALID_REGISTRY_SIGNATURE"))
	}
	return all
}

func relayOthers(t *testing.T, s *stage) []attempt {
	t.Helper()
	stranger := &liar{name: "stranger", key: newParty(t).secret}
	impostor := &liar{name: "own", key: newParty(t).secret}
	address := map[string]any{"to_address": "@scout_7@gw.test"}
	unsigned := changedMessage(t, s.relayTo(t, map[string]any{"message_id": relayID()}), nil)
	unsigned["origin_registry"], unsigned["from_address"] = "stranger.test", "@amy_1@stranger.test"
	delete(unsigned, "origin_registry_signature")
	return []attempt{
		s.airc(t, "a registry that is not allowed", posting("/federation/relay", "", stranger.relay(t, address)), "403 FEDERATION_BLOCKED"),
		s.airc(t, "an unsigned relay of one that is not allowed", posting("/federation/relay", "", unsigned), "403 FEDERATION_BLOCKED"),
		s.airc(t, "a registry that another one signs for", posting("/federation/relay", "", impostor.relay(t, address)), "400 INVALID_REGISTRY_SIGNATURE"),
	}
}

// federatedAIRC is the entrance for the decisions of other registries, dialect D2.
func federatedAIRC() entrance {
	decision := func(t *testing.T, s *stage, by *liar, changes map[string]any) map[string]any {
		t.Helper()
		m := map[string]any{
			"type": "request", "from": "@amy_1@own.test", "to": "@scout_7@gw.test", "to_address": "@scout_7@gw.test",
			"timestamp": time.Now().UTC().Format(time.RFC3339), "message_id": relayID(),
		}
		maps.Copy(m, changes)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		m["origin_registry_signature"] = "ed25519:" + base64.StdEncoding.EncodeToString(ed25519.Sign(by.key, text))
		return m
	}
	send := func(t *testing.T, s *stage, name string, body any, want string) attempt {
		t.Helper()
		return s.airc(t, name, posting("/federation/consent", "", body), want)
	}
	return entrance{
		name: "AIRC D2 consent",
		never: map[lie]string{
			lieWeakKey: "keys of registries: see AIRC relay", lieReplayed: "a decision that comes again changes nothing", lieBadToken: "registries show no token",
			lieForeignHost: "any page may call the public listener", lieConnect: "the same HTTP listener as AIRC D1", lieSlow: "the same HTTP listener as AIRC D1",
			lieForgedOrigin: "a decision is no step", lieInvisible: "people read no decision",
		},
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			if a := send(t, s, "an honest request", decision(t, s, s.registry, nil), "200"); a.answer != a.want {
				t.Errorf("an honest decision is answered %q", a.answer)
			}
		},
		tries: map[lie]func(*testing.T, *stage) []attempt{
			lieOtherIdentity: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				impostor := &liar{name: "own", key: newParty(t).secret}
				unsigned := decision(t, s, s.registry, nil)
				delete(unsigned, "origin_registry_signature")
				return []attempt{
					send(t, s, "signed by another", decision(t, s, impostor, nil), "400 INVALID_REGISTRY_SIGNATURE"),
					send(t, s, "not signed", unsigned, "400 INVALID_REGISTRY_SIGNATURE"),
					send(t, s, "of another registry", decision(t, s, s.registry, map[string]any{"from": "@amy_1@other.test"}), "403 FEDERATION_BLOCKED"),
				}
			},
			lieTampered: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				body := decision(t, s, s.registry, nil)
				body["type"] = "block"
				return []attempt{send(t, s, "another decision", body, "400 INVALID_REGISTRY_SIGNATURE")}
			},
			lieDoubled: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return []attempt{send(t, s, "two decisions", twice(t, decision(t, s, s.registry, nil), "type", "block"), "400 bad_request")}
			},
			lieMisshapen: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return s.misshapes(t, s.public(), "/federation/consent", "", "400 bad_request", "413 payload_too_large")
			},
			lieOversize: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				long := map[string]any{"from": "@" + strings.Repeat("a", 300) + "@own.test"}
				return []attempt{send(t, s, "a handle of 300 letters", decision(t, s, s.registry, long), "400 bad_request")}
			},
			lieTraversal: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return []attempt{
					send(t, s, "a sender with dots", decision(t, s, s.registry, map[string]any{"from": "@../x@own.test"}), "400 bad_request"),
					send(t, s, "a domain with a path", decision(t, s, s.registry, map[string]any{"from": "@amy_1@own.test/x"}), "400 bad_request"),
				}
			},
			lieMisaddressed: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return []attempt{
					send(t, s, "for another registry", decision(t, s, s.registry, map[string]any{"to": "@scout_7@other.test"}), "400 bad_request"),
					send(t, s, "signed for another registry", decision(t, s, s.registry, map[string]any{"to_address": "@scout_7@other.test"}), "403 audience_mismatch"),
					send(t, s, "an hour ago", decision(t, s, s.registry, map[string]any{"timestamp": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}), "401 invalid_timestamp"),
					send(t, s, "an agent that is not there", decision(t, s, s.registry, map[string]any{"to": "@nobody_here@gw.test", "to_address": "@nobody_here@gw.test"}), "404 REMOTE_IDENTITY_NOT_FOUND"),
				}
			},
		},
	}
}

// federatedLookups is the entrance for registries' questions about agents.
func federatedLookups() entrance {
	look := func(t *testing.T, s *stage, name, query, want string) attempt {
		t.Helper()
		return s.airc(t, name, getting("/federation/"+query, ""), want)
	}
	return entrance{
		name: "AIRC federated identity and presence",
		never: map[lie]string{
			lieWeakKey: "it takes no key", lieReplayed: "nothing is signed", lieTampered: "nothing is signed", lieDoubled: "it takes no body", lieMisshapen: "it takes no body",
			lieForgedOrigin: "it takes no step", lieInvisible: "people read nothing of it", lieBadToken: "it takes no token",
			lieForeignHost: "any page may call the public listener", lieConnect: "the same HTTP listener as AIRC D1", lieSlow: "the same HTTP listener as AIRC D1",
		},
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			if a := look(t, s, "", "identity?handle=scout_7", "200"); a.answer != a.want {
				t.Errorf("an honest question is answered %q", a.answer)
			}
		},
		tries: map[lie]func(*testing.T, *stage) []attempt{
			lieOtherIdentity: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return []attempt{look(t, s, "an agent that is not there", "identity?handle=nobody_here", "404 REMOTE_IDENTITY_NOT_FOUND")}
			},
			lieOversize: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return []attempt{look(t, s, "a handle of 10,000 letters", "identity?handle="+strings.Repeat("a", 10_000), "400 bad_request")}
			},
			lieMisaddressed: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return []attempt{
					look(t, s, "a registry that is not allowed", "identity?registry=stranger.test&handle=amy_1", "403 FEDERATION_BLOCKED"),
					look(t, s, "the presence of one that is not allowed", "presence?registry=stranger.test", "403 FEDERATION_BLOCKED"),
				}
			},
			lieTraversal: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				var all []attempt
				for _, path := range []string{"../../../api/presence", "..%2f..%2fapi%2fpresence", "..%252f..", "amy_1%3fx=1", "amy_1%23x", "amy_1%00", "%2e%2e", "amy_1%0d%0aHost:x"} {
					all = append(all, look(t, s, "handle "+path, "identity?registry=own.test&handle="+path, "400 bad_request"))
					all = append(all, look(t, s, "local handle "+path, "identity?handle="+path, "400 bad_request"))
				}
				for _, registry := range []string{"own.test/../x", "own.test%2fx", "x%40own.test", "own.test%3a22", "127.0.0.1", "%5b::1%5d", "localhost", "own.test%3fx"} {
					all = append(all, look(t, s, "registry "+registry, "identity?registry="+registry+"&handle=amy_1", "400 bad_request"))
				}
				return append(all, attempt{"paths that the gateway asked the registry for", fmt.Sprint(s.strays.Load()), "0"})
			},
		},
	}
}
