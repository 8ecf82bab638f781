package federation

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"time"
)

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
	Fetched time.Time
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
	// Keys returns the keys that were good for a DID at the time when a step was
	// first received. Errors are those of [Directory.Resolve].
	Keys(ctx context.Context, did DID, received time.Time) ([]ed25519.PublicKey, error)
	// KeyOwner returns the DID whose key has this [KeyID], or [ErrNotFound] when
	// nobody's is known.
	KeyOwner(ctx context.Context, keyID string) (DID, error)
}

// SigningKey is one private key in this gateway's keeping.
type SigningKey struct {
	Public ed25519.PublicKey
	DID    DID // whose it is: its did:key, or that of the home
	// Sign returns 64 bytes of Ed25519. Its error is that of whoever holds the key.
	Sign func(ctx context.Context, message []byte) ([]byte, error)
}
