package main_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// owner is a party with a key of its own.
type owner struct {
	private ed25519.PrivateKey
	did     federation.DID
}

func newOwner(t *testing.T) owner {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return owner{private, identity.KeyDID(public)}
}

// public returns the public key as AIRC writes it.
func (o owner) public() string {
	return base64.RawURLEncoding.EncodeToString(o.private[ed25519.SeedSize:])
}

// agent returns an agent with the key, which is not registered.
func (o owner) agent(h *house, handle string) *bridgetest.Agent {
	return bridgetest.NewAgent(h.url(), handle, o.private.Seed())
}

// sign adds the signature over the canonical form of a document.
func (o owner) sign(t *testing.T, document map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = jcs.Transform(text); err != nil {
		t.Fatal(err)
	}
	document["signature"] = base64.RawURLEncoding.EncodeToString(ed25519.Sign(o.private, text))
	return document
}

// logIn proves the DID over REST.
func (o owner) logIn(t *testing.T, h *house) *caller {
	t.Helper()
	c := &caller{url: h.url(), did: o.did}
	var given struct{ Challenge string }
	c.must(t, http.StatusOK, http.MethodPost, "auth/challenge", map[string]any{"did": o.did}, &given)
	var tokens struct {
		Access string `json:"access_token"`
	}
	signature := base64.RawURLEncoding.EncodeToString(ed25519.Sign(o.private, []byte(given.Challenge)))
	c.must(t, http.StatusOK, http.MethodPost, "auth/token", map[string]any{"did": o.did, "challenge": given.Challenge, "signature": signature}, &tokens)
	c.token = tokens.Access
	return c
}

// calls sends a request as an agent, which is to be answered with a status.
func calls(t *testing.T, a *bridgetest.Agent, want int, method, path string, body any) map[string]any {
	t.Helper()
	status, answer, err := a.Call(t.Context(), method, path, body)
	if err != nil || status != want {
		t.Fatalf("%s %s is answered %d %v, %v; want %d", method, path, status, answer, err, want)
	}
	return answer
}

// names is the ways in which an agent names the key of another party for its handle. Each
// returns the agent, with a token.
func names() map[string]func(t *testing.T, h *house, handle string, victim owner) *bridgetest.Agent {
	below := func(t *testing.T, h *house, handle string, body map[string]any) *bridgetest.Agent {
		t.Helper()
		a := newOwner(t).agent(h, handle)
		body["action"], body["username"] = "register", handle
		a.Token, _ = calls(t, a, http.StatusCreated, http.MethodPost, "/api/presence", body)["token"].(string)
		return a
	}
	return map[string]func(t *testing.T, h *house, handle string, victim owner) *bridgetest.Agent{
		"presence": func(t *testing.T, h *house, handle string, victim owner) *bridgetest.Agent {
			t.Helper()
			return below(t, h, handle, map[string]any{"publicKey": victim.public()})
		},
		"api_rotate": func(t *testing.T, h *house, handle string, victim owner) *bridgetest.Agent {
			t.Helper()
			a := below(t, h, handle, map[string]any{})
			calls(t, a, http.StatusOK, http.MethodPost, "/api/identity/"+handle+"/rotate", map[string]any{"publicKey": victim.public()})
			return a
		},
		"rotate": func(t *testing.T, h *house, handle string, victim owner) *bridgetest.Agent {
			t.Helper()
			own := newOwner(t)
			a := own.agent(h, handle)
			if err := a.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			calls(t, a, http.StatusOK, http.MethodPost, "/identity/rotate", own.sign(t, map[string]any{"newPublicKey": victim.public(), "newKid": "key_2"}))
			return a
		},
	}
}

// An agent that names the key of another party gets nothing of its DID, whichever of the
// two comes first: neither offers to the DID, nor a step in its name.
func TestStolenKeyNameGivesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	h.ready(t)
	alice := newOwner(t)
	sender := alice.logIn(t, h)
	for way, name := range names() {
		for _, first := range []string{"bob", "mallory"} {
			handle := "mallory_" + way + "_" + first
			t.Run(way+" with "+first+" first", func(t *testing.T) {
				bob := newOwner(t)
				var victim *caller
				if first == "bob" {
					victim = bob.logIn(t, h)
				}
				mallory := name(t, h, handle, bob)
				checkAliases(t, mallory, handle, bob, false)
				id := sender.offer(t, map[string]any{"to": bob.did, "title": "For Bob alone", "context": map[string]any{"secret": "private"}})
				checkNothing(t, mallory, alice, id)
				if victim == nil {
					victim = bob.logIn(t, h)
				}
				entries := victim.reads(t, "")
				if len(entries) != 1 || entries[0].Step.HandoffID != id {
					t.Fatalf("bob reads %+v", entries)
				}
				victim.step(t, id, "accept", nil)
				victim.step(t, id, "complete", map[string]any{"note": "done"})
				var shown struct{ State, Assignee string }
				sender.must(t, http.StatusOK, http.MethodGet, "handoffs/"+id, nil, &shown)
				if shown.State != "completed" || shown.Assignee != string(bob.did) {
					t.Errorf("the handoff is %+v", shown)
				}
				checkAliases(t, mallory, handle, bob, false)
			})
		}
	}
}

