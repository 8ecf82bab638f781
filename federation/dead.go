package federation

import (
	"time"
)

// DeadReason says why a delivery was given up. It is an interface for machines, and a
// label of metrics.
type DeadReason string

// The reasons.
const (
	DeadExpired  DeadReason = "expired"    // it waited longer than it may
	DeadRefused  DeadReason = "refused"    // a peer said no, for good
	DeadFailed   DeadReason = "failed"     // each attempt failed, and not because the other side was away
	DeadBroken   DeadReason = "unreadable" // the record cannot read it
	DeadOperator DeadReason = "operator"   // an operator gave it up
	DeadBlocked  DeadReason = "blocked"    // an operator blocked the home; it is scheduled again once the home is allowed
)

// DeadReasons are all of them.
func DeadReasons() []DeadReason {
	return []DeadReason{DeadExpired, DeadRefused, DeadFailed, DeadBroken, DeadOperator, DeadBlocked}
}

// Fix returns what an operator may do about it.
func (r DeadReason) Fix() string {
	switch r {
	case DeadExpired:
		return "see why the other side was away so long (baton link show), and replay once it is back; drop it if the handoff is over"
	case DeadRefused:
		return "read what the other side said; where it blocks this gateway or asks for consent, settle that with its operator, and replay"
	case DeadFailed:
		return "read the last error; after the cause is mended, here or there, replay"
	case DeadBroken:
		return "run baton verify; restore the record from a backup, or drop it"
	case DeadBlocked:
		return "allow the home again (baton peer mode), which delivers it; drop it if the block is to stay"
	case DeadOperator:
		return "nothing: it was given up on purpose; replay to take that back"
	}
	return "read the last error"
}

// GivenUpError is returned for a delivery that ends as a dead letter at once: no attempt can
// succeed until an operator changes something here.
type GivenUpError struct {
	Reason DeadReason
	Why    string // for people
}

// Error implements error.
func (e *GivenUpError) Error() string { return e.Why }

// MaxTries is how many of the last attempts on a delivery are remembered one by one.
const MaxTries = 16

// Try is one attempt that failed.
type Try struct {
	Number int // from 1
	At     time.Time
	Reason string
}

// DeadLetter is a delivery that was given up.
type DeadLetter struct {
	ID       int64
	To       string // link, or a peer of one
	ToPeer   bool   // it is a peer
	Reason   DeadReason
	Why      string // the last error
	Event    EventID
	Handoff  HandoffID
	Verb     Verb
	Message  string // id of the document for a peer
	Attempt  int
	Queued   time.Time
	Died     time.Time
	Replayed time.Time // zero unless it was put back

	// Of one that is read alone.

	Raw       []byte // the signed bytes, or the document of a message
	Signature string // as it stood on the wire
	Tries     []Try  // the last of them
	Broken    string // why what it is about cannot be read; else ""
}

// DeadFilter says which dead letters are asked for. A zero member agrees with all.
type DeadFilter struct {
	Reason DeadReason
	To     string
}
