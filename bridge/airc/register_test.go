package airc_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func TestRegisterReturnsTheKeptDID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.stranger("scout_7", 0x01)
	status, challenge, err := a.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": "scout_7"})
	if err != nil || status != http.StatusOK {
		t.Fatal(status, challenge, err)
	}
	if left := time.Until(time.Unix(int64(challenge["expiresAt"].(float64)), 0)); left < 298*time.Second || left > 300*time.Second {
		t.Errorf("the challenge is good for %v", left)
	}
	status, answer, err := a.Call(t.Context(), http.MethodPost, "/register", a.Registration(challenge["challenge"].(string)))
	if err != nil || status != http.StatusCreated {
		t.Fatal(status, answer, err)
	}
	if diff := cmp.Diff(map[string]any{
		"handle": "scout_7", "domain": "gw.example", "kid": "k_34750f98bd59fcfc",
		"did": "did:key:z6Mkg49NtQR2LyYRDCQFK4w1VVHqhypZSSRo7HsyuN7SV7v5",
	}, answer, cmpopts.IgnoreMapEntries(func(k string, _ any) bool {
		return k == "accessToken" || k == "refreshToken" || k == "expiresAt"
	})); diff != "" {
		t.Error(diff)
	}
	for _, token := range []string{"accessToken", "refreshToken"} {
		if strings.Count(answer[token].(string), ".") != 2 {
			t.Errorf("%s is %q", token, answer[token])
		}
	}
	if left := time.Until(time.Unix(int64(answer["expiresAt"].(float64)), 0)); left < 898*time.Second || left > 900*time.Second {
		t.Errorf("the token is good for %v", left)
	}
}

func TestRegisterRefusesWithCodes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body   func(w *world, a *bridgetest.Agent, challenge string) map[string]any
		status int
		code   string
	}{
		"a taken handle": {func(w *world, a *bridgetest.Agent, c string) map[string]any {
			if err := a.Register(t.Context()); err != nil {
				t.Error(err)
			}
			return w.stranger("scout_7", 0x02).Registration(c)
		}, 409, "handle_taken"},
		"a signature by another key": {func(w *world, a *bridgetest.Agent, c string) map[string]any {
			body := w.stranger("scout_7", 0x02).Registration(c)
			body["publicKey"] = a.Registration(c)["publicKey"]
			return body
		}, 401, "challenge_invalid"},
		"a signature that is no base64url": {func(_ *world, a *bridgetest.Agent, c string) map[string]any {
			body := a.Registration(c)
			body["challengeSignature"] = "no!"
			return body
		}, 401, "challenge_invalid"},
		"a challenge of one's own": {func(_ *world, a *bridgetest.Agent, _ string) map[string]any {
			return a.Registration("mJ2s0bq1Yk0mZV3s7uQ2v9w4x5y6z7A8B9C0D1E2F3G")
		}, 401, "challenge_invalid"},
		"a challenge for another handle": {func(w *world, _ *bridgetest.Agent, c string) map[string]any {
			return w.stranger("mallory", 0x09).Registration(c)
		}, 401, "challenge_invalid"},
		"a public key with padding": {func(_ *world, a *bridgetest.Agent, c string) map[string]any {
			body := a.Registration(c)
			body["publicKey"] = body["publicKey"].(string) + "="
			return body
		}, 400, "bad_request"},
		"a public key of 31 bytes": {func(_ *world, a *bridgetest.Agent, c string) map[string]any {
			body := a.Registration(c)
			body["publicKey"] = strings.Repeat("A", 42)
			return body
		}, 400, "bad_request"},
		"no challenge": {func(_ *world, a *bridgetest.Agent, _ string) map[string]any {
			body := a.Registration("")
			delete(body, "challenge")
			return body
		}, 400, "bad_request"},
		"capabilities of the wrong type": {func(_ *world, a *bridgetest.Agent, c string) map[string]any {
			a.Capabilities = map[string]any{"maxPayloadSize": "big"}
			return a.Registration(c)
		}, 400, "bad_request"},
		"metadata that is no object": {func(_ *world, a *bridgetest.Agent, c string) map[string]any {
			a.Metadata = "me"
			return a.Registration(c)
		}, 400, "bad_request"},
		"a profile of 20 kB": {func(_ *world, a *bridgetest.Agent, c string) map[string]any {
			a.Metadata = map[string]any{"bio": strings.Repeat("x", 20000)}
			return a.Registration(c)
		}, 413, "payload_too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.stranger("scout_7", 0x01)
			_, challenge, err := a.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": "scout_7"})
			if err != nil {
				t.Fatal(err)
			}
			status, answer, err := a.Call(t.Context(), http.MethodPost, "/register", test.body(w, a, challenge["challenge"].(string)))
			if err != nil || status != test.status || answer["error"] != test.code || answer["message"] == "" {
				t.Errorf("answered %d %v %v, want %d %s", status, answer, err, test.status, test.code)
			}
			if w.refusals(test.code) != 1 || w.lines("request refused") != 1 {
				t.Errorf("counted %v, logged %s", w.refusals(test.code), w.log)
			}
		})
	}
}

