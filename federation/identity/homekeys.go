package identity

import (
	"context"
	"crypto/ed25519"
	"time"

	"baton/federation"
)

// HomeKeys is the keys of a keyring with which a home signs.
type HomeKeys struct {
	*Keyring

	Home      federation.HomeID
	PublicURL string // of the gateway, without a path
}

// Own returns the key with which the home signs its own steps now.
func (k HomeKeys) Own() federation.SigningKey { return k.Server(k.Home) }

// RegistryKey returns the key with which the registry signs now.
func (k HomeKeys) RegistryKey() federation.SigningKey { return k.Registry() }

// RegistryKeys returns the keys of the registry whose signatures are valid now, RegistryKey first.
func (k HomeKeys) RegistryKeys(now time.Time) []federation.OwnKey { return k.Good(RegistryKey, now) }

// KeyDID returns the did:key of a public key.
func (HomeKeys) KeyDID(key ed25519.PublicKey) federation.DID { return KeyDID(key) }

// AgentDocument returns the document of a did:web of the home, with one key and other names.
func (k HomeKeys) AgentDocument(did federation.DID, key ed25519.PublicKey, others ...federation.DID) []byte {
	return AgentDocument(did, key, k.PublicURL, others...)
}

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
