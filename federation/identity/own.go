package identity

import (
	"crypto/ed25519"
	"encoding/json"

	"baton/federation"
)

// DIDDocument returns the document of a did:web as its host serves it: the key that signs first, then the
// other keys whose signatures are valid, and the address of its mailbox home, "" for none.
// [ParseDocument] reads it. The same keys make the same bytes, so that it may be cached.
//
// spec: did-core §5.2, §5.3; controlled-identifiers §2.2.2
func DIDDocument(key federation.SigningKey, mailbox string, retiring ...ed25519.PublicKey) []byte {
	return writeDocument(key, nil, mailbox, retiring)
}

// AgentDocument is [DIDDocument] for an agent whose key the gateway keeps: the document of its did:web,
// with its other DIDs.
//
// spec: did-core §5.1.3
func AgentDocument(did federation.DID, kept ed25519.PublicKey, mailbox string, others ...federation.DID) []byte {
	return writeDocument(federation.SigningKey{DID: did, Public: kept}, others, mailbox, nil)
}

func writeDocument(key federation.SigningKey, others []federation.DID, mailbox string, retiring []ed25519.PublicKey) []byte {
	document := struct {
		Context            []string         `json:"@context"`
		ID                 federation.DID   `json:"id"`
		AlsoKnownAs        []federation.DID `json:"alsoKnownAs,omitempty"`
		VerificationMethod []ownMethod      `json:"verificationMethod"`
		AssertionMethod    []string         `json:"assertionMethod"`
		Authentication     []string         `json:"authentication"`
		Service            []service        `json:"service,omitempty"`
	}{
		Context: []string{"https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"},
		ID:      key.DID, AlsoKnownAs: others,
	}
	for _, public := range append([]ed25519.PublicKey{key.Public}, retiring...) {
		method := newOwnMethod(key.DID, public)
		document.VerificationMethod = append(document.VerificationMethod, method)
		document.AssertionMethod = append(document.AssertionMethod, method.ID)
	}
	if mailbox != "" {
		document.Service = []service{{ID: string(key.DID) + "#baton", Type: mailboxService, Endpoint: mailbox}}
	}
	document.Authentication = document.AssertionMethod[:1] // the private part of a retiring key is deleted
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
