package agents

import (
	"time"

	"baton/federation"
)

// MessageIDWindow is how long a sender's message id counts as used.
//
// spec: airc-v0.1.1 §7.3
const MessageIDWindow = 24 * time.Hour

// Message is one signed envelope in a registry's keeping.
type Message struct {
	ID       string
	From, To string // handles
	Seq      uint64 // position in the thread of the two, from 1; zero while held
	Envelope []byte // exactly as signed, without seq
	Event    federation.EventID
	Handoff  federation.HandoffID // both zero for a message that is no step
	Received time.Time
	// Told is when it was delivered, to the millisecond: later than that of every
	// message before it in its thread. Zero while held.
	Told   time.Time
	Cursor federation.Cursor // after it, in the inbox of To; set when read from there
	Now    federation.State  // current state of Handoff, set when read; "" without a handoff
}

// Ref implements [federation.Content]: the id of the step, else that of the message.
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

// Unverified begins the handle of a sender that no registry signed for. The marked address is
// another address than the plain one: consent to one is no consent to the other.
const Unverified = "?"

// Held is a message of an unverified sender that waits for the consent of its recipient, with its
// number in the record.
type Held struct {
	ID int64
	Message
}

// Posting is one message with what its filing changes beside it. It is the
// [federation.Effect] of a registry.
type Posting struct {
	Message Message
	// Held keeps the message back until its recipient consents. The edge From → To
	// becomes pending.
	Held bool
	// Edge is the handle whose consent the message waits for, where that is not its From: the
	// registry's own messages about an offer wait with the offer.
	Edge string
	// Quiet says that From must not learn whether it was blocked: while it is barred
	// from asking, the message is lost instead of refused.
	Quiet bool
	// Relay is queued with the message, for the registry of its recipient; nil for a
	// recipient here.
	Relay *federation.PeerDelivery
	// Handshake is filed, delivered, with the first message that is held on an
	// edge, and only then. Nil for a message that is not held.
	Handshake *Message
	// FirstContacts bounds what is held for To by all senders; zero for no limit. Only a
	// message that asks for something new has one: a step that is on file always finds room.
	FirstContacts federation.InboxLimits
	// Source is the origin of From: a site, a link or a registry; "" if unknown. If the list of
	// first contacts is full, the newest entry of the source with the largest share is dropped.
	Source string
	// Blob is one that the message refers to, kept as long as its handoff; "" for none.
	Blob federation.Capability
}

// Conversation is what two handles wrote to each other, as one of them sees it.
type Conversation struct {
	With   string // the other one
	Count  int    // messages, without deleted ones
	Unread int    // of them, to the handle
	Last   Message
}
