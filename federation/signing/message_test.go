package signing_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

func TestReadTextReturnsTextAsItsHomeSignedIt(t *testing.T) {
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public, _ := private.Public().(ed25519.PublicKey)
	const alice, bob = federation.DID("did:web:a.example:alice"), federation.DID("did:web:b.example:bob")
	text := federation.Text{
		ID: federationtest.ID(1), From: identity.KeyDID(public), Author: alice, To: bob,
		Order: federation.Conversation(alice, bob), Venue: federation.PrivateVenue(alice, bob), Body: "hello\n\"bob\"", About: federationtest.ID(2),
		Fields: map[string]string{federation.Introduces: "1"},
	}
	key := federation.SigningKey{Public: public, DID: text.From, Sign: func(_ context.Context, message []byte) ([]byte, error) {
		return ed25519.Sign(private, message), nil
	}}
	sealed, err := signing.SealText(t.Context(), key, text)
	if err != nil {
		t.Fatal(err)
	}
	document, signature := sealed.Signature.Document, sealed.Signature.Text
	got, err := signing.ReadText(document, signature, identity.ParseKeyDID)
	if d := cmp.Diff(sealed, got); err != nil || d != "" {
		t.Errorf("read: %v (-sealed +read):\n%s", err, d)
	}
	for _, tt := range []struct {
		name, document, signature string
		want                      federation.RefusalCode
	}{
		{"another text", strings.Replace(document, "hello", "hullo", 1), signature, federation.SignatureInvalid},
		{"another author", strings.Replace(document, string(alice), "did:web:c.example", 1), signature, federation.SignatureInvalid},
		{"another order of members", strings.Replace(document, `{`, `{"z":"1",`, 1), signature, federation.SignatureInvalid},
		{"a signature of another scheme", document, "rsa:" + signature, federation.SignatureInvalid},
		{"a signer without a did:key", strings.Replace(document, string(text.From), string(alice), 1), signature, federation.SignatureInvalid},
		{"no recipient", strings.Replace(document, string(bob), "", 1), signature, federation.InvalidTarget},
		{"no id", strings.Replace(document, text.ID.String(), "", 1), signature, federation.InvalidEventID},
		{"a member twice", strings.Replace(document, `{`, `{"text":"x",`, 1), signature, federation.InvalidTag},
		{"a member that is no text", `{"message":1}`, signature, federation.InvalidTag},
		{"no JSON", "hello", signature, federation.InvalidTag},
	} {
		_, err := signing.ReadText(tt.document, tt.signature, identity.ParseKeyDID)
		if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}
