package federation

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"
)

// ErrKeyEnded is returned by [KeySource.Keys] for the id of a key that is known to
// have signed for the DID and did not any more when the step was received.
var ErrKeyEnded = errors.New("federation: the key had been taken back")

// KeyID names a public key: the first 16 bytes of its SHA-256, base64url without
// padding.
//
// spec: handofftag "Canonical document"
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Document is what a DID resolves to, reduced to what is used here.
type Document struct {
	DID     DID
	Keys    []ed25519.PublicKey // that may sign for it
	Others  []PublicKey         // its keys of other kinds, which sign no steps
	Mailbox string              // address of the home that it says has its mailbox; "" where it says nothing
	Source  string              // where it was read; empty where nothing had to be
	Fetched time.Time
	Skipped []SkippedKey // keys unusable here
}

// KeyIDs returns the IDs of the keys that may sign for the DID or log in with it: see [KeyID].
func (d Document) KeyIDs() []string {
	var ids []string
	for _, key := range d.Keys {
		ids = append(ids, KeyID(key))
	}
	for _, key := range d.Others {
		ids = append(ids, KeyID(key.Bytes))
	}
	return ids
}

// SkippedKey is a key of a document that cannot be used, with the reason.
type SkippedKey struct{ ID, Reason string }

// KeyKind is the algorithm of a public key.
type KeyKind string

// The kinds of keys that a did:key can name. Steps are signed with Ed25519 alone.
const (
	Ed25519   KeyKind = "ed25519"
	P256      KeyKind = "p256"
	Secp256k1 KeyKind = "secp256k1"
)

// PublicKey is a key of any kind: 32 bytes of Ed25519, or a point on its curve in
// the 33 bytes of its compressed form.
type PublicKey struct {
	Kind  KeyKind
	Bytes []byte
}

// Directory resolves DIDs.
type Directory interface {
	// Resolve returns an error wrapping [*UnavailableError] when asking again may
	// help, and any other error when the DID has no document. It may block on the
	// network, for as long as the fetch timeout at most.
	Resolve(ctx context.Context, did DID, now time.Time) (Document, error)
}

// KeySource finds signing keys.
type KeySource interface {
	// Keys returns the keys that were good for the DID when the step was first received. It
	// returns [ErrKeyEnded] when the signature names a key that had ended; its other errors
	// are the errors of [Directory.Resolve]. It may block on the network, as Resolve does.
	Keys(ctx context.Context, q KeyQuery) ([]ed25519.PublicKey, error)
	// KeyOwner returns the DID whose key has this [KeyID], or [ErrNotFound] for an unknown
	// key.
	KeyOwner(ctx context.Context, keyID string) (DID, error)
}

// KeyQuery asks for the keys that one signature can be of.
type KeyQuery struct {
	DID      DID
	KeyID    string    // the key that the signature names; empty where it names none
	Link     string    // through which the step came
	Name     string    // name of the signer there: key lookups are counted by link and name
	Received time.Time // when the step was first received
}

// SigningKey is one private key in this gateway's keeping.
type SigningKey struct {
	Public ed25519.PublicKey
	DID    DID // the did:key of the key, or the DID of the home
	// Sign returns 64 bytes of Ed25519. Its error is the error of the key's holder.
	Sign func(ctx context.Context, message []byte) ([]byte, error)
}
