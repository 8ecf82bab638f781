package identity

import (
	"context"
	"time"

	"baton/federation"
)

// HomeKeys is the keys of a keyring with which a home signs.
type HomeKeys struct {
	*Keyring

	Home federation.HomeID
}

// Own returns the key with which the home signs its own steps now.
func (k HomeKeys) Own() federation.SigningKey { return k.Server(k.Home) }

// CurrentKeys proves DIDs with the current key source: a rotation of the gateway's own keys replaces it.
// Its methods may be called concurrently.
type CurrentKeys struct {
	Source func() *KeySource
	Logins *Logins
	// Proven is called with each DID that proved itself.
	Proven func(ctx context.Context, did federation.DID)
}

// Proved is [Logins.Proved] with the current key source.
func (c CurrentKeys) Proved(ctx context.Context, did federation.DID, message, signature []byte) (federation.PublicKey, federation.Verdict, error) {
	key, verdict, err := c.Logins.Proved(ctx, c.Source(), did, message, signature, time.Now())
	if verdict == federation.Valid && err == nil {
		c.Proven(ctx, did)
	}
	return key, verdict, err
}

// Learn is [KeySource.Learn].
func (c CurrentKeys) Learn(ctx context.Context, report federation.KeyReport) error {
	return c.Source().Learn(ctx, report)
}

// Revoked is [KeySource.Revoked].
func (c CurrentKeys) Revoked(ctx context.Context, did federation.DID, keyID string, at time.Time) (bool, error) {
	return c.Source().Revoked(ctx, did, keyID, at)
}
