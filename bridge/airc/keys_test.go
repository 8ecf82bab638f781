package airc_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// newKey returns the key of a seed, as its agent has it and as it is written.
func newKey(b byte) (ed25519.PrivateKey, string) {
	key := ed25519.NewKeyFromSeed(seed(b))
	return key, base64.RawURLEncoding.EncodeToString(key[ed25519.PublicKeySize:])
}

// signedBody returns a request with the signature of a key over its canonical form.
func signedBody(t *testing.T, key ed25519.PrivateKey, body map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jcs.Transform(text)
	if err != nil {
		t.Fatal(err)
	}
	body["signature"] = base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, document))
	return body
}

// rotate gives an agent a new key on the word of the one that it has.
func rotate(t *testing.T, a *bridgetest.Agent, b byte, kid string) map[string]any {
	t.Helper()
	key, public := newKey(b)
	status, answer, err := a.Call(t.Context(), http.MethodPost, "/identity/rotate", map[string]any{
		"newPublicKey": public, "newKid": kid,
		"signature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(a.Key, []byte(public))),
	})
	if err != nil || status != http.StatusOK {
		t.Fatalf("rotate: %d %v %v", status, answer, err)
	}
	a.Key, a.KeyID = key, kid
	return answer
}

// told is the code of a refusal, or the status of a success.
func told(status int, answer map[string]any, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case status < http.StatusBadRequest:
		return fmt.Sprint(status)
	}
	return fmt.Sprint(status, " ", answer["error"])
}

// spec: airc-v0.1.1 §5.4
func TestRotatedKeyIsValidForADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scout := w.agent(t, "scout_7", 0x01)
		old := *scout
		answer := rotate(t, scout, 0x0a, "key_2026_02")
		previous, _ := answer["previous"].(map[string]any)
		ends := time.Now().Add(24 * time.Hour).Unix()
		if answer["kid"] != "key_2026_02" || answer["status"] != "active" || previous["kid"] != old.KeyID ||
			previous["status"] != "pending" || previous["revokedAt"] != float64(ends) {
			t.Errorf("answered %v", answer)
		}
		for _, a := range []*bridgetest.Agent{scout, &old} {
			if got := told(a.Send(t.Context(), "scout_7", "hi", nil)); got != "201" {
				t.Errorf("a message with %s: %s", a.KeyID, got)
			}
		}
		time.Sleep(24 * time.Hour)
		status, identity, err := scout.Identity(t.Context(), "scout_7")
		if err != nil || status != http.StatusOK {
			t.Fatal(status, identity, err)
		}
		var states []string
		for _, key := range identity["keys"].([]any) {
			states = append(states, key.(map[string]any)["kid"].(string)+" "+key.(map[string]any)["status"].(string))
		}
		_, public := newKey(0x0a)
		if want := fmt.Sprint([]string{old.KeyID + " revoked", "key_2026_02 active"}); fmt.Sprint(states) != want || identity["publicKey"] != public {
			t.Errorf("keys %v and publicKey %v, want %s", states, identity["publicKey"], want)
		}
	})
}

func TestRevokedKeyIsJudgedAtReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	thief := *scout
	rotate(t, scout, 0x0a, "key_2")
	if err := scout.Register(t.Context()); err != nil { // the session of the first key ends with the key
		t.Fatal(err)
	}
	early := thief.Envelope("scout_7", "hi", nil)
	early["timestamp"] = time.Now().Add(-4 * time.Minute).Unix()
	message, err := thief.Sign(early)
	if err != nil {
		t.Fatal(err)
	}
	revocation := func() map[string]any {
		return signedBody(t, scout.Key, map[string]any{"kid": thief.KeyID, "reason": "compromised"})
	}
	for range 2 { // the second changes nothing
		if got := told(scout.Call(t.Context(), http.MethodPost, "/identity/revoke", revocation())); got != "200" {
			t.Errorf("revoke: %s", got)
		}
	}
	if got := told(thief.Post(t.Context(), message)); got != "401 key_revoked" {
		t.Errorf("a message with a time before the revocation: %s", got)
	}
	if got := told(scout.Send(t.Context(), "scout_7", "hi", nil)); got != "201" {
		t.Errorf("a message with the other key: %s", got)
	}
}

