package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"baton/federation"
	"baton/federation/identity"
	"baton/federation/lifecycle"
	"baton/federation/signing"
	"baton/federation/store"
)

// replay is what an examination of the record has to know of handoffs. It asks
// nobody, and has no clock: the same record gives the same answer for ever.
type replay struct{ kinds lifecycle.Kinds }

var _ store.Rules = replay{}

// Replay implements [store.Rules]: the lifecycle alone, as the home applied it.
func (r replay) Replay(before federation.View, step federation.Entry, home federation.HomeID) (federation.View, error) {
	switch opens := step.Event.Verb == federation.Offer; {
	case opens && before.Exists():
		return before, errors.New("the handoff was open already")
	case opens:
		return r.kinds.Open(step.Event, home, step.Filed)
	}
	return r.kinds.Check(before, step.Event, step.Filed)
}

// Verify implements [store.Rules].
func (replay) Verify(ctx context.Context, ev federation.Event) error {
	again, _, err := signing.Verify(ctx, keyOnRecord{ev}, ev)
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

// keyOnRecord knows the key that verified a step when it came, and what can be known
// of a DID without asking.
type keyOnRecord struct{ ev federation.Event }

// Keys returns the key that a did:key is, else the one on record.
func (k keyOnRecord) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	if key, err := identity.ParseKeyDID(q.DID); err == nil {
		return []ed25519.PublicKey{key}, nil
	}
	key, err := federation.ParsePublicKey(k.ev.Signature.Key)
	if err != nil {
		return nil, fmt.Errorf("no key of %s is on record: %w", q.DID, err)
	}
	return []ed25519.PublicKey{key}, nil
}

// KeyOwner knows nobody: a key that is not the signer's own is no good.
func (keyOnRecord) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}
