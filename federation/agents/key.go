package agents

import (
	"crypto/ed25519"
	"time"

	"baton/federation"
)

// KeyStatus is what the key of an agent is good for.
//
// spec: airc-v0.1.1 §5.3
type KeyStatus string

// The statuses of a key.
const (
	KeyStatusActive  KeyStatus = "active"  // signs, and decides about the keys
	KeyStatusPending KeyStatus = "pending" // still signs, but was replaced
	KeyStatusRevoked KeyStatus = "revoked" // signs no more
	KeyStatusExpired KeyStatus = "expired" // its own time is over; signs no more
)

// MaxKeys is how many keys of one agent are kept, good or not. Of more the oldest one that
// is good no more is forgotten.
const MaxKeys = 64

// Key is one key that an agent signs its messages with.
type Key struct {
	ID      string         // the kid of its messages
	DID     federation.DID // its did:key, which is the agent's; empty for a key that the agent named without a proof
	Public  ed25519.PublicKey
	Created time.Time
	Expires time.Time // zero where it does not end by itself
	// Revoked is from when it is good no more: when its revocation was received, or
	// when the overlap with the key that replaced it ends. Zero while neither is known.
	Revoked time.Time
	Reason  string // as the agent gave it with a revocation
}

// Status returns what a key is good for at a time. A message that was received then is
// judged by it, whatever time the sender claims.
func (k Key) Status(at time.Time) KeyStatus {
	switch {
	case !k.Revoked.IsZero() && !at.Before(k.Revoked):
		return KeyStatusRevoked
	case !k.Expires.IsZero() && !at.Before(k.Expires):
		return KeyStatusExpired
	case !k.Revoked.IsZero():
		return KeyStatusPending
	}
	return KeyStatusActive
}

// Signs reports whether messages signed with a key are accepted at a time.
func (k Key) Signs(at time.Time) bool {
	status := k.Status(at)
	return status == KeyStatusActive || status == KeyStatusPending
}

// EndWindow returns what the history of the key's DID is told of its end, which may be
// to come: steps that it signs from then on are not the agent's.
func (k Key) EndWindow(end, seen time.Time) federation.KeyWindow {
	return federation.KeyWindow{DID: k.DID, KeyID: federation.KeyID(k.Public), Origin: federation.RevokedKey, Since: end, Seen: seen}
}

// Proved reports whether the key's did:key is its agent's.
func (k Key) Proved() bool { return k.DID != "" }
