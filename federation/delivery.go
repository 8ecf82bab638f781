package federation

import (
	"strings"
	"time"
)

// Rank is the priority of a delivery on its link, lowest first.
type Rank int

// The ranks of pending steps.
const (
	RankOver     Rank = iota // the step ended its handoff
	RankAnswer               // anything else
	RankOffer                // the step opened its handoff
	RankProgress             // progress
	RankMessage              // private text
	RankPersonal             // delivered to its channel, but not yet to an absent party
)

// RankOf returns the rank of a step, with the view after it.
func RankOf(ev Event, after View) Rank {
	switch {
	case after.Over:
		return RankOver
	case ev.ID == ev.Handoff:
		return RankOffer
	case ev.Verb == Progress:
		return RankProgress
	}
	return RankAnswer
}

// DestinationKind distinguishes destinations.
type DestinationKind string

// The kinds of destinations.
const (
	ToLink    DestinationKind = "link" // or another home
	ToPeer    DestinationKind = "peer" // of a network, such as another registry
	ToWebhook DestinationKind = "webhook"
	ToReaders DestinationKind = "notices" // of the notices of a link
)

// Destination is a delivery target with its own retry schedule.
type Destination struct {
	Name     string
	Failures int // consecutive
}

// PeerDestination returns the destination name of a peer, which differs from that of a home.
func PeerDestination(peer string) string { return string(ToPeer) + "/" + peer }

// NoticesOf returns the destination name for the notices of a link.
func NoticesOf(link string) string { return string(ToReaders) + "/" + link }

// KindOf splits a destination name into its kind and the rest.
func KindOf(to string) (kind DestinationKind, rest string) {
	for _, kind := range []DestinationKind{ToPeer, ToWebhook, ToReaders} {
		if rest, ok := strings.CutPrefix(to, string(kind)+"/"); ok {
			return kind, rest
		}
	}
	return ToLink, to
}

// Delivery is a pending delivery to one destination: an Entry, a Notice, a Document or a Push. The rows
// of one lane are delivered in order. A lane is a handoff, a conversation, or a sender and recipient.
// Lanes do not wait for each other.
type Delivery struct {
	Row      int64 // position in the queue
	Entry    Entry
	View     View // current; zero for text
	Notice   *Notice
	Document *PeerDelivery
	Push     *Push
	Queued   time.Time
	Attempt  int       // earlier attempts
	Next     time.Time // next attempt of the first row of its lane; zero for immediately
	Reason   string
	// Personal marks a delivery to an absent party, after delivery to its channel. It does not block
	// later rows.
	Personal bool
	// Skipped counts earlier progress steps replaced by this one. The outbox worker sets it.
	Skipped int
	// Broken is the reason why the record cannot read the row, or "". A broken row has no Entry or
	// View.
	Broken string
}

// Ref returns the ID of the step, text or message, or [Notice.Ref].
func (d Delivery) Ref() string {
	switch {
	case d.Notice != nil:
		return d.Notice.Ref()
	case d.Document != nil:
		return d.Document.Message
	case d.Push != nil:
		return d.Push.Ref()
	}
	return d.Entry.Row().ID.String()
}

// Handoff returns the handoff of the step, or the zero ID.
func (d Delivery) Handoff() HandoffID {
	switch {
	case d.Notice != nil:
		return d.Notice.Row().Handoff
	case d.Document != nil:
		return d.Document.Handoff
	case d.Push != nil:
		return d.Push.Handoff()
	}
	return d.Entry.Row().Handoff
}

// CompletedDelivery is a completed delivery to a link.
type CompletedDelivery struct {
	Delivery
	At time.Time
}

// PausedQueue is an operator's hold on the deliveries to a link or a peer.
type PausedQueue struct {
	To     string
	Since  time.Time
	Reason string
}

// Failure is one failed delivery attempt.
type Failure struct {
	Reason string
	At     time.Time
	Next   time.Time
	// Counted is true if Attempt was already called for it.
	Counted bool
	// Personal makes the delivery wait for an absent party, see [Delivery].
	Personal bool
	// Unsure is the ID of an unanswered attempt, see [PeerDelivery].
	Unsure string
}

// Settlement is the outcome of deliveries.
type Settlement struct {
	State DeliveryState // "" means delivered
	Code  string
	Why   string
	Dead  DeadReason // "" unless it is a dead letter
	Quiet bool       // signers are not notified
	Shown bool
	At    time.Time
}

// Outcome returns the state, [DeliveryDelivered] by default.
func (s Settlement) Outcome() DeliveryState {
	if s.State == "" {
		return DeliveryDelivered
	}
	return s.State
}

// DeadReason is the reason for abandoning a delivery. It is a stable identifier and a metric label.
type DeadReason string

// The reasons for a dead letter.
const (
	DeadExpired  DeadReason = "expired"
	DeadRefused  DeadReason = "refused"    // permanently, by a peer
	DeadFailed   DeadReason = "failed"     // every attempt, although the other side was reachable
	DeadBroken   DeadReason = "unreadable" // by the record
	DeadOperator DeadReason = "operator"
	DeadBlocked  DeadReason = "blocked" // by a block of the home; retried once the home is allowed
)

