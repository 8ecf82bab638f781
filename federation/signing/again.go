package signing

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"baton/federation"
)

// VerifyAgain returns an error for a filed step whose signature does not verify as it did when the step was
// filed. It uses no key source and no clock: the same step always gives the same result. The key is the
// key of a did:key, which didKey returns, else the key in the step.
func VerifyAgain(ctx context.Context, ev federation.Event, didKey func(federation.DID) (ed25519.PublicKey, error)) error {
	key := filedKey{ev, didKey}
	if ev.IsMessage() {
		keys, err := key.Keys(ctx, federation.KeyQuery{DID: ev.From})
		if err != nil {
			return err
		}
		return verifyMessage(ev, keys[0])
	}
	again, _, err := Verify(ctx, key, ev)
	switch {
	case err != nil:
		return err
	case again.Signature.Document != ev.Signature.Document:
		return errors.New("what was signed is not what the step says")
	case !bytes.Equal(again.Signature.Bytes, ev.Signature.Bytes):
		return errors.New("the signature is not that of the wire")
	}
	return nil
}

// filedKey is the key of one step. It implements [federation.KeySource].
type filedKey struct {
	ev     federation.Event
	didKey func(federation.DID) (ed25519.PublicKey, error)
}

// Keys implements [federation.KeySource].
func (k filedKey) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	if key, err := k.didKey(q.DID); err == nil {
		return []ed25519.PublicKey{key}, nil
	}
	key, err := federation.ParsePublicKey(k.ev.Signature.Key)
	if err != nil {
		return nil, fmt.Errorf("no key of %s is on record: %w", q.DID, err)
	}
	return []ed25519.PublicKey{key}, nil
}

// KeyOwner implements [federation.KeySource]: no other key has a known owner.
func (filedKey) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}
