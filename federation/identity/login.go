package identity

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/federation"
)

// Proved verifies that a DID signed a message with a key of any kind listed in its document at a
// time, and returns the key. The signature is Ed25519 over the message, or ECDSA over its SHA-256
// as r and s. Both the lower and the higher s are accepted: a login is valid once, so a second
// signature derived without the key proves nothing more. A key revoked for the DID proves nothing.
// If the document does not list the key, it is fetched again, within the limits of the directory.
// The error is the reason of a [federation.Unverifiable] verdict, or the problem with the document
// of an [federation.Invalid] one.
//
// spec: freeq "SASL ATPROTO-CHALLENGE"
func (s *KeySource) Proved(ctx context.Context, did federation.DID, message, signature []byte, now time.Time) (federation.PublicKey, federation.Verdict, error) {
	document, err := s.directory.Resolve(ctx, did, now)
	key, verdict, why := s.proved(ctx, document, err, message, signature, now)
	if verdict != federation.Invalid || err != nil || !document.Fetched.Before(now) {
		return key, verdict, why
	}
	document, err = s.directory.Refresh(ctx, did, now) // the owner may have replaced the key
	if key, verdict, why = s.proved(ctx, document, err, message, signature, now); verdict != federation.Invalid || err != nil {
		return key, verdict, why
	}
	if document.Fetched.Add(refetchEvery).Before(now) { // its host does not answer now
		return federation.PublicKey{}, federation.Unverifiable, unavailable(string(did), awayFor, errNotRefetched)
	}
	return federation.PublicKey{}, federation.Invalid, why
}

// errNotRefetched is the reason why a failed proof against an old document is not invalid.
var errNotRefetched = errors.New("its document cannot be fetched again now")

// proved verifies a proof with a document, or with the reason why there is none.
func (s *KeySource) proved(
	ctx context.Context, document federation.Document, absent error, message, signature []byte, now time.Time,
) (key federation.PublicKey, verdict federation.Verdict, err error) {
	_, away := errors.AsType[*federation.UnavailableError](absent)
	switch {
	case errors.Is(absent, ErrRedirect): // the redirect may be a temporary mistake, so steps wait
		return key, federation.Invalid, absent
	case away:
		return key, federation.Unverifiable, absent
	case errors.Is(absent, ErrNotAllowed):
		return key, federation.Invalid, ErrNotAllowed // must not reveal addresses inside this network
	case absent != nil: // the DID does not exist, or its document is unreadable
		return key, federation.Invalid, absent
	}
	listed := slices.Clone(document.Others)
	for _, key := range document.Keys {
		listed = append(listed, federation.PublicKey{Kind: federation.Ed25519, Bytes: key})
	}
	signer := slices.IndexFunc(listed, func(key federation.PublicKey) bool {
		if key.Kind == federation.Ed25519 {
			return ed25519.Verify(key.Bytes, message, signature)
		}
		return verifyECDSA(key, message, signature)
	})
	if signer < 0 {
		return key, federation.Invalid, skipped(document)
	}
	revoked, err := s.Revoked(ctx, document.DID, federation.KeyID(listed[signer].Bytes), now)
	switch {
	case err != nil:
		return key, federation.Unverifiable, err
	case revoked:
		return key, federation.Invalid, errors.New("this key was revoked")
	}
	return listed[signer], federation.Valid, nil
}

// skipped returns an error with the unreadable keys of a document, or nil.
func skipped(document federation.Document) error {
	if len(document.Skipped) == 0 {
		return nil
	}
	first := document.Skipped[0]
	return fmt.Errorf("unusable keys in its document: %d, such as %s: %s", len(document.Skipped), cmp.Or(first.ID, "one without an id"), first.Reason)
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
