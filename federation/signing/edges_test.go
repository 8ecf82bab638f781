package signing_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"path/filepath"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// Libraries differ on these signatures. Ours must not change its answers from one
// release to the next, and every scheme must give the same.
func TestVerifyDecidesEd25519EdgeCases(t *testing.T) {
	set := readJSON[struct {
		Cases []struct {
			Name, Message, Key, Signature string
			Valid                         bool
		}
	}](t, filepath.Join("testdata", "ed25519.json"))
	if len(set.Cases) != 12 {
		t.Fatalf("%d cases, want 12", len(set.Cases))
	}
	for _, c := range set.Cases {
		t.Run(c.Name, func(t *testing.T) {
			want := federation.Invalid
			if c.Valid {
				want = federation.Valid
			}
			sig := base64.RawURLEncoding.EncodeToString(mustHex(t, c.Signature))
			// Only the challenge scheme signs bytes other than JSON.
			got, err := signing.Challenge().Verify(mustHex(t, c.Message), sig, ed25519.PublicKey(mustHex(t, c.Key)))
			if got != want || err != nil {
				t.Errorf("verdict %v (%v), want %v", got, err, want)
			}
		})
	}
}