// checkAliases holds whether a handle is also known as the DID of a party.
func checkAliases(t *testing.T, a *bridgetest.Agent, handle string, of owner, want bool) {
	t.Helper()
	answer := calls(t, a, http.StatusOK, http.MethodGet, "/identity/"+handle, nil)
	known, _ := answer["alsoKnownAs"].([]any)
	if slices.Contains(known, any(string(of.did))) != want {
		t.Errorf("%s is also known as %v, which must hold %s: %t", handle, known, of.did, want)
	}
	status, _, err := a.Call(t.Context(), http.MethodGet, "/identity/"+string(of.did), nil)
	if err != nil || want && status != http.StatusOK {
		t.Errorf("the DID is answered %d, %v", status, err)
	}
}

// checkNothing holds that an agent which lets a sender write reads nothing of an offer, and
// cannot accept it.
func checkNothing(t *testing.T, a *bridgetest.Agent, from owner, id string) {
	t.Helper()
	inbox, messages := "/messages/inbox", "/messages"
	consent, handle := "/consent", wire.Handle(from.did)
	if a.Domain == "" { // registered below /api
		inbox, messages, consent = "/api/messages", "/api/messages", "/api/consent"
	}
	if status, answer, err := a.Call(t.Context(), http.MethodPost, consent, map[string]any{"handle": handle, "from": handle, "action": "accept"}); err != nil || status >= http.StatusInternalServerError {
		t.Errorf("consent is answered %d %v, %v", status, answer, err)
	}
	status, text, err := a.Do(t.Context(), http.MethodGet, inbox, nil)
	if err != nil || status != http.StatusOK || strings.Contains(string(text), "For Bob alone") || strings.Contains(string(text), id) {
		t.Errorf("%s reads %d %s, %v", a.Handle, status, text, err)
	}
	accept := a.Envelope(handle, "mine", map[string]any{"type": "ack", "data": map[string]any{"replyTo": id, "status": "received"}})
	signed, err := a.Sign(accept)
	if err != nil {
		t.Fatal(err)
	}
	if status, text, err := a.Do(t.Context(), http.MethodPost, messages, signed); err != nil || status < http.StatusBadRequest {
		t.Errorf("an accept by %s is answered %d %s, %v", a.Handle, status, text, err)
	}
}

// The owner of a key gets its DID back from each that named the key, and ends the key for
// good; the end that an agent gives to a key that it named says nothing about the DID.
func TestStolenKeyIsRevokedOnlyByItsOwner(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	h.ready(t)
	bob := newOwner(t)
	own := newOwner(t)
	mallory := own.agent(h, "mallory")
	if err := mallory.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls(t, mallory, http.StatusOK, http.MethodPost, "/identity/rotate", own.sign(t, map[string]any{"newPublicKey": bob.public(), "newKid": "key_2"}))
	minted := newOwner(t).agent(h, "marvin")
	minted.Token, _ = calls(t, minted, http.StatusCreated, http.MethodPost, "/api/presence",
		map[string]any{"action": "register", "username": "marvin", "publicKey": bob.public()})["token"].(string)

	bob.logIn(t, h) // the DID is bob's before and after it has a handle
	robert := bob.agent(h, "robert")
	if err := robert.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkAliases(t, robert, "robert", bob, true)
	checkAliases(t, mallory, "mallory", bob, false)
	checkAliases(t, minted, "marvin", bob, false)
	victim := bob.logIn(t, h)
	sender := logIn(t, h.url())
	id := sender.offer(t, map[string]any{"to": bob.did, "title": "For Bob alone"})
	if entries := victim.reads(t, ""); len(entries) != 1 || entries[0].Step.HandoffID != id {
		t.Fatalf("bob reads %+v after he registered", entries)
	}
	victim.step(t, id, "accept", nil)

	calls(t, robert, http.StatusOK, http.MethodPost, "/identity/revoke", bob.sign(t, map[string]any{"kid": robert.KeyID, "reason": "lost"}))
	if got := loginStatus(t, h, bob.did, func(challenge string) []byte { return ed25519.Sign(bob.private, []byte(challenge)) }); got != http.StatusUnauthorized {
		t.Errorf("a login with the revoked key is answered %d", got)
	}
}

func loginStatus(t *testing.T, h *house, did federation.DID, sign func(challenge string) []byte) int {
	t.Helper()
	c := &caller{url: h.url()}
	var given struct{ Challenge string }
	c.must(t, http.StatusOK, http.MethodPost, "auth/challenge", map[string]any{"did": did}, &given)
	request := c.request(t, http.MethodPost, "auth/token", map[string]any{
		"did": did, "challenge": given.Challenge, "signature": base64.RawURLEncoding.EncodeToString(sign(given.Challenge)),
	})
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// A restart tells the operator which agents named keys without a proof.
func TestStartNamesAgentsWithoutAProvenKey(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	h.ready(t)
	for name := range names() {
		names()[name](t, h, "named_"+name, newOwner(t))
	}
	proved := newOwner(t).agent(h, "proved")
	if err := proved.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.stop(t)
	h.start(t)
	await(t, "the line", func() bool {
		return strings.Contains(h.told(t), fmt.Sprintf(`"agents":%d,"handles":["named_api_rotate","named_presence","named_rotate"]`, len(names())))
	})
}
