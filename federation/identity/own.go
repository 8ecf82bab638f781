package identity

import (
	"encoding/json"

	"baton/federation"
)

// DIDDocument returns the document of a did:web with one key, as its host serves
// it. [ParseDocument] reads it back. It is the same for the same key, so that it
// may be cached.
//
// spec: did-core §5.2, §5.3; controlled-identifiers §2.2.2
func DIDDocument(key federation.SigningKey) []byte {
	id := string(key.DID) + "#" + federation.KeyID(key.Public)
	document := struct {
		Context            []string    `json:"@context"`
		ID                 string      `json:"id"`
		VerificationMethod []ownMethod `json:"verificationMethod"`
		AssertionMethod    []string    `json:"assertionMethod"`
		Authentication     []string    `json:"authentication"`
	}{
		Context: []string{"https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"},
		ID:      string(key.DID),
		VerificationMethod: []ownMethod{{
			ID: id, Type: "Multikey", Controller: string(key.DID), PublicKeyMultibase: multibase(key.Public),
		}},
		AssertionMethod: []string{id},
		Authentication:  []string{id},
	}
	text, err := json.Marshal(document)
	if err != nil {
		panic("identity: write DID document: " + err.Error()) // it is strings alone
	}
	return text
}

// ownMethod is one key in a document that this gateway serves.
type ownMethod struct {
	ID                 string `json:"id"`
	Type               string `json:"type"`
	Controller         string `json:"controller"`
	PublicKeyMultibase string `json:"publicKeyMultibase"`
}
