package federation

import (
	"time"
)

// MaxPeerDeliveries is how many deliveries wait for one peer. The record takes no more while the peer is
// away.
const MaxPeerDeliveries = 10_000

// PeerDeliveryKind says what a peer is told by a delivery.
type PeerDeliveryKind string

// The kinds.
const (
	MessageDelivery  PeerDeliveryKind = "message"  // a message to one of its participants
	DecisionDelivery PeerDeliveryKind = "decision" // a decision of a participant here about one of its own
)

// PeerDelivery is one document that a network is to send to a peer of its own, such as another
// server of its kind.
type PeerDelivery struct {
	Row      int64
	Kind     PeerDeliveryKind // empty for [MessageDelivery]
	Peer     string           // its name
	Sender   string           // participant here
	Message  string           // id of the message; of a decision what tells it from others of its Sender
	OrderKey string           // deliveries with one key arrive in order
	Document []byte           // JSON; an attempt adds what is its own
	Handoff  HandoffID
	Queued   time.Time
	Attempt  int
	Next     time.Time // when it is to be tried
	Delayed  bool      // its sender was told that it takes time
	Reason   string    // why the last attempt failed
	// Unsure is the id of an attempt that was not answered: the peer may have it. Empty
	// where the last one was answered.
	Unsure string
}

// PeerOutbox is a peer with pending relays.
type PeerOutbox struct {
	Name     string    // of the peer
	Failures int       // visits in a row that it did not answer
	Next     time.Time // when it is asked again; zero where it answered
}

// PeerBacklog is how the queue of one peer stands.
type PeerBacklog struct {
	Peer   string    // its name
	Rows   int       // that wait
	Oldest time.Time // when the oldest of them was queued; zero where none waits
	Dead   int       // that were given up, and are kept
}
