package federation

import (
	"time"
)

// Rank orders what waits for one link between handoffs: the lower one goes first.
type Rank int

// The ranks of the steps that wait.
const (
	RankOver     Rank = iota // it ended its handoff
	RankAnswer               // anything that is none of the others
	RankOffer                // it opened its handoff
	RankProgress             // a report on work
	RankMessage              // private text
	RankPersonal             // delivered to its channel, but not to a party that was away
)

// RankOf returns the rank of a step. The view is that after it.
func RankOf(ev Event, after View) Rank {
	switch {
	case ev.IsMessage():
		return RankMessage
	case after.Over:
		return RankOver
	case ev.ID == ev.Handoff:
		return RankOffer
	case ev.Verb == Progress:
		return RankProgress
	}
	return RankAnswer
}

// Turn is the turn of one sender at a link.
type Turn struct {
	Sender DID         // "" if nothing is due
	Lanes  []HandoffID // whose due deliveries the sender signed, the next one first
}

// Delivery is a pending delivery: one row of the outbox of a link. A link gets the rows of
// one handoff in order. The rows of different handoffs do not wait for each other.
type Delivery struct {
	Row     int64 // position in the outbox; rows of one handoff are delivered in this order
	Entry   Entry
	View    View      // of the handoff as it stands now
	Attempt int       // how often it was handed to the link before
	Next    time.Time // when the first row of its handoff is tried; zero for at once
	Reason  string    // why the last attempt failed; "" before one did
	// Personal marks a delivery that has reached its channel and waits for an absent party. Later
	// rows of the handoff do not wait for it.
	Personal bool
	// Skipped counts the earlier reports of progress that this one replaces. The outbox
	// worker sets it, not the record.
	Skipped int
	// Broken is why the record cannot read the row; "" for one that it can. Such a row has
	// no Entry and no View.
	Broken string
}

// Given is a delivery that a link has made.
type Given struct {
	Delivery
	At time.Time
}

// Withheld is an operator's word that nothing is delivered to a link or a peer.
type Withheld struct {
	To     string
	Since  time.Time
	Reason string
}

// Failure is one attempt that came to nothing.
type Failure struct {
	Reason string
	At     time.Time
	Next   time.Time // when to try again
	// Counted says that Attempt was called for it before.
	Counted bool
	// Personal makes the delivery wait for an absent party: see [Delivery].
	Personal bool
}

// Settlement says how deliveries ended.
type Settlement struct {
	State DeliveryState // "" is delivered
	Code  string        // of a refusal
	Why   string        // for people, of what was not delivered
	Dead  DeadReason    // of what was given up and is kept; "" of what is not
	Quiet bool          // the signers are not told
	Shown bool          // to the people of the link
	At    time.Time
}

// Outcome returns the state that it leaves behind.
func (s Settlement) Outcome() DeliveryState {
	if s.State == "" {
		return DeliveryDelivered
	}
	return s.State
}
