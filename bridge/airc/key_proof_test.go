package airc_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// alsoKnownAs returns the other DIDs of a handle, as its identity lists them.
func alsoKnownAs(t *testing.T, a *bridgetest.Agent, handle string) []string {
	t.Helper()
	status, identity, err := a.Identity(t.Context(), handle)
	if err != nil || status != http.StatusOK {
		t.Fatal(status, identity, err)
	}
	var dids []string
	for _, did := range identity["alsoKnownAs"].([]any) {
		dids = append(dids, did.(string))
	}
	return dids
}

// checkOwner checks that a DID is an agent's, or of no agent if handle is "".
func (w *world) checkOwner(t *testing.T, did federation.DID, handle string) {
	t.Helper()
	agent, err := w.record.AgentOf(t.Context(), did)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		t.Fatal(err)
	}
	if agent.Handle != handle {
		t.Errorf("%s is of %q, want %q", did.Short(), agent.Handle, handle)
	}
}

// withNewKeySignature returns a rotation that both keys sign.
func withNewKeySignature(t *testing.T, old, key ed25519.PrivateKey, public string) map[string]any {
	t.Helper()
	body := map[string]any{"newPublicKey": public, "newKid": "key_2"}
	proof := signedBody(t, key, map[string]any{"newPublicKey": public, "newKid": "key_2"})["signature"]
	signedBody(t, old, body)
	body["newKeySignature"] = proof
	return body
}

func TestNamedKeyRepresentsNoDID(t *testing.T) {
	t.Parallel()
	bob, public := newKey(0x0b)
	did := signingKey(0x0b).DID
	for name, take := range map[string]func(t *testing.T, w *world){
		"by a registration below /api": func(t *testing.T, w *world) {
			t.Helper()
			w.newcomer(t, "mallory", map[string]any{"publicKey": public})
		},
		"by a rotation": func(t *testing.T, w *world) {
			t.Helper()
			rotate(t, w.agent(t, "mallory", 0x0a), 0x0b, "key_2")
		},
		"by a rotation with another key's signature as the new one's": func(t *testing.T, w *world) {
			t.Helper()
			mallory := w.agent(t, "mallory", 0x0a)
			body := withNewKeySignature(t, mallory.Key, mallory.Key, public)
			if got := told(mallory.Call(t.Context(), http.MethodPost, "/identity/rotate", body)); got != "401 invalid_signature" {
				t.Errorf("rotate: %s", got)
			}
		},
		"by a rotation below /api": func(t *testing.T, w *world) {
			t.Helper()
			mallory := w.newcomer(t, "mallory", nil)
			if status, answer := mallory.call(t, http.MethodPost, "/api/identity/mallory/rotate", map[string]any{"publicKey": public}); status != http.StatusOK {
				t.Errorf("rotate: %d %v", status, answer)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			take(t, w)
			w.checkOwner(t, did, "")
			id := w.offer(t, alice, string(did))
			mallory := w.stranger("mallory", 0x0a)
			if known := alsoKnownAs(t, mallory, "mallory"); slices.Contains(known, string(did)) {
				t.Errorf("mallory is also known as %q", known)
			}
			messages, _, err := w.record.Inbox(t.Context(), "mallory", "", 10)
			if err != nil || len(messages) != 0 {
				t.Errorf("mallory has %d messages, %v", len(messages), err)
			}
			// Bob comes later, with his key.
			agent := bridgetest.NewAgent("https://gw.example", "bob_1", bob.Seed())
			agent.Transport = w
			if err := agent.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.checkOwner(t, did, "bob_1")
			if _, view := w.steps(t, id), w.verbs(t, id); view != "offer" {
				t.Errorf("the handoff went through %s", view)
			}
		})
	}
}

