package identity

import (
	"context"
	"crypto/ed25519"
	"time"

	"baton/federation"
)

// KeyOwners knows whose key an id names, from the steps on record.
type KeyOwners interface {
	// KeyOwner returns [federation.ErrNotFound] when nobody's is known.
	KeyOwner(ctx context.Context, keyID string) (federation.DID, error)
}

// KeySource implements [federation.KeySource] with what a directory says now and
// what the record saw before.
type KeySource struct {
	directory federation.Directory
	owners    KeyOwners
}

// NewKeySource puts a directory and a record together.
func NewKeySource(directory federation.Directory, owners KeyOwners) *KeySource {
	return &KeySource{directory: directory, owners: owners}
}

// Keys returns the keys of the DID's document. A directory keeps no history, so a
// key counts from when it was listed until it is not listed any more.
func (s *KeySource) Keys(ctx context.Context, did federation.DID, received time.Time) ([]ed25519.PublicKey, error) {
	document, err := s.directory.Resolve(ctx, did, received)
	if err != nil {
		return nil, err
	}
	return document.Keys, nil
}

// KeyOwner implements [federation.KeySource].
func (s *KeySource) KeyOwner(ctx context.Context, keyID string) (federation.DID, error) {
	return s.owners.KeyOwner(ctx, keyID)
}
