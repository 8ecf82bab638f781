package main_test

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// An operator reads the warning about an unknown DID too. A login by OAuth makes the DID known, also
// after its session ended.
func TestOfferToADIDThatLoggedInOnceHasNoWarning(t *testing.T) {
	t.Parallel()
	n := neighbour{newHouse(t), "gw.test"}
	n.start(t)
	alice, _ := n.key(t, 1)
	seed := append([]byte{2}, make([]byte, 31)...)
	_, bob := n.key(t, 2)
	offer := func() string {
		out, ok := n.baton(t, "handoff", "offer", "--key-file", alice, "--to", bob, "--title", "Cite")
		if !ok {
			t.Fatal(out)
		}
		return out
	}
	if out := offer(); !strings.Contains(out, "baton: handoff offer: never-seen: no step, name, login or read inbox of "+bob) {
		t.Errorf("an offer to an unknown DID is answered: %s", out)
	}
	assertion, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
		"iss": bob, "sub": bob, "aud": n.url(), "jti": "1", "exp": time.Now().Add(time.Minute).Unix(),
	}).SignedString(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	logInByAssertion(t, n.url(), assertion)
	n.must(t, "token", "revoke", "--did", bob, "--reason", "a test")
	if out := offer(); strings.Contains(out, "never-seen") {
		t.Errorf("an offer to a DID that logged in once is answered: %s", out)
	}
}
