package federation

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"time"
)

// ErrTaken is returned by [Registry.AddAgent] for a handle that somebody has.
var ErrTaken = errors.New("federation: handle taken")

// ErrDuplicate is returned by [Registry.Post] for a message id that its sender
// used within [MessageIDWindow].
var ErrDuplicate = errors.New("federation: message id used before")

// MessageIDWindow is how long a sender's message id counts as used.
//
// spec: airc-v0.1.1 §7.3
const MessageIDWindow = 24 * time.Hour

// Agent is an identity that registered here by proof of possession.
type Agent struct {
	Handle       string
	DID          DID // did:key that this gateway keeps for it; its identity on other networks
	OwnDID       DID // did:key of the key it registered; reaches the same inbox
	Keys         []AgentKey
	Capabilities json.RawMessage // as registered; nil when none
	Metadata     json.RawMessage // as registered; nil when none
	Registered   time.Time
	KeptKey      ed25519.PublicKey // of DID
}

// AgentKey is one key that an agent signs its messages with.
type AgentKey struct {
	ID      string // the kid of its messages
	Public  ed25519.PublicKey
	Created time.Time
}

// Message is one signed envelope in a registry's keeping.
type Message struct {
	ID       string
	From, To string // handles
	Seq      uint64 // position in the thread of the two, from 1; zero while held
	Envelope []byte // exactly as signed, without seq
	Event    EventID
	Handoff  HandoffID // both zero for a message that is no step
	Received time.Time
	Cursor   Cursor // after it, in the inbox of To; set when read from there
}

// Posting is one message with what its filing changes beside it.
type Posting struct {
	Message Message
	// Held keeps the message back until its recipient consents. The edge From → To
	// becomes pending.
	Held bool
	// Handshake is filed, delivered, with the first message that is held on an
	// edge, and only then. Nil for a message that is not held.
	Handshake *Message
}

// ConsentState is where one edge between two handles stands.
type ConsentState string

// The states of an edge, each with whose move is next.
const (
	ConsentNone     ConsentState = "none"     // the sender writes first
	ConsentPending  ConsentState = "pending"  // messages are held; the recipient answers
	ConsentAccepted ConsentState = "accepted" // messages are delivered
	ConsentBlocked  ConsentState = "blocked"  // messages are turned away
)

// Consent is one directed edge: may From write to To.
type Consent struct {
	From, To string // handles
	State    ConsentState
	Updated  time.Time
	Version  uint64 // counts the changes of this edge; zero for one that never changed
}

// Registry is the record of the agents of one registry, their messages and their
// consent. Its promises are those of [Store].
type Registry interface {
	// AddAgent returns [ErrTaken] when the handle is somebody's.
	AddAgent(ctx context.Context, a Agent) error
	// Agent returns [ErrNotFound] for a handle that nobody registered.
	Agent(ctx context.Context, handle string) (Agent, error)
	// AgentOf finds an agent by either of its DIDs, or returns [ErrNotFound].
	AgentOf(ctx context.Context, did DID) (Agent, error)

	// Post files one message and returns it with its Seq (zero when held), in one
	// transaction with what else the Posting says. A message of an event that its
	// recipient already has, held or delivered, is not filed again; the one on file
	// is returned. Otherwise it returns [ErrDuplicate] when From used the ID within
	// [MessageIDWindow] before Received.
	Post(ctx context.Context, p Posting) (Message, error)
	// Sent returns the newest message with this id that the sender sent since then,
	// held ones too, or [ErrNotFound].
	Sent(ctx context.Context, from, id string, since time.Time) (Message, error)
	// Named returns a message with this id that the handle sent or was delivered,
	// or [ErrNotFound].
	Named(ctx context.Context, handle, id string) (Message, error)
	// Inbox returns up to limit messages delivered to a handle after the cursor,
	// oldest first, and whether there are more. Held ones are not there. It returns
	// [ErrUnknownCursor] for a cursor that this inbox never gave out.
	Inbox(ctx context.Context, to string, after Cursor, limit int) (messages []Message, more bool, err error)

	// Consent returns an edge; one that never changed is [ConsentNone].
	Consent(ctx context.Context, from, to string) (Consent, error)
	// Accept sets the edges from → to and to → from to accepted and delivers what
	// was held on them, in the order it came; an edge that its recipient blocked
	// stays so. It returns the first edge. Accepting again changes nothing.
	Accept(ctx context.Context, from, to string, now time.Time) (Consent, error)
	// Block sets the edge from → to to blocked and discards what was held on it.
	// Blocking again changes nothing.
	Block(ctx context.Context, from, to string, now time.Time) (Consent, error)
}

// Record is all that one durable store keeps.
type Record interface {
	Store
	Inboxes
	Feeds
	Bindings
	Registry
	// Ready returns nil while the record can be written.
	Ready(ctx context.Context) error
	// Close ends the record after what was begun is on disk.
	Close() error
}