func TestProvenKeyBelongsToItsAgent(t *testing.T) {
	t.Parallel()
	key, public := newKey(0x0b)
	did := signingKey(0x0b).DID
	for name, prove := range map[string]func(t *testing.T, w *world, a *bridgetest.Agent){
		"by an envelope to this registry": func(t *testing.T, w *world, a *bridgetest.Agent) {
			t.Helper()
			rotate(t, a, 0x0b, "key_2")
			w.checkOwner(t, did, "")
			other := a.Envelope("scout_7", "hi", nil)
			other["aud"] = "peer.example"
			text, err := a.Sign(other)
			if err != nil {
				t.Fatal(err)
			}
			if got := told(a.Post(t.Context(), text)); got != "403 audience_mismatch" {
				t.Errorf("an envelope to another registry: %s", got)
			}
			w.checkOwner(t, did, "")
			if got := told(a.Send(t.Context(), "scout_7", "hi", nil)); got != "201" {
				t.Fatalf("send: %s", got)
			}
		},
		"by a rotation that it signs": func(t *testing.T, _ *world, a *bridgetest.Agent) {
			t.Helper()
			body := map[string]any{"newPublicKey": public, "newKid": "key_2"}
			for member, signer := range map[string]ed25519.PrivateKey{"newKeySignature": key, "signature": a.Key} {
				if err := a.Bind(body, "rotate", member, signer, "newPublicKey", "newKid"); err != nil {
					t.Fatal(err)
				}
			}
			if got := told(a.Call(t.Context(), http.MethodPost, "/identity/rotate", body)); got != "200" {
				t.Fatalf("rotate: %s", got)
			}
		},
		"by a challenge": func(t *testing.T, w *world, a *bridgetest.Agent) {
			t.Helper()
			rotate(t, a, 0x0b, "key_2")
			w.checkOwner(t, did, "")
			if err := a.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			scout := w.agent(t, "scout_7", 0x01)
			prove(t, w, scout)
			w.checkOwner(t, did, "scout_7")
			if known := alsoKnownAs(t, scout, "scout_7"); !slices.Contains(known, string(did)) {
				t.Errorf("scout_7 is also known as %q", known)
			}
			w.offer(t, alice, string(did))
			if messages := inbox(t, scout); len(messages) == 0 {
				t.Error("an offer to its DID does not reach the agent")
			}
		})
	}
}

func TestProvenDIDStaysWithItsFirstAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	did := signingKey(0x0b).DID
	w.agent(t, "bob_1", 0x0b)
	second := w.agent(t, "bob_2", 0x0b)
	w.checkOwner(t, did, "bob_1")
	if got := told(second.Send(t.Context(), "bob_2", "hi", nil)); got != "201" {
		t.Fatalf("send: %s", got)
	}
	w.checkOwner(t, did, "bob_1")
	revocation := signedBody(t, second.Key, map[string]any{"kid": second.KeyID, "reason": "x"})
	if got := told(second.Call(t.Context(), http.MethodPost, "/identity/revoke", revocation)); got != "200" {
		t.Fatalf("revoke: %s", got)
	}
	if revoked, err := w.revoked(t.Context(), did, federation.KeyID(signingKey(0x0b).Public), time.Now()); err != nil || revoked {
		t.Errorf("an agent without the DID ended its key: %v, %v", revoked, err)
	}
}

func TestProvenKeyReadmitsItsAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01, func(a *bridgetest.Agent) { a.Metadata = map[string]any{"bio": "first"} })
	before, err := w.record.Agent(t.Context(), "scout_7")
	if err != nil {
		t.Fatal(err)
	}
	refresh := scout.RefreshToken
	scout.Metadata, scout.Capabilities = map[string]any{"bio": "second"}, map[string]any{"skills": []string{"x"}}
	_, given, err := scout.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": "scout_7"})
	if err != nil {
		t.Fatal(err)
	}
	challenge, _ := given["challenge"].(string)
	registration, err := scout.BoundRegistration(challenge)
	if err != nil {
		t.Fatal(err)
	}
	status, answer, err := scout.Call(t.Context(), http.MethodPost, "/register", registration)
	if err != nil || status != http.StatusOK || answer["did"] != scout.DID || answer["kid"] != scout.KeyID || answer["refreshToken"] == refresh {
		t.Fatalf("register again: %d %v %v", status, answer, err)
	}
	after, err := w.record.Agent(t.Context(), "scout_7")
	if err != nil || string(after.Metadata) != string(before.Metadata) || len(after.Capabilities) != 0 || len(after.Keys) != 1 {
		t.Errorf("registering again changed the agent: %+v, %v", after, err)
	}
	scout.Token, _ = answer["accessToken"].(string)
	if got := told(scout.Send(t.Context(), "scout_7", "hi", nil)); got != "201" {
		t.Errorf("a message with the new token: %s", got)
	}
	scout.RefreshToken, _ = answer["refreshToken"].(string)
	if got := told(scout.Refresh(t.Context())); got != "200" {
		t.Errorf("a refresh: %s", got)
	}
	for name, tt := range map[string]struct {
		a    *bridgetest.Agent
		want string
	}{
		"another key": {w.stranger("scout_7", 0x02), "409 handle_taken"},
		"its key with a signature by another": {func() *bridgetest.Agent {
			thief := *scout
			thief.Key = ed25519.NewKeyFromSeed(seed(0x02))
			return &thief
		}(), "401 challenge_invalid"},
	} {
		_, given, _ := tt.a.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": "scout_7"})
		challenge, _ := given["challenge"].(string)
		body := tt.a.Registration(challenge)
		if tt.want[:3] == "401" {
			body["publicKey"] = base64.RawURLEncoding.EncodeToString(ed25519.NewKeyFromSeed(seed(0x01))[ed25519.PublicKeySize:])
		}
		if got := told(tt.a.Call(t.Context(), http.MethodPost, "/register", body)); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	rotate(t, scout, 0x0a, "key_2")
	old := w.stranger("scout_7", 0x01)
	_, given, _ = old.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": "scout_7"})
	challenge, _ = given["challenge"].(string)
	if got := told(old.Call(t.Context(), http.MethodPost, "/register", old.Registration(challenge))); got != "409 handle_taken" {
		t.Errorf("the key before: %s", got)
	}
}

func TestRevokedKeyRegistersNoOtherHandle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	revocation := signedBody(t, scout.Key, map[string]any{"kid": scout.KeyID, "reason": "stolen"})
	if got := told(scout.Call(t.Context(), http.MethodPost, "/identity/revoke", revocation)); got != "200" {
		t.Fatalf("revoke: %s", got)
	}
	thief := w.stranger("thief_1", 0x01)
	_, given, _ := thief.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": "thief_1"})
	challenge, _ := given["challenge"].(string)
	if got := told(thief.Call(t.Context(), http.MethodPost, "/register", thief.Registration(challenge))); got != "401 key_revoked" {
		t.Errorf("register: %s", got)
	}
}

func TestUnusableKeyHasItsOwnCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	identity := append([]byte{1}, make([]byte, 31)...)
	signed := slices.Clone(identity)
	signed[31] = 0x80
	for name, tt := range map[string]struct {
		raw  []byte
		want string
	}{
		"of order 1":          {identity, "422 invalid_public_key"},
		"of order 4":          {make([]byte, 32), "422 invalid_public_key"},
		"another encoding":    {signed, "422 invalid_public_key"},
		"no point":            {append([]byte{2}, make([]byte, 31)...), "422 invalid_public_key"},
		"of another length":   {make([]byte, 31), "400 bad_request"},
		"of twice the length": {make([]byte, 64), "400 bad_request"},
	} {
		public := base64.RawURLEncoding.EncodeToString(tt.raw)
		stranger := w.stranger("new_1", 0x0c)
		_, given, _ := stranger.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": "new_1"})
		challenge, _ := given["challenge"].(string)
		body := stranger.Registration(challenge)
		body["publicKey"] = public
		for what, got := range map[string]string{
			"register": told(stranger.Call(t.Context(), http.MethodPost, "/register", body)),
			"rotate":   told(scout.Call(t.Context(), http.MethodPost, "/identity/rotate", signedBody(t, scout.Key, map[string]any{"newPublicKey": public}))),
			"presence": told(stranger.Call(t.Context(), http.MethodPost, "/api/presence", map[string]any{"action": "register", "username": "new_2", "publicKey": public})),
		} {
			if got != tt.want {
				t.Errorf("%s with a key %s: %s, want %s", what, name, got, tt.want)
			}
		}
	}
}
