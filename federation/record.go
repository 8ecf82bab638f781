package federation

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// ErrStale is returned by the Append and the Await of the record when another step was filed first.
// The caller reads the view again and judges again.
var ErrStale = errors.New("federation: the log moved on")

// ErrNotFound is returned by the ports of the record for a name that nothing is
// kept under.
var ErrNotFound = errors.New("federation: not found")

// ErrTaken is returned by the ports of the record for a name that has an owner already, or
// that stands for another DID.
var ErrTaken = errors.New("federation: name taken")

// ErrUnknownCursor is returned by the ports that read on from a cursor for one
// that was never given out, or not for this inbox.
var ErrUnknownCursor = errors.New("federation: unknown cursor")

// Version counts the steps of one handoff. Zero is before the first.
type Version uint64

// Cursor is a position in one inbox, opaque to every network. The zero Cursor is
// the start.
type Cursor string

// View is what the log of one handoff says now. It can be rebuilt from the log.
// The zero View is that of a handoff without a log.
type View struct {
	ID       HandoffID `json:"id"`
	Kind     Kind      `json:"kind"`
	Dialect  Dialect   `json:"dialect"` // of its opener; it rules the handoff for life
	Version  Version   `json:"version"`
	State    State     `json:"state"`
	Home     HomeID    `json:"home"`
	Remote   bool      `json:"remote,omitempty"`     // Home is another gateway: it alone orders the steps, and ends unanswered offers
	Numbered bool      `json:"numbered,omitempty"`   // Home rules on every step and numbers it, also steps that move nothing
	Venue    string    `json:"venue"`                // where its steps are written on a chat network
	Link     string    `json:"link,omitempty"`       // the only link of a private venue
	Signed   string    `json:"signed_for,omitempty"` // the venue that the opener was signed for, where that is another
	Partial  []string  `json:"partial,omitempty"`    // links whose network lacks a step that moved it, which was a command there
	Offerer  DID       `json:"offerer"`
	Offeree  DID       `json:"offeree,omitempty"`  // empty when open
	Named    DID       `json:"named,omitempty"`    // DID of a key kept for Offeree, if the offer names that DID
	Assignee DID       `json:"assignee,omitempty"` // empty before accept or claim

	Title    string    `json:"title"`
	Caps     []string  `json:"caps,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"` // zero when the offer named none
	Priority string    `json:"priority,omitempty"`

	BidDeadline time.Time `json:"bid_deadline,omitzero"` // zero when the offer named none
	Replaces    HandoffID `json:"replaces,omitzero"`     // the handoff that this one revives; perhaps unknown here

	Opened time.Time `json:"opened"`
	Moved  time.Time `json:"moved"` // when the last step was filed

	Erased time.Time `json:"erased,omitzero"` // when an operator erased its content; zero for never

	Answered Version   `json:"answered,omitempty"` // of the step that took it out of the state it opened in; 0 before
	Over     bool      `json:"over,omitempty"`     // no step can follow
	Clock    Clock     `json:"clock,omitempty"`    // what ends it unless a step moves it; "" for nothing
	Since    time.Time `json:"since,omitzero"`     // since when that runs; zero without Clock
}

// Clock names what the home waits for before it ends a handoff itself. The
// lifecycle of a kind says which one runs in which state, and may have others
// than these.
type Clock string

// The clocks of every home.
const (
	DeadlineClock   Clock = "deadline"   // runs from the deadline of an unanswered offer
	UnansweredClock Clock = "unanswered" // runs from the last step of an offer without deadline
	AbandonedClock  Clock = "abandoned"  // runs from the last step of assigned work
)

// Exists reports whether the handoff has a log.
func (v View) Exists() bool { return v.Version > 0 }

// Others returns the DIDs that take part besides one: offerer, offeree and
// assignee, each once.
func (v View) Others(actor DID) []DID {
	var others []DID
	for _, did := range []DID{v.Offerer, v.Offeree, v.Assignee} {
		if did != "" && did != actor && !slices.Contains(others, did) {
			others = append(others, did)
		}
	}
	return others
}

// Addressee returns the DID named by the offer, "" for an open offer: [View].Offeree, or the DID of
// a key kept for it.
func (v View) Addressee() DID { return cmp.Or(v.Named, v.Offeree) }

// Filing is one step with all that its filing changes: the event with its evidence, the view,
// a row in each inbox and each outbox, the effects, and the [Binding] of the signer where the
// arrival names one. The record writes it in one transaction or not at all.
type Filing struct {
	Fanout

	Event   Event
	After   Version // of the view that the step was judged against
	View    View    // as it is after the step
	Inboxes []DID
	Filed   time.Time
	// Receipt is the home's confirmation of the step. It goes to the same links; nil where
	// the step needs none. It enters no log and no inbox.
	Receipt *Event
	// Newcomer is a DID that the record meets with the step; "" for none.
	Newcomer DID
	// Ruling is that of the home of the handoff, where that is another one which numbers
	// its steps; else nil. The step does not wait for it any more.
	Ruling *Ruling
}

// Entry is one filed step as read from a log, an inbox or an outbox.
type Entry struct {
	Event   Event     `json:"event"`
	Version Version   `json:"version"` // position in the log of its handoff; the offer is 1; 0 for a receipt
	State   State     `json:"state"`   // of the handoff after it
	Filed   time.Time `json:"filed"`
	Cursor  Cursor    `json:"-"` // set when read from an inbox
	Number  uint64    `json:"-"` // in that inbox: from 1, without gaps as entries arrive
	Waits   bool      `json:"-"` // it was not read there yet
	Now     State     `json:"-"` // of the handoff, set when read from an inbox; "" for a message
}

// Binding says which DID stood behind a name on a network.
type Binding struct {
	DID     DID
	Network string // as in [Arrival]
	Link    string
	Name    string    // the newest
	First   string    // the name at first sight, which aliases are made of for good
	Key     []byte    // raw public key that verified last
	Seen    time.Time // by the newest step
}
