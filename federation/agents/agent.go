package agents

import (
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"time"

	"baton/federation"
)

// Agent is an identity that registered here. Its Keys say which of them it proved.
type Agent struct {
	Handle       string
	DID          federation.DID  // did:key that this gateway keeps for it; its identity on other networks
	OwnDID       federation.DID  // did:key of its primary key, where that is proved, else DID; reaches the same inbox
	Keys         []Key           // in the order in which they were registered
	Capabilities json.RawMessage // as registered; nil when none
	Metadata     json.RawMessage // as registered; nil when none
	Registered   time.Time
	KeptKey      ed25519.PublicKey // of DID
	Shows        Shows
	Account      Account   // account used for the registration; zero for none
	Released     time.Time // when an operator released its handle, which is then available again; zero for a handle in use
	// Began is the method of the first registration; "" for an older agent, which proved its first
	// key.
	Began federation.Began
	// Recovery is the key that may replace and revoke the agent's keys; nil for none. It is never
	// shown.
	Recovery ed25519.PublicKey
	// Bound is the binding of its handle, zero where an operator made none. It is no
	// part of what is kept of an agent.
	Bound federation.BoundName
}

// Account is one at an issuer of OpenID Connect. Only its agent is told of it.
//
// spec: airc-v0.1.1 §11.4
type Account struct {
	Issuer, Subject string
	// Since rejects a registration if its account registered another agent since then. It is the
	// issue time of a token without a nonce, and zero otherwise. It is not stored.
	Since time.Time
}

// Visibility says which callers see a part of an agent's presence.
//
// spec: airc-v0.1.1 §8.3
type Visibility string

// The levels of visibility.
const (
	VisiblePublic   Visibility = "public"
	VisibleContacts Visibility = "contacts" // with consent both ways
	VisibleNone     Visibility = "none"
)

// Shows is what an agent lets others see. The zero value is that of an agent that
// has not said anything: its contacts see that it is there, and no agent sees what it does.
type Shows struct {
	Presence Visibility // empty for [VisibleContacts]
	Context  Visibility // the handoffs it works on; empty for [VisibleNone]
}

// StandsFor returns the DID by which a handoff knows an agent, where that is not its
// first one: one of its keys', or the one that its handle is bound to.
func (a Agent) StandsFor(v federation.View) federation.DID {
	parties := v.Others("")
	if slices.Contains(parties, a.DID) {
		return ""
	}
	for _, did := range parties {
		if a.Is(did) {
			return did
		}
	}
	return ""
}

// Primary returns the key that an agent is known by: the newest active one, else the
// newest of all.
func (a Agent) Primary(at time.Time) Key {
	var primary Key
	for _, key := range a.Keys {
		if key.Status(at) == KeyStatusActive || primary.Status(at) != KeyStatusActive || primary.ID == "" {
			primary = key
		}
	}
	return primary
}

// Key returns the key with a name, the zero one where there is none.
func (a Agent) Key(id string) Key {
	for _, key := range a.Keys {
		if key.ID == id {
			return key
		}
	}
	return Key{}
}

// DIDs returns all DIDs of an agent, the one that the gateway keeps first.
func (a Agent) DIDs() []federation.DID {
	dids := []federation.DID{a.DID}
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

// Is reports whether an agent may act as a DID: one of its own, or one that an operator
// bound its handle to and vouches for. No agent is the empty DID.
func (a Agent) Is(did federation.DID) bool {
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