func TestRevokedLastKeyKeepsTheHandle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	last := signedBody(t, scout.Key, map[string]any{"kid": scout.KeyID, "reason": "retired"})
	if got := told(scout.Call(t.Context(), http.MethodPost, "/identity/revoke", last)); got != "200" {
		t.Fatalf("revoke: %s", got)
	}
	_, public := newKey(0x0a)
	rotation := map[string]any{"newPublicKey": public, "signature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(scout.Key, []byte(public)))}
	for name, test := range map[string]struct{ got, want string }{
		"a message":    {told(scout.Send(t.Context(), "scout_7", "hi", nil)), "401 key_revoked"},
		"a rotation":   {told(scout.Call(t.Context(), http.MethodPost, "/identity/rotate", rotation)), "401 key_revoked"},
		"a refresh":    {told(scout.Refresh(t.Context())), "401 unauthorized"},
		"the handle":   {told(w.stranger("scout_7", 0x0b).Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": "scout_7"})), "409 handle_taken"},
		"its identity": {told(scout.Identity(t.Context(), "scout_7")), "200"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %s, want %s", name, test.got, test.want)
		}
	}
}

func TestKeyChangeOfAnotherIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	before := *scout
	rotate(t, scout, 0x0a, "key_2")
	stranger, _ := newKey(0x0b)
	_, public := newKey(0x0c)
	_, own := newKey(0x0a)
	rotation := func(key ed25519.PrivateKey, changes map[string]any) map[string]any {
		body := map[string]any{"newPublicKey": public, "newKid": "key_3"}
		maps.Copy(body, changes)
		return signedBody(t, key, body)
	}
	for name, test := range map[string]struct {
		path string
		body map[string]any
		want string
	}{
		"a rotation by a stranger":             {"/identity/rotate", rotation(stranger, nil), "401 invalid_signature"},
		"a rotation by the key before":         {"/identity/rotate", rotation(before.Key, nil), "401 invalid_signature"},
		"a rotation to no key":                 {"/identity/rotate", rotation(scout.Key, map[string]any{"newPublicKey": "AAAA"}), "400 bad_request"},
		"a rotation to the key that it has":    {"/identity/rotate", rotation(scout.Key, map[string]any{"newPublicKey": own}), "400 bad_request"},
		"a rotation to a name that it has":     {"/identity/rotate", rotation(scout.Key, map[string]any{"newKid": "key_2"}), "400 bad_request"},
		"a rotation to a name of the registry": {"/identity/rotate", rotation(scout.Key, map[string]any{"newKid": "reg_1"}), "400 bad_request"},
		"a signature that is none":             {"/identity/rotate", map[string]any{"newPublicKey": public, "signature": "!"}, "401 invalid_signature"},
		"a revocation by a stranger":           {"/identity/revoke", signedBody(t, stranger, map[string]any{"kid": "key_2", "reason": "x"}), "401 invalid_signature"},
		"a revocation of nothing":              {"/identity/revoke", signedBody(t, scout.Key, map[string]any{"kid": "key_9", "reason": "x"}), "400 bad_request"},
		"a revocation without a reason":        {"/identity/revoke", signedBody(t, scout.Key, map[string]any{"kid": "key_2"}), "400 bad_request"},
	} {
		if got := told(scout.Call(t.Context(), http.MethodPost, test.path, test.body)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	canonical := rotation(scout.Key, nil)
	if got := told(scout.Call(t.Context(), http.MethodPost, "/identity/rotate", canonical)); got != "200" {
		t.Errorf("a rotation signed as a whole: %s", got)
	}
}

// A handoff offered to the key before stays the agent's.
func TestKeyChangeKeepsHandoffs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	own := signingKey(0x01).DID
	id := w.offer(t, alice, string(own))
	if got := told(scout.Consent(t.Context(), wire.Handle(alice.DID), "accept")); got != "200" {
		t.Fatal(got)
	}
	rotate(t, scout, 0x0a, "key_2")
	messages := inbox(t, scout)
	if got := told(scout.Send(t.Context(), wire.Handle(alice.DID), "on it", ack(messages[len(messages)-1].ID, "received"))); got != "201" {
		t.Errorf("accept with the new key: %s", got)
	}
	accept := w.steps(t, id)[1]
	if accept.Verb != federation.Accept || accept.Actor() != own {
		t.Errorf("filed %s for %s, want an accept for %s", accept.Verb, accept.Actor(), own)
	}
}