// DeadReasons returns all reasons.
func DeadReasons() []DeadReason {
	return []DeadReason{DeadExpired, DeadRefused, DeadFailed, DeadBroken, DeadOperator, DeadBlocked}
}

// Fix returns a remedy for the operator.
func (r DeadReason) Fix() string {
	switch r {
	case DeadExpired:
		return "find out why the peer was unreachable (baton link show), and replay once it is back; drop it if the handoff is over"
	case DeadRefused:
		return "read the answer of the peer; if it blocks this gateway or asks for consent, settle that with its operator, and replay"
	case DeadFailed:
		return "read the last error; replay once the cause is fixed at either side"
	case DeadBroken:
		return "run baton verify; restore the record from a backup, or drop it"
	case DeadBlocked:
		return "allow the home again (baton peer mode) to deliver it; drop it if the block is permanent"
	case DeadOperator:
		return "nothing: an operator failed it on purpose; replay it to undo that"
	}
	return "read the last error"
}

// DeadLetterError makes a delivery a dead letter at once, because it cannot succeed before an operator
// changes something here.
type DeadLetterError struct {
	Reason DeadReason
	Why    string
}

// Error implements error.
func (e *DeadLetterError) Error() string { return e.Why }

// MaxAttempts is the number of latest attempts stored per delivery.
const MaxAttempts = 16

// Attempt is a failed attempt.
type Attempt struct {
	Number int
	At     time.Time
	Reason string
}

// DeadLetter is an abandoned delivery.
type DeadLetter struct {
	ID       int64
	To       string
	ToPeer   bool
	Reason   DeadReason
	Why      string
	Event    EventID
	Handoff  HandoffID
	Verb     Verb
	Message  string
	Attempt  int
	Queued   time.Time
	Died     time.Time
	Replayed time.Time

	// Not in lists.

	Raw       []byte
	Signature string
	Tries     []Attempt
	Broken    string // why it is unreadable, or ""
}

// DeadFilter selects dead letters. A zero field matches all.
type DeadFilter struct {
	Reason DeadReason
	To     string
}

// Waiting is a pending delivery.
type Waiting struct {
	Link    string // link, webhook or notice readers; "" for a peer
	Peer    string
	Event   EventID
	Message string
	Handoff HandoffID
	Verb    Verb
	Queued  time.Time
	Attempt int
	Next    time.Time // zero for immediately
	Behind  bool      // another delivery with its order key comes first
	Reason  string
}

// To returns the destination.
func (w Waiting) To() string {
	if w.Link != "" {
		return w.Link
	}
	return w.Peer
}

// WaitingFilter selects deliveries. A zero field matches all. Set at most one of Link and Peer.
type WaitingFilter struct {
	Link    string // link, webhook or notice readers
	Peer    string
	Handoff HandoffID
	Before  time.Time
	ID      string
}

// Shape counts the pending deliveries of one destination, by age.
type Shape struct {
	Link   string // link, webhook or notice readers; "" for a peer
	Peer   string
	Rows   int
	Ages   [shapeAges + 1]int // per interval of [ShapeAges], then older ones
	Oldest time.Time
}

const shapeAges = 4

// ShapeAges returns the upper age limits of [Shape.Ages].
func ShapeAges() [shapeAges]time.Duration {
	return [...]time.Duration{time.Minute, 5 * time.Minute, time.Hour, 24 * time.Hour}
}

// MaxPeerDeliveries bounds the pending deliveries of one unreachable peer.
const MaxPeerDeliveries = 10_000

// PeerDeliveryKind is the content of a delivery to a peer.
type PeerDeliveryKind string

// The kinds of deliveries to peers.
const (
	MessageDelivery  PeerDeliveryKind = "message"
	DecisionDelivery PeerDeliveryKind = "decision" // about a participant of the peer
)

// PeerDelivery is a document for a peer of a network, such as another registry.
type PeerDelivery struct {
	Row      int64            // see [Delivery]
	Kind     PeerDeliveryKind // empty for [MessageDelivery]
	Peer     string
	Sender   string
	Message  string // of a decision: unique to Sender
	OrderKey string // for the order of deliveries
	Document []byte // JSON; each attempt adds members
	Handoff  HandoffID
	Queued   time.Time
	Attempt  int
	Next     time.Time
	Delayed  bool // the sender was notified
	Reason   string
	// Unsure is the ID of an unanswered attempt that the peer may have received, or "".
	Unsure string
}

// PeerOutbox is a peer with pending deliveries.
type PeerOutbox struct {
	Name     string
	Failures int       // consecutive
	Next     time.Time // zero if the peer responded
}

// PeerBacklog describes the queue of one peer.
type PeerBacklog struct {
	Peer   string
	Rows   int
	Oldest time.Time // or zero
	Dead   int
}
