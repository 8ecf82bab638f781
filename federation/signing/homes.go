package signing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
)

// homePrefix precedes the signed bytes of a message between homes, so that the signature is valid for no
// other purpose.
const homePrefix = "baton-home/1\n"

// SignHome returns the signature of a message from one home to another. It is no [Scheme]: the signature
// covers the bytes as they are sent, and is beside them.
func SignHome(ctx context.Context, key federation.SigningKey, message []byte) (string, error) {
	sig, err := key.Sign(ctx, homeDocument(message))
	if err != nil {
		return "", fmt.Errorf("sign for another home: %w", err)
	}
	return inTag().Write(federation.KeyID(key.Public), sig), nil
}

func homeDocument(message []byte) []byte { return append([]byte(homePrefix), message...) }

// VerifyHome judges a signature of a home by the keys that its DID had at a time. The error is
// nil for [federation.Valid] alone; for [federation.Unverifiable] it wraps
// [*federation.UnavailableError] where a retry may help.
func VerifyHome(ctx context.Context, keys federation.KeySource, home federation.HomeID, message []byte, signature string, at time.Time) (federation.Verdict, error) {
	kid, sig, ours := inTag().Read(signature)
	if !ours {
		return federation.Unverifiable, errors.New("signature of a home: want ed25519 with the id of a key")
	}
	known, err := keys.Keys(ctx, federation.KeyQuery{DID: home.DID(), KeyID: kid, Received: at})
	if errors.Is(err, federation.ErrKeyEnded) {
		return federation.Invalid, fmt.Errorf("signature of home %s: %w", home, err)
	}
	if err != nil {
		return federation.Unverifiable, fmt.Errorf("keys of home %s: %w", home, err)
	}
	document := homeDocument(message)
	for _, key := range known {
		if federation.KeyID(key) == kid && verified(key, document, sig) {
			return federation.Valid, nil
		}
	}
	return federation.Invalid, fmt.Errorf("signature of home %s: it is not made with a key of its own", home)
}

// HomeSigner signs for a home, and judges the signatures of other homes.
type HomeSigner struct {
	Key  func() federation.SigningKey // of the home; the current one
	Keys func() federation.KeySource  // of the other homes; it may block on their hosts
}

// Sign returns [SignHome] with the key that signs now.
func (s HomeSigner) Sign(ctx context.Context, message []byte) (string, error) {
	return SignHome(ctx, s.Key(), message)
}

// Verify returns [VerifyHome] with the current key source.
func (s HomeSigner) Verify(ctx context.Context, home federation.HomeID, at time.Time, message []byte, signature string) (federation.Verdict, error) {
	return VerifyHome(ctx, s.Keys(), home, message, signature, at)
}
