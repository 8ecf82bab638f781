package mailbox

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"baton/federation"
)

// maxKept bounds the keys between a DID and its owner, because a gateway may keep a key for the DID
// of a kept key.
const maxKept = 4

// KeyOwners looks up the owners of keys. It blocks on the record.
type KeyOwners interface {
	// KeyOwner returns the DID that owns the key with a [federation.KeyID], or
	// [federation.ErrNotFound].
	KeyOwner(ctx context.Context, keyID string) (federation.DID, error)
}

// Owners resolves the DIDs of keys that this gateway keeps for others. Other networks show such a
// DID as the author of a step, so people write to it. The zero Owners keeps no keys.
type Owners struct {
	Record KeyOwners
	// Kept returns the key that the gateway keeps for a name.
	Kept func(name string) federation.SigningKey
	// DIDKey returns the key of a did:key, and an error for any other DID.
	DIDKey func(federation.DID) (ed25519.PublicKey, error)
}

// KeptFor returns the key that the gateway keeps for a DID, as stored in the record.
func (o Owners) KeptFor(did federation.DID) federation.KeptKey {
	return federation.KeptKey{ID: federation.KeyID(o.kept(did).Public), Owner: did}
}

func (o Owners) kept(did federation.DID) federation.SigningKey {
	return o.Kept("person:" + string(did))
}

// KeepsFor reports whether kept is the DID of the key that the gateway keeps for another DID.
func (o Owners) KeepsFor(kept, of federation.DID) bool {
	return o.Kept != nil && kept.Method() == "key" && o.kept(of).DID == kept
}

// Owner returns the DID for which the gateway keeps the key of a did:key, and any other DID
// unchanged. It ignores an owner whose kept key differs. It returns the errors of the record.
func (o Owners) Owner(ctx context.Context, did federation.DID) (federation.DID, error) {
	for range maxKept {
		if o.Record == nil || did.Method() != "key" {
			break
		}
		key, err := o.DIDKey(did)
		if err != nil {
			return did, nil //nolint:nilerr // not a key made by a gateway
		}
		owner, err := o.Record.KeyOwner(ctx, federation.KeyID(key))
		switch {
		case errors.Is(err, federation.ErrNotFound):
			return did, nil
		case err != nil:
			return did, fmt.Errorf("look up the owner of %s: %w", did, err)
		case owner == did || !o.KeepsFor(did, owner):
			return did, nil
		}
		did = owner
	}
	return did, nil
}
