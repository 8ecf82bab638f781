package identity

import (
	"crypto/ed25519"
	"encoding/json"

	"baton/federation"
)

// DIDDocument returns the document of a did:web as its host serves it: the key that
// signs, and those whose signatures are good beside it. [ParseDocument] reads it back.
// It is the same for the same keys, so that it may be cached.
//
// spec: did-core §5.2, §5.3; controlled-identifiers §2.2.2
func DIDDocument(key federation.SigningKey, retiring ...ed25519.PublicKey) []byte {
	return writeDocument(key, nil, retiring)
}

// AgentDocument is [DIDDocument] for an agent that the gateway keeps a key for: under
// its did:web, with the other DIDs by which it goes.
//
// spec: did-core §5.1.3
func AgentDocument(did federation.DID, kept ed25519.PublicKey, others ...federation.DID) []byte {
	return writeDocument(federation.SigningKey{DID: did, Public: kept}, others, nil)
}

func writeDocument(key federation.SigningKey, others []federation.DID, retiring []ed25519.PublicKey) []byte {
	document := struct {
		Context            []string         `json:"@context"`
		ID                 federation.DID   `json:"id"`
		AlsoKnownAs        []federation.DID `json:"alsoKnownAs,omitempty"`
		VerificationMethod []ownMethod      `json:"verificationMethod"`
		AssertionMethod    []string         `json:"assertionMethod"`
		Authentication     []string         `json:"authentication"`
	}{
		Context: []string{"https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"},
		ID:      key.DID, AlsoKnownAs: others,
	}
	for _, public := range append([]ed25519.PublicKey{key.Public}, retiring...) {
		method := newOwnMethod(key.DID, public)
		document.VerificationMethod = append(document.VerificationMethod, method)
		document.AssertionMethod = append(document.AssertionMethod, method.ID)
	}
	document.Authentication = document.AssertionMethod[:1] // nobody has a retiring one any more
	text, err := json.Marshal(document)
	if err != nil {
		panic("identity: write DID document: " + err.Error()) // it is strings alone
	}
	return text
}

func newOwnMethod(did federation.DID, public ed25519.PublicKey) ownMethod {
	return ownMethod{
		ID: string(did) + "#" + federation.KeyID(public), Type: "Multikey", Controller: string(did), PublicKeyMultibase: multibase(public),
	}
}

// ownMethod is one key in a document that this gateway serves.
type ownMethod struct {
	ID                 string `json:"id"`
	Type               string `json:"type"`
	Controller         string `json:"controller"`
	PublicKeyMultibase string `json:"publicKeyMultibase"`
}
