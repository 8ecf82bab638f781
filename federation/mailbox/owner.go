package mailbox

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"baton/federation"
)

// maxKept bounds the keys between a DID and its owner: a gateway may keep a key for the DID of a key
// that it keeps.
const maxKept = 4

// KeyOwners knows the owners of keys. It blocks on the record.
type KeyOwners interface {
	// KeyOwner returns the DID that owns the key with a [federation.KeyID], or
	// [federation.ErrNotFound].
	KeyOwner(ctx context.Context, keyID string) (federation.DID, error)
}

// Owners resolves the DIDs of keys that this gateway keeps for others. Other networks show such a
// DID as the author of a step, and people write to it. The zero Owners keeps no keys.
type Owners struct {
	Record KeyOwners
	// Kept returns the key that the gateway keeps for a name.
	Kept func(name string) federation.SigningKey
	// DIDKey returns the key of a did:key, and an error for any other DID.
	DIDKey func(federation.DID) (ed25519.PublicKey, error)
}

// KeptFor returns the key that the gateway keeps for a DID, as the record notes it.
func (o Owners) KeptFor(did federation.DID) federation.KeptKey {
	return federation.KeptKey{ID: federation.KeyID(o.kept(did).Public), Owner: did}
}

func (o Owners) kept(did federation.DID) federation.SigningKey {
	return o.Kept("person:" + string(did))
}

// KeepsFor reports whether a DID is that of the key that the gateway keeps for another DID.
func (o Owners) KeepsFor(kept, of federation.DID) bool {
	return o.Kept != nil && kept.Method() == "key" && o.kept(of).DID == kept
}

// Owner returns the DID for which the gateway keeps the key of a did:key, and any other DID
// unchanged. It trusts no owner whose kept key is another one. Its error is that of the record.
func (o Owners) Owner(ctx context.Context, did federation.DID) (federation.DID, error) {
	for range maxKept {
		if o.Record == nil || did.Method() != "key" {
			break
		}
		key, err := o.DIDKey(did)
		if err != nil {
			return did, nil //nolint:nilerr // no key that a gateway makes
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
