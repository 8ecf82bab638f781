package main_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// A login with the DID of a key proves the key for its handle: a bare signature changes the keys of the handle in that
// session.
func TestLoginWithADIDProvesItsKey(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	h.ready(t)
	changes := map[string]func(agent *bridgetest.Agent) map[string]any{
		"rotate": func(*bridgetest.Agent) map[string]any {
			return map[string]any{"newPublicKey": newOwner(t).public(), "newKid": "key_2"}
		},
		"revoke": func(agent *bridgetest.Agent) map[string]any {
			return map[string]any{"kid": agent.KeyID, "reason": "x"}
		},
	}
	for way, login := range signIn() {
		for change, body := range changes {
			scout := newOwner(t)
			agent := scout.agent(h, strings.ReplaceAll(change+"_"+way, "_with_", "_"))
			if err := agent.RegisterBare(t.Context()); err != nil {
				t.Fatal(err)
			}
			unsigned := body(agent)
			unsigned["handle"] = agent.Handle
			signed := scout.sign(t, unsigned)
			if status, answer, err := agent.Call(t.Context(), http.MethodPost, "/identity/"+change, signed); status != http.StatusUnauthorized || err != nil {
				t.Errorf("%s in the session of a bare signature is answered %d %v, %v; want 401", change, status, answer, err)
			}
			status, c := login(t, h, scout)
			if status != http.StatusOK {
				t.Fatalf("%s: the login is answered %d", way, status)
			}
			agent.Token = c.token
			if status, answer, err := agent.Call(t.Context(), http.MethodPost, "/identity/"+change, signed); status != http.StatusOK || err != nil {
				t.Errorf("%s in a session of %s is answered %d %v, %v; want 200", change, way, status, answer, err)
			}
			checkAliases(t, agent, agent.Handle, scout, true)
		}
	}
}

// The challenge names the gateway and the purpose, and no other text is one.
func TestChallengeNamesTheGateway(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	o := newOwner(t)
	c := &caller{url: h.url()}
	var given struct{ Challenge string }
	c.must(t, http.StatusOK, http.MethodPost, "auth/challenge", map[string]any{"did": o.did}, &given)
	bare, ours := strings.CutPrefix(given.Challenge, "gw.test/login/")
	if !ours || len(bare) != 43 {
		t.Errorf("the challenge is %q", given.Challenge)
	}
	for _, text := range []string{bare, "other.test/login/" + bare, "gw.test/register/" + bare} {
		c.must(t, http.StatusUnauthorized, http.MethodPost, "auth/token", map[string]any{
			"did": o.did, "challenge": text, "signature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(o.private, []byte(text))),
		}, nil)
	}
}
