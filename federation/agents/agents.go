// Package agents has the types of a registry of agents: an [Agent] with its keys, a [Message], and
// the [Consent] of one handle to another. The registry (bridge/airc) declares the ports that store
// them, and federation/store/registry implements these.
//
// Its functions are pure. Its values are safe for concurrent use.
package agents

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Link is the name of the link to the agents. A step is delivered on it once the agent has fetched
// it.
const Link = "airc"

// ErrDuplicate is returned for a message ID that its sender used within [MessageIDWindow].
var ErrDuplicate = errors.New("agents: message id used before")

// ReservedName reports whether a name on a link implies a DID. It cannot be registered, or bound to
// another DID.
func ReservedName(link, name string) bool {
	return link == Link && slices.ContainsFunc([]string{"plc_", "web_", "key_"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// ReadHere reports whether an agent of this registry fetches the messages to a handle.
func ReadHere(handle string) bool {
	return !strings.Contains(handle, "@") && !ReservedName(Link, handle) && handle != "system" && handle != "anyone"
}

// Agent is an identity registered here.
type Agent struct {
	Handle       string
	DID          federation.DID  // did:key kept by this gateway for it; its identity on other networks
	OwnDID       federation.DID  // did:key of its primary key if proved, otherwise DID; with the same inbox
	Keys         []Key           // in order of registration
	Capabilities json.RawMessage // as registered, or nil
	Metadata     json.RawMessage // as registered, or nil
	Registered   time.Time
	KeptKey      ed25519.PublicKey // of DID
	Shows        Shows
	Account      Account   // used for the registration, or zero
	Released     time.Time // release of its handle for reuse by an operator; otherwise zero
	// Began is the method of the first registration, or "" for an older agent, which proved its
	// first key.
	Began federation.Began
	// Recovery is the key that may replace and revoke the agent's keys, or nil. It is never shown.
	Recovery ed25519.PublicKey
	// Bound is an operator's binding of its handle, or zero. It is not stored with the agent.
	Bound federation.BoundName
}

// Account is an account at an OpenID Connect issuer. It is shown only to its agent.
//
// spec: airc-v0.1.1 §11.4
type Account struct {
	Issuer, Subject string
	// Since is the issue time of a token without a nonce, otherwise zero. A registration fails if
	// its account has registered another agent since then. It is not stored.
	Since time.Time
}

// Visibility is the set of callers that see a part of an agent's presence.
//
// spec: airc-v0.1.1 §8.3
type Visibility string

// The levels of visibility.
const (
	VisiblePublic   Visibility = "public"
	VisibleContacts Visibility = "contacts" // with consent both ways
	VisibleNone     Visibility = "none"
)

// Shows defines the visible parts of an agent. By default, its contacts see its presence, and no
// agent sees its activity.
type Shows struct {
	Presence Visibility // empty for [VisibleContacts]
	Context  Visibility // the agent's handoffs; empty for [VisibleNone]
}

// StandsFor returns the DID that represents an agent in a handoff, if it is not the agent's first
// DID.
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

// Primary returns the newest active key, otherwise the newest key.
func (a Agent) Primary(at time.Time) Key {
	var primary Key
	for _, key := range a.Keys {
		if key.Status(at) == KeyStatusActive || primary.Status(at) != KeyStatusActive || primary.ID == "" {
			primary = key
		}
	}
	return primary
}

// Key returns the key with the given ID, or the zero Key.
func (a Agent) Key(id string) Key {
	for _, key := range a.Keys {
		if key.ID == id {
			return key
		}
	}
	return Key{}
}

// DIDs returns all DIDs of an agent, first the DID kept by the gateway.
func (a Agent) DIDs() []federation.DID {
	dids := []federation.DID{a.DID}
	if a.OwnDID != a.DID {
		dids = append(dids, a.OwnDID)
	}
	for _, key := range a.Keys {
		if key.DID != "" && key.DID != a.OwnDID {
			dids = append(dids, key.DID)
		}
	}
	return dids
}

// Is reports whether an agent may act as a DID: its own, or one for which an operator vouches.
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

// ConsentState is the state of one edge between two handles.
type ConsentState string

// The states of an edge, each with the side that moves next.
const (
	ConsentNone     ConsentState = "none"     // the sender writes first
	ConsentPending  ConsentState = "pending"  // messages are held; the recipient answers
	ConsentAccepted ConsentState = "accepted" // messages are delivered
	ConsentBlocked  ConsentState = "blocked"  // messages are rejected
)

// Consent is one directed edge: whether From may write to To.
type Consent struct {
	From, To string
	State    ConsentState
	Updated  time.Time
	Version  uint64
	// Barred is the time before which From may not ask again after it was unblocked, or zero.
	Barred time.Time
}

// The limits of an edge without consent.
//
// spec: airc-v0.1.1 §9.6
const (
	// MaxRequests bounds the recipients asked within [RequestWindow], except recipients that accepted.
	MaxRequests   = 10
	RequestWindow = time.Hour
	// UnblockBar is the wait of an unblocked sender before its next request.
	UnblockBar = 24 * time.Hour
)

// KeyStatus is the status of an agent's key.
//
// spec: airc-v0.1.1 §5.3
type KeyStatus string

// The statuses of a key.
const (
	KeyStatusActive  KeyStatus = "active"  // signs, and may change the keys
	KeyStatusPending KeyStatus = "pending" // still signs, but was replaced
	KeyStatusRevoked KeyStatus = "revoked" // no longer signs
	KeyStatusExpired KeyStatus = "expired" // no longer signs
)

// MaxKeys bounds the stored keys of one agent. Above it the oldest invalid key is deleted.
const MaxKeys = 64

// Key is one signing key of an agent.
type Key struct {
	ID      string         // the kid of its messages
	DID     federation.DID // empty for an unproved key
	Public  ed25519.PublicKey
	Created time.Time
	Expires time.Time // zero for never
	// Revoked is the time from which it is invalid: the receipt of its revocation, or the end of
	// the overlap with its successor. It is zero if neither is known.
	Revoked time.Time
	Reason  string // given by the agent for a revocation
}

// Status returns the status of a key for messages received at the given time, regardless of the
// time claimed by the sender.
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

// Signs reports whether messages signed with a key are accepted at the given time.
func (k Key) Signs(at time.Time) bool {
	status := k.Status(at)
	return status == KeyStatusActive || status == KeyStatusPending
}

// EndWindow returns the entry for the key's end in the history of its DID. The end may be in the
// future.
func (k Key) EndWindow(end, seen time.Time) federation.KeyWindow {
	return federation.KeyWindow{DID: k.DID, KeyID: federation.KeyID(k.Public), Origin: federation.RevokedKey, Since: end, Seen: seen}
}

// Proved reports whether the agent proved possession of the key.
func (k Key) Proved() bool { return k.DID != "" }

// Begin returns a session of the agent with the end of its key, or [federation.ErrSessionEnded] if
// no key is valid.
func (a Agent) Begin(s federation.Session) (federation.Session, error) {
	if s.Key == "" && (len(a.Keys) == 0 || a.Primary(s.Created).Signs(s.Created)) {
		return s, nil
	}
	for _, key := range a.Keys {
		if s.Key != federation.KeyID(key.Public) || !key.Signs(s.Created) {
			continue
		}
		if s.Ends = key.Revoked; s.Ends.IsZero() || !key.Expires.IsZero() && key.Expires.Before(s.Ends) {
			s.Ends = key.Expires
		}
		return s, nil
	}
	return s, federation.ErrSessionEnded
}

// MessageIDWindow is the time for which a sender's message ID counts as used.
//
// spec: airc-v0.1.1 §7.3
const MessageIDWindow = 24 * time.Hour

// Message is one signed envelope in a registry.
type Message struct {
	ID       string
	From, To string
	Seq      uint64 // position in their thread, from 1; zero while held
	Envelope []byte // exactly as signed, without seq
	Event    federation.EventID
	Handoff  federation.HandoffID // both zero for a message without a step
	Received time.Time
	// Told is its delivery time in milliseconds, later than that of earlier messages in its thread.
	// It is zero while held.
	Told   time.Time
	Cursor federation.Cursor // next position in the inbox of To; set when read from there
	Now    federation.State  // current state of Handoff, set when read; "" without a handoff
}

// Ref implements [federation.Content]: the ID of the step, otherwise of the message.
func (m Message) Ref() string {
	if !m.Event.IsZero() {
		return m.Event.String()
	}
	return m.ID
}

// About implements [federation.Content].
func (m Message) About() federation.HandoffID { return m.Handoff }

// Place implements [federation.Content]: the position in its thread.
func (m Message) Place() uint64 { return m.Seq }

// Unverified begins the handle of a sender without a registry's signature. Consent to the marked
// address does not imply consent to the plain one, nor the reverse.
const Unverified = "?"

// Held is a message of an unverified sender, held until its recipient consents.
type Held struct {
	ID int64
	Message
}

// Posting is one message with the other changes of its filing, as the [federation.Effect] of a
// registry.
type Posting struct {
	Message Message
	// Held keeps the message back until its recipient consents. The edge From → To becomes pending.
	Held bool
	// Edge is the handle whose consent is needed, if not From: the registry's own messages about an
	// offer wait with the offer.
	Edge string
	// Quiet hides from From whether it was blocked: while barred, its messages are dropped, not
	// refused.
	Quiet bool
	// Relay is the delivery to the registry of the recipient, or nil for a local recipient.
	Relay *federation.PeerDelivery
	// Handshake is filed as delivered, only with the first message held on an edge. It is nil
	// unless the message is held.
	Handshake *Message
	// FirstContacts bounds the messages held for To by all senders; zero for no limit. It does not
	// apply to filed steps, which are always accepted.
	FirstContacts federation.InboxLimits
	// Source is the origin of From: a site, a link or a registry, or "". A full list of first
	// contacts drops the newest entry of the source with the largest share.
	Source string
	// Blob is a blob to keep as long as its handoff, or "".
	Blob federation.Capability
}

// Conversation has the messages between two handles, as visible to one of them.
type Conversation struct {
	With   string // the other handle
	Count  int    // without deleted messages
	Unread int
	Last   Message
}
