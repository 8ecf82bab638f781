package federation

import (
	"crypto/ed25519"
	"time"
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

// MaxAgentKeys is how many keys of one agent are kept, good or not. Of more the
// oldest one that is good no more is forgotten.
const MaxAgentKeys = 64

// AgentKey is one key that an agent signs its messages with.
type AgentKey struct {
	ID      string // the kid of its messages
	DID     DID    // its did:key, which is the agent's; empty for a key that the agent named without a proof
	Public  ed25519.PublicKey
	Created time.Time
	Expires time.Time // zero where it does not end by itself
	// Revoked is from when it is good no more: when its revocation was received, or
	// when the overlap with the key that replaced it ends. Zero while neither is known.
	Revoked time.Time
	Reason  string // as the agent gave it with a revocation
}

// Status returns what a key is good for at a time. What was received then is judged
// by it, whatever time the sender claims.
func (k AgentKey) Status(at time.Time) KeyStatus {
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
func (k AgentKey) Signs(at time.Time) bool {
	status := k.Status(at)
	return status == KeyStatusActive || status == KeyStatusPending
}

// EndWindow returns what the history of the key's DID is told of its end, which may be
// to come: steps that it signs from then on are not the agent's.
func (k AgentKey) EndWindow(end, seen time.Time) KeyWindow {
	return KeyWindow{DID: k.DID, KeyID: KeyID(k.Public), Origin: RevokedKey, Since: end, Seen: seen}
}

// Proved reports whether the key's did:key is its agent's.
func (k AgentKey) Proved() bool { return k.DID != "" }

// Primary returns the key that an agent is known by: the newest active one, else the
// newest of all.
func (a Agent) Primary(at time.Time) AgentKey {
	var primary AgentKey
	for _, key := range a.Keys {
		if key.Status(at) == KeyStatusActive || primary.Status(at) != KeyStatusActive || primary.ID == "" {
			primary = key
		}
	}
	return primary
}

// Key returns the key with a name, the zero one where there is none.
func (a Agent) Key(id string) AgentKey {
	for _, key := range a.Keys {
		if key.ID == id {
			return key
		}
	}
	return AgentKey{}
}

// DIDs returns all DIDs of an agent, the one that the gateway keeps first.
func (a Agent) DIDs() []DID {
	dids := []DID{a.DID}
	if a.OwnDID != a.DID { // an agent without a key has no other
		dids = append(dids, a.OwnDID)
	}
	for _, key := range a.Keys {
		if key.DID != "" && key.DID != a.OwnDID {
			dids = append(dids, key.DID)
		}
	}
	return dids
}

// Is reports whether an agent may act as a DID: one of its own, or one that its handle
// is bound to by somebody who vouches for that. No agent is the empty DID.
func (a Agent) Is(did DID) bool {
	if did == "" {
		return false
	}
	if a.DID == did || a.OwnDID == did || a.Bound.Vouch && a.Bound.DID == did {
		return true
	}
	for _, key := range a.Keys {
		if key.DID == did {
			return true
		}
	}
	return false
}
