package federation

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// ErrTaken is returned by [Registry.AddAgent] for a handle that somebody has, and
// by [BoundNames.BindName] for a name that stands for another DID.
var ErrTaken = errors.New("federation: handle taken")

// ErrDuplicate is returned by [Registry.Post] for a message id that its sender
// used within [MessageIDWindow].
var ErrDuplicate = errors.New("federation: message id used before")

// ErrSpent is returned by [Registry.AdvanceSession] for a refresh token that was
// used before.
var ErrSpent = errors.New("federation: refresh token used before")

// MessageIDWindow is how long a sender's message id counts as used.
//
// spec: airc-v0.1.1 §7.3
const MessageIDWindow = 24 * time.Hour

// Agent is an identity that registered here. Which of its keys it proved they say themselves.
type Agent struct {
	Handle       string
	DID          DID             // did:key that this gateway keeps for it; its identity on other networks
	OwnDID       DID             // did:key of its primary key, where that is proved, else DID; reaches the same inbox
	Keys         []AgentKey      // in the order in which they were registered
	Capabilities json.RawMessage // as registered; nil when none
	Metadata     json.RawMessage // as registered; nil when none
	Registered   time.Time
	KeptKey      ed25519.PublicKey // of DID
	Shows        Shows
	Account      Account // by which it registered; zero where by none
	// Bound is the binding of its handle, zero where an operator made none. It is no
	// part of what is kept of an agent.
	Bound BoundName
}

// Account is one at an issuer of OpenID Connect. It is told to nobody but its agent.
//
// spec: airc-v0.1.1 §11.4
type Account struct{ Issuer, Subject string }

