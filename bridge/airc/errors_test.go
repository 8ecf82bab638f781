package airc_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// reply is a client's view of an answer.
type reply struct {
	status int
	answer map[string]any
	err    error
}

func answered(status int, answer map[string]any, err error) reply { return reply{status, answer, err} }

// visit is an agent at a registry.
type visit struct {
	*world

	t     *testing.T
	scout *bridgetest.Agent
}

// send sends a message with one change.
func (v visit) send(to string, change func(e map[string]any)) reply {
	v.t.Helper()
	e := v.scout.Envelope(to, "hello", nil)
	change(e)
	text, err := v.scout.Sign(e)
	if err != nil {
		v.t.Fatal(err)
	}
	return answered(v.scout.Post(v.t.Context(), text))
}

// challenge asks for a challenge for a handle.
func (v visit) challenge(handle string) (reply, string) {
	v.t.Helper()
	r := answered(v.scout.Call(v.t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": handle}))
	text, _ := r.answer["challenge"].(string)
	return r, text
}

// register answers a challenge.
func (v visit) register(handle, challenge string) reply {
	v.t.Helper()
	return answered(v.scout.Call(v.t.Context(), http.MethodPost, "/register", v.stranger(handle, 7).Registration(challenge)))
}

// The rows of the specification, except consent_pending: this registry holds a message that
// waits for consent, and does not refuse it.
//
// spec: airc-v0.1.1 §11.5
func TestErrorsOfTheSpecificationOccur(t *testing.T) {
	t.Parallel()
	asIs := func(map[string]any) {}
	for _, test := range []struct {
		status int
		code   string
		cause  func(v visit) reply
	}{
		{400, "bad_request", func(v visit) reply {
			return v.send("planner", func(e map[string]any) { e["v"] = "0.2" })
		}},
		{401, "unauthorized", func(v visit) reply {
			v.scout.Token = ""
			return v.send("planner", asIs)
		}},
		{401, "invalid_signature", func(v visit) reply {
			v.scout.Key = bridgetest.NewAgent("", "x", seed(9)).Key
			return v.send("planner", asIs)
		}},
		{401, "invalid_timestamp", func(v visit) reply {
			return v.send("planner", func(e map[string]any) { e["timestamp"] = time.Now().Add(-301 * time.Second).Unix() })
		}},
		{401, "key_revoked", func(v visit) reply {
			_, _, _ = v.scout.Call(v.t.Context(), http.MethodPost, "/identity/revoke",
				signedBody(v.t, v.scout.Key, map[string]any{"kid": v.scout.KeyID, "reason": "lost"}))
			return v.send("planner", asIs)
		}},
		{401, "key_expired", func(v visit) reply {
			key, public := newKey(0x0a)
			_, _, _ = v.scout.Call(v.t.Context(), http.MethodPost, "/identity/rotate", signedBody(v.t, v.scout.Key, map[string]any{
				"newPublicKey": public, "newKid": "short", "keyExpiresAt": time.Now().Add(time.Minute).Unix(),
			}))
			v.scout.Key, v.scout.KeyID = key, "short"
			time.Sleep(time.Minute)
			return v.send("planner", asIs)
		}},
		{401, "challenge_invalid", func(v visit) reply {
			_, text := v.challenge("other")
			return v.register("new", text)
		}},
		{401, "challenge_expired", func(v visit) reply {
			_, text := v.challenge("new")
			time.Sleep(301 * time.Second)
			return v.register("new", text)
		}},
		{401, "token_expired", func(v visit) reply {
			time.Sleep(901 * time.Second)
			return v.send("planner", asIs)
		}},
		{403, "consent_blocked", func(v visit) reply {
			return v.send("hermit", asIs)
		}},
		{403, "audience_mismatch", func(v visit) reply {
			return v.send("planner", func(e map[string]any) { e["aud"] = "other.example" })
		}},
		{404, "identity_not_found", func(v visit) reply {
			return answered(v.scout.Identity(v.t.Context(), "nobody"))
		}},
		{409, "handle_taken", func(v visit) reply {
			_, challenge := v.challenge("planner")
			return v.register("planner", challenge)
		}},
		{409, "duplicate_message", func(v visit) reply {
			same := func(e map[string]any) { e["id"] = "0123456789abcdef" }
			v.send("planner", same)
			return v.send("planner", same)
		}},
		{413, "payload_too_large", func(v visit) reply {
			return v.send("planner", func(e map[string]any) { e["payload"] = map[string]any{"type": "x:y", "x": string(make([]byte, 1000))} })
		}},
		{422, "invalid_handle", func(v visit) reply {
			r, _ := v.challenge("No")
			return r
		}},
		{429, "rate_limited", func(v visit) reply {
			v.rates.limit = 1
			v.send("planner", asIs)
			return v.send("planner", asIs)
		}},
		{429, "recipient_over_capacity", func(v visit) reply {
			v.gateway.home.Limits.Inbox.Events = 1
			offer := func(e map[string]any) { e["payload"] = request("x") }
			v.send("planner", offer)
			return v.send("planner", offer)
		}},
	} {
		t.Run(test.code, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.MaxPayloadBytes = 500 })
				scout, hermit := w.agent(t, "scout_7", 0x01), w.agent(t, "hermit", 0x05)
				w.agent(t, "planner", 0x04)
				if _, _, err := hermit.Consent(t.Context(), "scout_7", "block"); err != nil {
					t.Fatal(err)
				}
				got := test.cause(visit{w, t, scout})
				message, _ := got.answer["message"].(string)
				if got.err != nil || got.status != test.status || got.answer["error"] != test.code || message == "" {
					t.Errorf("answered %+v, want %d %s", got, test.status, test.code)
				}
			})
		})
	}
}
