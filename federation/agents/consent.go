package agents

import "time"

// ConsentState is where one edge between two handles stands.
type ConsentState string

// The states of an edge, each with the side that moves next.
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

// The limits of an edge without consent.
//
// spec: airc-v0.1.1 §9.6
const (
	// MaxRequests is how many recipients a sender may ask within [RequestWindow]. Recipients
	// that accepted do not count.
	MaxRequests   = 10
	RequestWindow = time.Hour
	// UnblockBar is how long a sender whose request was blocked may not ask again once it is
	// unblocked.
	UnblockBar = 24 * time.Hour
)