func TestRegisterRefusesReservedHandles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, keyless := w.agent(t, "scout_7", 0x01), w.stranger("keyless", 0x02)
	w.offer(t, alice, scout.DID)
	if got := told(keyless.Call(t.Context(), http.MethodPost, "/api/presence", map[string]any{"action": "register", "username": "keyless"})); got != "201" {
		t.Fatalf("register without a key: %s", got)
	}
	for handle, want := range map[string]string{
		"ab": "invalid_handle", strings.Repeat("a", 33): "invalid_handle", "Scout": "invalid_handle", "a-b-c": "invalid_handle",
		"plc_ewvi7nxzyoun6zhxrhs64oiz": "invalid_handle", "web_": "invalid_handle", "key_x": "invalid_handle",
		"system": "invalid_handle", "anyone": "invalid_handle", "inbox": "invalid_handle",
		"keyless": "handle_taken", wire.Alias(alice.DID, "alice"): "invalid_handle",
	} {
		status, answer, err := scout.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": handle})
		if err != nil || answer["error"] != want || status != map[string]int{"invalid_handle": 422, "handle_taken": 409}[want] {
			t.Errorf("%q: answered %d %v %v, want %s", handle, status, answer, err, want)
		}
	}
}

func TestChallengeIsValidOnceForFiveMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.stranger("scout_7", 0x01)
		ask := func() string {
			_, answer, err := a.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": "scout_7"})
			if err != nil {
				t.Fatal(err)
			}
			return answer["challenge"].(string)
		}
		register := func(body map[string]any) any {
			_, answer, err := a.Call(t.Context(), http.MethodPost, "/register", body)
			if err != nil {
				t.Fatal(err)
			}
			return answer["error"]
		}
		challenge := ask()
		time.Sleep(301 * time.Second)
		if code := register(a.Registration(challenge)); code != "challenge_expired" {
			t.Errorf("after 301 s: %v", code)
		}
		challenge = ask()
		wrong := a.Registration(challenge)
		wrong["challengeSignature"] = a.Registration("x")["challengeSignature"]
		if code := register(wrong); code != "challenge_invalid" {
			t.Errorf("wrongly signed: %v", code)
		}
		if code := register(a.Registration(challenge)); code != "challenge_invalid" {
			t.Errorf("used before: %v", code)
		}
		challenge = ask()
		time.Sleep(300 * time.Second)
		if code := register(a.Registration(challenge)); code != nil {
			t.Errorf("after 300 s: %v", code)
		}
	})
}

func TestTokensAuthenticate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent(t, "scout_7", 0x01)
		call := func(w *world, token string) any {
			a.Token, a.Transport = token, w
			_, answer, err := a.Call(t.Context(), http.MethodGet, "/messages/inbox", nil)
			if err != nil {
				t.Fatal(err)
			}
			return answer["error"]
		}
		good := a.Token
		restarted := newWorld(t, func(_ *airc.Config, d *airc.Deps) { d.Record = storetest.Bound(w.record) })
		if code := call(restarted, good); code != nil {
			t.Errorf("after a restart: %v", code)
		}
		for name, token := range map[string]string{
			"none": "", "no token": "x", "another signature": good[:len(good)-4] + "AAAA", "no algorithm": "eyJhbGciOiJub25lIn0.e30.",
		} {
			if code := call(w, token); code != "unauthorized" {
				t.Errorf("%s: %v", name, code)
			}
		}
		otherKey := newWorld(t, func(_ *airc.Config, d *airc.Deps) { d.Record, d.TokenKey = storetest.Bound(w.record), seed(0x78) })
		if code := call(otherKey, good); code != "unauthorized" {
			t.Errorf("of another key: %v", code)
		}
		otherDomain := newWorld(t, func(c *airc.Config, d *airc.Deps) { d.Record, c.Domain = storetest.Bound(w.record), "other.example" })
		if code := call(otherDomain, good); code != "unauthorized" {
			t.Errorf("of another domain: %v", code)
		}
		if code := call(newWorld(t), good); code != "unauthorized" {
			t.Errorf("of an agent that is gone: %v", code)
		}
		time.Sleep(899 * time.Second)
		if code := call(w, good); code != nil {
			t.Errorf("after 899 s: %v", code)
		}
		time.Sleep(2 * time.Second)
		if code := call(w, good); code != "token_expired" {
			t.Errorf("after 901 s: %v", code)
		}
	})
}

func TestRefreshTokenIsNoAccessToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.stranger("scout_7", 0x01)
	_, challenge, err := a.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": "scout_7"})
	if err != nil {
		t.Fatal(err)
	}
	_, answer, err := a.Call(t.Context(), http.MethodPost, "/register", a.Registration(challenge["challenge"].(string)))
	if err != nil {
		t.Fatal(err)
	}
	a.Token = answer["refreshToken"].(string)
	if status, answer, err := a.Call(t.Context(), http.MethodGet, "/messages/inbox", nil); err != nil || status != 401 || answer["error"] != "unauthorized" {
		t.Error(status, answer, err)
	}
}

// spec: airc-shapes "Sessions and proofs"
func TestRegisterRefusesAliases(t *testing.T) {
	t.Parallel()
	unmet := wire.Alias(alice.DID, "alice")
	doors := map[string]func(t *testing.T, w *world, handle string) string{
		"/register/challenge": func(t *testing.T, w *world, handle string) string {
			t.Helper()
			return told(w.stranger(handle, 0x09).Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": handle}))
		},
	}
	for _, path := range []string{"/api/presence", "/api/users", "/api/identity"} {
		doors[path] = func(t *testing.T, w *world, handle string) string {
			t.Helper()
			status, answer := (&client{world: w}).call(t, http.MethodPost, path, map[string]any{"action": "register", "username": handle})
			return told(status, answer, nil)
		}
	}
	for name, test := range map[string]struct{ handle, want string }{
		"the alias of a DID that is met later":     {unmet, "422 invalid_handle"},
		"that alias after another name":            {wire.Alias(alice.DID, "bob"), "422 invalid_handle"},
		"ten letters of base32":                    {"scout_researcher", "422 invalid_handle"},
		"ten letters of base32 after nothing else": {"_abcdefgh27", "422 invalid_handle"},
		"nine letters":                             {"scout_engineers", ""},
		"eleven letters":                           {"scout_researchers", ""},
		"ten letters that base32 does not have":    {"scout_abcdefgh01", ""},
		"ten letters without a mark":               {"abcdefgh27", ""},
	} {
		for door, register := range doors {
			w := newWorld(t)
			want := test.want
			if want == "" {
				want = map[bool]string{true: "200", false: "201"}[door == "/register/challenge"]
			}
			if got := register(t, w, test.handle); got != want {
				t.Errorf("%s at %s: %s, want %s", name, door, got, want)
			}
		}
	}
}

// An agent may have registered the alias before aliases were reserved.
func TestFindPrefersDIDToAgentWithItsAlias(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	kept := signingKey(0x44)
	squatter := agents.Agent{Handle: wire.Alias(alice.DID, "alice"), DID: kept.DID, OwnDID: kept.DID, KeptKey: kept.Public, Registered: time.Now()}
	if err := w.record.AddAgent(t.Context(), squatter); err != nil {
		t.Fatal(err)
	}
	w.offer(t, alice, scout.DID)
	_, answer, err := scout.Call(t.Context(), http.MethodGet, "/identity/"+squatter.Handle, nil)
	if err != nil || answer["did"] != string(alice.DID) || answer["handle"] != wire.Handle(alice.DID) {
		t.Errorf("the alias leads to %v, %v", answer, err)
	}
	if got := told(scout.Send(t.Context(), squatter.Handle, "please", request("Cite three sources"))); got != "201" {
		t.Fatal(got)
	}
	if got, _, err := w.record.Inbox(t.Context(), squatter.Handle, "", 10); err != nil || len(got) != 0 {
		t.Errorf("the agent that registered it has %d messages, %v", len(got), err)
	}
}

func TestRegisterReadmitsAgentWithHandleLikeAnAlias(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kept, own := signingKey(0x44), signingKey(0x09)
	former := agents.Agent{
		Handle: "scout_researcher", DID: kept.DID, OwnDID: own.DID, KeptKey: kept.Public, Registered: time.Now(),
		Keys: []agents.Key{{ID: signing.AgentKeyID(own.Public), DID: own.DID, Public: own.Public, Created: time.Now()}},
	}
	if err := w.record.AddAgent(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	a := w.stranger("scout_researcher", 0x09)
	if got := told(a.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": a.Handle})); got != "200" {
		t.Errorf("a challenge for a handle of before: %s", got)
	}
}