// StandsFor returns the DID by which a handoff knows an agent, where that is not its
// first one: one of its keys', or the one that its handle is bound to.
func (a Agent) StandsFor(v View) DID {
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

// Visibility is who may see a part of an agent's presence.
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
// has not said anything: its contacts see that it is there, and nobody what it does.
type Shows struct {
	Presence Visibility // empty for [VisibleContacts]
	Context  Visibility // what it works on; empty for [VisibleNone]
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
	// Told is when it was delivered, to the millisecond: later than that of every
	// message before it in its thread. Zero while held.
	Told   time.Time
	Cursor Cursor // after it, in the inbox of To; set when read from there
}

// ReadHere reports whether messages to a handle are for an agent of this registry to
// fetch: no other registry's, no DID of another network and no role.
func ReadHere(handle string) bool {
	return !strings.Contains(handle, "@") && !ReservedName(RegistryLink, handle) && handle != "system" && handle != "anyone"
}

// Session is one family of refresh tokens: each is spent by the next.
type Session struct {
	ID         string
	Handle     string // of the agent; or the DID of whoever has no handle
	Generation uint64 // of the token that is good now
	Expires    time.Time
}

// Posting is one message with what its filing changes beside it.
type Posting struct {
	Message Message
	// Held keeps the message back until its recipient consents. The edge From → To
	// becomes pending.
	Held bool
	// Edge is the handle whose consent the message waits for, where that is not its
	// From: what the registry says of an offer goes with the offer.
	Edge string
	// Quiet says that From must not learn whether it was blocked: while it is barred
	// from asking, the message is lost instead of refused.
	Quiet bool
	// Relay is queued with the message, for the registry of its recipient; nil for a
	// recipient here.
	Relay *Relay
	// Handshake is filed, delivered, with the first message that is held on an
	// edge, and only then. Nil for a message that is not held.
	Handshake *Message
	// FirstContacts bounds what is held for To by all senders; zero for no limit. Only what
	// asks for something new has one: a step that is on file always finds room.
	FirstContacts InboxLimits
	// Blob is one that the message refers to, kept as long as its handoff; "" for none.
	Blob Capability
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
	// Barred is until when From may not ask again, because To unblocked it after it
	// had blocked a request; zero where it may.
	Barred time.Time
}

// What an edge without consent may ask for.
//
// spec: airc-v0.1.1 §9.6
const (
	// MaxRequests is how many recipients a sender may ask within [RequestWindow], but
	// for those who accepted.
	MaxRequests   = 10
	RequestWindow = time.Hour
	// UnblockBar is how long a sender whose request was blocked may not ask again once
	// it is unblocked.
	UnblockBar = 24 * time.Hour
)

// Registry is the record of the agents of one registry, their messages and their
// consent. Its promises are those of [Store].
type Registry interface {
	Conversations
	Relays
	KeyProofs

	// AddAgent returns [ErrTaken] when the handle is somebody's. A key whose DID another
	// agent has is filed without its DID.
	AddAgent(ctx context.Context, a Agent) error
	// Agent returns [ErrNotFound] for a handle that nobody registered.
	Agent(ctx context.Context, handle string) (Agent, error)
	// AgentOf finds an agent by any of its DIDs, those of revoked keys among them: what
	// was addressed to one stays the agent's. It returns [ErrNotFound] for a DID of
	// nobody here.
	AgentOf(ctx context.Context, did DID) (Agent, error)
	// RotateKey gives an agent a key that becomes its primary one, on the word of the
	// key that was so far, or where by is empty on that of whoever may do so without
	// one: the keys without an end are good until then, which the history of their own
	// DIDs has from now on (see [Keys]).
	// It returns the agent as it is after, [ErrStale] when the key that gives its word
	// is not active any more, and [ErrTaken] when the agent has a key of that name or
	// with those bytes. A key whose DID another agent has, signed a filed step or has a
	// session is filed without its DID: the proof in a rotation names no handle.
	RotateKey(ctx context.Context, handle, by string, key AgentKey, now, until time.Time) (Agent, error)
	// RevokeKey ends a key of an agent at once, on the word of an active one, maybe
	// itself, for its own DID too (see [Keys.Revoke]). With the last active key of an agent
	// its newest pending one becomes active again, and its end, which was to come, is
	// taken back; with the last key of all the agent's sessions end. It returns the
	// agent as it is after, [ErrStale] as RotateKey does, and [ErrNotFound] for a key
	// that is not there. Revoking again changes nothing.
	RevokeKey(ctx context.Context, handle, by, kid, reason string, now time.Time) (Agent, error)

	// Post files one message and returns it with its Seq (zero when held), in one
	// transaction with what else the Posting says. A message of an event that its
	// recipient already has, held or delivered, is not filed again; the one on file
	// is returned. Otherwise it returns [ErrDuplicate] when From used the ID within
	// [MessageIDWindow] before Received, and a [*RefusalError] with [RateLimited] when
	// the message would ask for consent and From may not: because it asked
	// [MaxRequests] others, or is barred. It returns one with [InboxFull] when the message
	// would be held and its FirstContacts have no room. What was held stays held.
	Post(ctx context.Context, p Posting) (Message, error)
	// Sent returns the newest message with this id that the sender sent since then,
	// held ones too, or [ErrNotFound].
	Sent(ctx context.Context, from, id string, since time.Time) (Message, error)
	// Named returns a message with this id that the handle sent or was delivered, or
	// that was sent to its registry under this id, or [ErrNotFound].
	Named(ctx context.Context, handle, id string) (Message, error)
	// OfferMessage returns the message of the offer that opened a handoff, as a handle
	// sent it or was delivered it, or [ErrNotFound].
	OfferMessage(ctx context.Context, handle string, id HandoffID) (Message, error)
	// Inbox returns up to limit messages delivered to a handle after the cursor,
	// oldest first, and whether there are more. Held ones are not there. It returns
	// [ErrUnknownCursor] for a cursor that this inbox never gave out.
	Inbox(ctx context.Context, to string, after Cursor, limit int) (messages []Message, more bool, err error)
	// Unshown returns the messages that are no steps and wait for a handle, held or not
	// handed out yet, and those of one sender among them. Steps wait in [Inboxes].
	Unshown(ctx context.Context, to, from string) (InboxUse, error)
	// Show notes that a handle was handed its messages up to a cursor.
	Show(ctx context.Context, to string, upTo Cursor) error
	// HandOut notes that a handle was handed the messages of some steps, which reach it at
	// that moment: the signer of one that was told that it takes time is told that too.
	// Until then, or until it acknowledges the message, a step waits for it. Handing out
	// again changes nothing.
	HandOut(ctx context.Context, to string, events []EventID, now time.Time) error
	// Thread returns up to limit messages between two handles with a Seq above after,
	// in order, without those that the first of them deleted, and whether there are
	// more.
	Thread(ctx context.Context, handle, peer string, after uint64, limit int) (messages []Message, more bool, err error)
	// MarkRead notes that a handle has read a message delivered to it. It returns
	// [ErrNotFound] for one that was not. Marking again changes nothing.
	MarkRead(ctx context.Context, handle, id string, now time.Time) error
	// Delete takes a message from the inbox and the threads of the handle that it was
	// delivered to; its sender keeps it, and its ID stays used. It returns
	// [ErrNotFound] for one that is not there.
	Delete(ctx context.Context, handle, id string) error
	// Shown returns the handles that were sent a message of a handoff, each once.
	Shown(ctx context.Context, id HandoffID) ([]string, error)

	// Capable returns the agents whose registered skills hold all of caps, of which
	// there must be one at least.
	Capable(ctx context.Context, caps []string) ([]Agent, error)

	// StartSession begins a family of refresh tokens.
	StartSession(ctx context.Context, s Session) error
	// AdvanceSession spends one refresh token: the family goes from that generation
	// to the next, and its end to expires. It returns [ErrSpent] when the family is
	// not at that generation any more, and ends it; and [ErrNotFound] for a family
	// that has ended.
	AdvanceSession(ctx context.Context, id string, generation uint64, now, expires time.Time) (Session, error)

	// Consent returns an edge; one that never changed is [ConsentNone].
	Consent(ctx context.Context, from, to string) (Consent, error)
	// Accept sets the edges from → to and to → from to accepted and delivers what
	// was held on them, in the order it came; an edge that its recipient blocked
	// stays so. It returns the first edge. Accepting again changes nothing.
	Accept(ctx context.Context, from, to string, now time.Time) (Consent, error)
	// AcceptOneWay is Accept without the edge to → from.
	AcceptOneWay(ctx context.Context, from, to string, now time.Time) (Consent, error)
	// Block sets the edge from → to to blocked and discards what was held on it.
	// Blocking again changes nothing.
	Block(ctx context.Context, from, to string, now time.Time) (Consent, error)
	// Unblock sets an edge that is blocked back to none. Another one stays as it is.
	Unblock(ctx context.Context, from, to string, now time.Time) (Consent, error)
	// Contacts returns up to limit handles with which a handle has consent both ways,
	// in their order.
	Contacts(ctx context.Context, handle string, limit int) ([]string, error)
	// SetShows notes what an agent lets others see. It returns [ErrNotFound] for a
	// handle that nobody registered.
	SetShows(ctx context.Context, handle string, shows Shows) error
	// MayAsk returns nil where From may write to To, or ask for that, and otherwise the
	// refusal that Post would return, with the same bounds on first contacts.
	MayAsk(ctx context.Context, from, to string, firstContacts InboxLimits, now time.Time) error
	// Pending returns up to limit edges to a handle that wait for its decision, the
	// oldest first.
	Pending(ctx context.Context, to string, limit int) ([]Consent, error)
	// Unseen returns up to limit handoffs without a deadline that were offered to an
	// agent which never saw the offer: it waits for consent, or was thrown away. They
	// were opened at or before the time, and nobody answered them; the oldest first.
	Unseen(ctx context.Context, opened time.Time, limit int) ([]View, error)
}

// Record is all that one durable store keeps.
type Record interface {
	Store
	Handoffs
	Inboxes
	Leases
	Devices
	Feeds
	Bindings
	BoundNames
	Deliveries
	Keys
	Registry
	Retention
	Guests
	Notices
	Deferrals
	Homes
	Blobs
	DeadLetters
	Waits
	Audit
	PeerModes
	KnownHomes
	OperatorTokens
	Answers
	Declarations
	ReplicaLeases
	Spoken
	Hooks
	OwnKeys
	Newcomers
	BlockList
	Purges
	// Ready returns nil while the record can be written.
	Ready(ctx context.Context) error
	// Close ends the record after what was begun is on disk.
	Close() error
}
