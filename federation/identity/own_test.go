package identity_test

import (
	"crypto/ed25519"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

func TestOwnDocumentHasTheServerKey(t *testing.T) {
	keys, err := identity.OpenKeyring(writeKeys(t))
	if err != nil {
		t.Fatal(err)
	}
	served := string(identity.DIDDocument(keys.Server("gw.example"), ""))
	w := &web{pages: map[string]string{"https://gw.example/.well-known/did.json": served}}
	document, err := newDirectory(w).Resolve(t.Context(), federation.HomeID("gw.example").DID(), noon())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]ed25519.PublicKey{keys.Server("gw.example").Public}, document.Keys); diff != "" {
		t.Error(diff)
	}
}

// The document of a key from a specification, member by member: others read it with other programs.
func TestOwnDocumentFollowsDIDCore(t *testing.T) {
	key, err := identity.ParseKeyDID("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")
	if err != nil {
		t.Fatal(err)
	}
	const id = "did:web:gw.example#xEbZvPhNXj7pZrrFwfY0wQ"
	want := map[string]any{
		"@context": []any{"https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"},
		"id":       "did:web:gw.example",
		"verificationMethod": []any{map[string]any{
			"id": id, "type": "Multikey", "controller": "did:web:gw.example",
			"publicKeyMultibase": "z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",
		}},
		"assertionMethod": []any{id},
		"authentication":  []any{id},
		"service": []any{map[string]any{
			"id": "did:web:gw.example#baton", "type": "BatonHome", "serviceEndpoint": "https://gw.example",
		}},
	}
	var got map[string]any
	if err := json.Unmarshal(identity.DIDDocument(federation.SigningKey{DID: "did:web:gw.example", Public: key}, "https://gw.example"), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
