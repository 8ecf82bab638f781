package identity

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/federation"
)

// Proved judges whether a DID signed a message with a key of any kind that its document
// lists at a time: Ed25519 over the message, or ECDSA over its SHA-256 as r and s, where s may
// be the lower or the higher one: a login is good once, so that a second signature that is made
// without the key proves nothing more. A key that was revoked for the DID proves nothing. The error says why the verdict is
// [federation.Unverifiable].
//
// spec: freeq "SASL ATPROTO-CHALLENGE"
func (s *KeySource) Proved(ctx context.Context, did federation.DID, message, signature []byte, now time.Time) (federation.Verdict, error) {
	document, err := s.directory.Resolve(ctx, did, now)
	if _, away := errors.AsType[*federation.UnavailableError](err); away {
		return federation.Unverifiable, err
	}
	if err != nil { // the DID does not exist
		return federation.Invalid, nil //nolint:nilerr // that is a verdict
	}
	signer := slices.IndexFunc(document.Keys, func(key ed25519.PublicKey) bool { return ed25519.Verify(key, message, signature) })
	if signer < 0 {
		if slices.ContainsFunc(document.Others, func(key federation.PublicKey) bool { return verifyECDSA(key, message, signature) }) {
			return federation.Valid, nil
		}
		return federation.Invalid, nil
	}
	revoked, err := s.Revoked(ctx, did, federation.KeyID(document.Keys[signer]), now)
	switch {
	case err != nil:
		return federation.Unverifiable, err
	case revoked:
		return federation.Invalid, nil
	}
	return federation.Valid, nil
}

// Revoked reports whether a key was revoked for a DID at a time. Its error is that of the
// record.
func (s *KeySource) Revoked(ctx context.Context, did federation.DID, keyID string, at time.Time) (bool, error) {
	history, err := s.histories.of(ctx, did)
	if err != nil {
		return false, fmt.Errorf("read keys of %s: %w", did, err)
	}
	none := func(federation.KeyWindow) bool { return false }
	return history.Standing(keyID, at, none) == federation.KeyEnded, nil
}
