package identity

import (
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"time"

	"baton/federation"
)

// Proved judges whether a DID signed a message with a key of any kind that its document
// lists at a time: Ed25519 over the message, or ECDSA over its SHA-256 as r and s. The
// error says why the verdict is [federation.Unverifiable].
//
// spec: freeq "SASL ATPROTO-CHALLENGE"
func (d *Directory) Proved(ctx context.Context, did federation.DID, message, signature []byte, now time.Time) (federation.Verdict, error) {
	document, err := d.Resolve(ctx, did, now)
	if _, away := errors.AsType[*federation.UnavailableError](err); away {
		return federation.Unverifiable, err
	}
	if err != nil { // there is no such DID, and so nobody is it
		return federation.Invalid, nil //nolint:nilerr // which is an answer
	}
	signs := slices.ContainsFunc(document.Keys, func(key ed25519.PublicKey) bool {
		return ed25519.Verify(key, message, signature)
	}) || slices.ContainsFunc(document.Others, func(key federation.PublicKey) bool {
		return verifyECDSA(key, message, signature)
	})
	if signs {
		return federation.Valid, nil
	}
	return federation.Invalid, nil
}
