package federation

import (
	"context"
	"time"
)

// MaxRelays is how many relays wait for one peer. More than that is not taken while it is
// away.
const MaxRelays = 10_000

// RelayKind is what a peer is told by a relay.
type RelayKind string

// The kinds of relays.
const (
	MessageRelay RelayKind = "message" // a message to one of its participants
	ConsentRelay RelayKind = "consent" // what a participant here decided about one of its own
)

// Relay is one document that a network is to send to a peer of its own, such as another
// server of its kind.
type Relay struct {
	Row      int64
	Kind     RelayKind // empty for [MessageRelay]
	Peer     string    // its name
	Sender   string    // participant here
	Message  string    // id of the message; of a decision what tells it from others of its Sender
	Lane     string    // what is in one lane arrives in order
	Document []byte    // JSON; an attempt adds what is its own
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

// RelayPeer is a peer with pending relays.
type RelayPeer struct {
	Name     string    // of the peer
	Failures int       // visits in a row that it did not answer
	Next     time.Time // when it is asked again; zero where it answered
}

// RelayBacklog is how the queue of one peer stands.
type RelayBacklog struct {
	Peer   string    // its name
	Rows   int       // that wait
	Oldest time.Time // when the oldest of them was queued; zero where none waits
	Dead   int       // that were given up, and are kept
}

// Relays holds the pending relays. Its promises are those of [Store]. What Relayed, Bury and
// Delayed mean to the signer of a step is filed as a [Notice], unless the network tells that
// signer itself.
type Relays interface {
	// Enqueue files a relay that goes with no message of the record, unless the same
	// Message of the same Sender waits in its Lane already. It returns a
	// [*UnavailableError] where [MaxRelays] wait for the peer.
	Enqueue(ctx context.Context, r Relay) error
	// RelayPeers returns the peers with pending relays, by their names.
	RelayPeers(ctx context.Context) ([]RelayPeer, error)
	// Pause notes that a peer did not answer, or with no Failures that it did.
	Pause(ctx context.Context, p RelayPeer) error
	// RelayBacklogs returns how the queue of each peer stands, by their names.
	RelayBacklogs(ctx context.Context) ([]RelayBacklog, error)
	// Relays returns up to limit rows of a peer after one, in the order in which they
	// were queued; after 0 from the first.
	Relays(ctx context.Context, peer string, after int64, limit int) ([]Relay, error)
	// Attempted notes that a row is about to be sent under an id, by which replies may
	// name its message.
	Attempted(ctx context.Context, row int64, id string, now time.Time) error
	// Postpone notes why an attempt failed, the id under which the peer may have the
	// message nevertheless, and when the next attempt is.
	Postpone(ctx context.Context, row int64, reason, unsure string, now, next time.Time) error
	// Relayed takes a row out: the peer has it.
	Relayed(ctx context.Context, row int64, now time.Time) error
	// Bury gives a row up, and keeps it as a [DeadLetter].
	Bury(ctx context.Context, row int64, reason DeadReason, why string, now time.Time) error
	// Slow returns up to limit messages that were queued at or before a time, and whose
	// sender was not told of that yet.
	Slow(ctx context.Context, queued time.Time, limit int) ([]Relay, error)
	// Delayed notes that the sender of a row was told that it takes time.
	Delayed(ctx context.Context, row int64, now time.Time) error
}
