package federation

import (
	"strings"
	"time"
)

// Rank is the priority among the deliveries of one link. The lowest rank is delivered first.
type Rank int

// The ranks of pending steps.
const (
	RankOver     Rank = iota // the step ended its handoff
	RankAnswer               // anything else
	RankOffer                // the step opened its handoff
	RankProgress             // progress
	RankMessage              // private text
	RankPersonal             // delivered to its channel, but not to an absent party
)

// RankOf returns the rank of a step. The view is the state after it.
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

// DestinationKind is the kind of a destination.
type DestinationKind string

// The kinds of destinations.
const (
	ToLink    DestinationKind = "link" // a link, or another home
	ToPeer    DestinationKind = "peer" // a peer of a network, such as another registry
	ToWebhook DestinationKind = "webhook"
	ToReaders DestinationKind = "notices" // the readers of the notices of a link
)

// Destination is a delivery target with its own retry schedule, such as a webhook.
type Destination struct {
	Name     string
	Failures int // consecutive attempts without a response
}

// PeerDestination returns the destination name of a peer, which differs from that of a home of the
// same name.
func PeerDestination(peer string) string { return string(ToPeer) + "/" + peer }

// NoticesOf returns the destination name for the notices of a link.
func NoticesOf(link string) string { return string(ToReaders) + "/" + link }

// KindOf splits the name of a destination into its kind and the rest.
func KindOf(to string) (kind DestinationKind, rest string) {
	for _, kind := range []DestinationKind{ToPeer, ToWebhook, ToReaders} {
		if rest, ok := strings.CutPrefix(to, string(kind)+"/"); ok {
			return kind, rest
		}
	}
	return ToLink, to
}

// Delivery is a pending delivery to one destination: an Entry, a Notice, a Document or a Push. A
// destination receives the rows of one lane in order: of one handoff, of one conversation, or of
// one sender and recipient. Lanes do not wait for each other.
type Delivery struct {
	Row      int64 // position among the items of the destination
	Entry    Entry
	View     View // current state of the handoff; zero for text
	Notice   *Notice
	Document *PeerDelivery
	Push     *Push
	Queued   time.Time
	Attempt  int       // earlier attempts
	Next     time.Time // next attempt of the first row of its handoff; zero for immediately
	Reason   string    // error of the last attempt, or ""
	// Personal marks a delivery that has reached its channel and waits for an absent party. It does
	// not block later rows of the handoff.
	Personal bool
	// Skipped counts the earlier progress steps that this one replaces. The outbox worker sets it.
	Skipped int
	// Broken is the reason why the record cannot read the row, or "". A broken row has no Entry or
	// View.
	Broken string
}

// Ref returns the ID of the delivered step, text or message, or [Notice.Ref].
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

// Handoff returns the handoff of the delivered step, or the zero ID if there is no step.
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

// CompletedDelivery is a delivery completed by a link.
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

// Failure is one failed attempt.
type Failure struct {
	Reason string
	At     time.Time
	Next   time.Time
	// Counted reports whether Attempt was called for it before.
	Counted bool
	// Personal makes the delivery wait for an absent party: see [Delivery].
	Personal bool
	// Unsure is the ID of an unanswered attempt: see [PeerDelivery].
	Unsure string
}

// Settlement is the outcome of deliveries.
type Settlement struct {
	State DeliveryState // "" is delivered
	Code  string
	Why   string
	Dead  DeadReason // "" unless it is a dead letter
	Quiet bool       // signers are not notified
	Shown bool
	At    time.Time
}

// Outcome returns the resulting state.
func (s Settlement) Outcome() DeliveryState {
	if s.State == "" {
		return DeliveryDelivered
	}
	return s.State
}

// DeadReason is the reason for abandoning a delivery. It is a stable identifier, and a label of
// metrics.
type DeadReason string

// The reasons for a dead letter.
const (
	DeadExpired  DeadReason = "expired"
	DeadRefused  DeadReason = "refused"    // a peer refused it permanently
	DeadFailed   DeadReason = "failed"     // each attempt failed, although the other side was reachable
	DeadBroken   DeadReason = "unreadable" // the record cannot read it
	DeadOperator DeadReason = "operator"
	DeadBlocked  DeadReason = "blocked" // an operator blocked the home; retried once it is allowed
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

// DeadLetterError is returned for a delivery that becomes a dead letter at once, because no attempt
// can succeed until an operator changes something here.
type DeadLetterError struct {
	Reason DeadReason
	Why    string
}

// Error implements error.
func (e *DeadLetterError) Error() string { return e.Why }

// MaxAttempts is the number of remembered attempts per delivery, the latest ones.
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
	To       string // link, or a peer of one
	ToPeer   bool
	Reason   DeadReason
	Why      string
	Event    EventID
	Handoff  HandoffID
	Verb     Verb
	Message  string // ID of the document for a peer
	Attempt  int
	Queued   time.Time
	Died     time.Time
	Replayed time.Time

	// Not in lists.

	Raw       []byte
	Signature string
	Tries     []Attempt
	Broken    string // why its subject cannot be read, or ""
}

// DeadFilter selects dead letters. A zero member matches all.
type DeadFilter struct {
	Reason DeadReason
	To     string
}

// Waiting is a pending delivery to a link, or to a peer of one.
type Waiting struct {
	Link    string // or the name of a webhook or of readers of notices; or
	Peer    string
	Event   EventID
	Message string
	Handoff HandoffID
	Verb    Verb
	Queued  time.Time
	Attempt int
	Next    time.Time // zero for immediately
	Behind  bool      // an earlier delivery has the same order key
	Reason  string
}

// To returns the destination.
func (w Waiting) To() string {
	if w.Link != "" {
		return w.Link
	}
	return w.Peer
}

// WaitingFilter selects deliveries. A zero member matches all. Link and Peer exclude each other's
// deliveries.
type WaitingFilter struct {
	Link    string // or the name of a webhook or of readers of notices
	Peer    string
	Handoff HandoffID
	Before  time.Time
	ID      string
}

// Shape counts the pending deliveries of one destination, by age.
type Shape struct {
	Link   string // or the name of a webhook or of readers of notices; or
	Peer   string
	Rows   int
	Ages   [shapeAges + 1]int // per interval of [ShapeAges], then the older ones
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
	MessageDelivery  PeerDeliveryKind = "message"  // to a participant of the peer
	DecisionDelivery PeerDeliveryKind = "decision" // a local decision about such a participant
)

// PeerDelivery is a document of a network for one of its peers, such as another registry.
type PeerDelivery struct {
	Row      int64            // as [Delivery.Row]
	Kind     PeerDeliveryKind // empty for [MessageDelivery]
	Peer     string
	Sender   string
	Message  string // for a decision, unique to its Sender
	OrderKey string // deliveries with one key arrive in order
	Document []byte // JSON, to which each attempt adds its own members
	Handoff  HandoffID
	Queued   time.Time
	Attempt  int
	Next     time.Time
	Delayed  bool // its sender was notified of the delay
	Reason   string
	// Unsure is the ID of an unanswered attempt, which the peer may have received, or "".
	Unsure string
}

// PeerOutbox is a peer with pending deliveries.
type PeerOutbox struct {
	Name     string
	Failures int       // consecutive attempts without a response
	Next     time.Time // zero if the peer responded
}

// PeerBacklog is the state of the queue of one peer.
type PeerBacklog struct {
	Peer   string
	Rows   int
	Oldest time.Time // zero if none is pending
	Dead   int
}
