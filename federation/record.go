package federation

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"
)

// ErrStale is returned by [Store.Append] and [Guests.Await] when another step was filed
// first. The caller reads the view again and judges again.
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
	Guest    bool      `json:"guest,omitempty"`      // Home is another one: it alone orders the steps, and ends what nobody answers
	Numbered bool      `json:"numbered,omitempty"`   // Home rules on every step, also on those that move nothing, and numbers them
	Venue    string    `json:"venue"`                // where its steps are written on a chat network
	Link     string    `json:"link,omitempty"`       // the only link of a private venue
	Signed   string    `json:"signed_for,omitempty"` // the venue that the opener was signed for, where that is another
	Offerer  DID       `json:"offerer"`
	Offeree  DID       `json:"offeree,omitempty"`  // empty when open
	Assignee DID       `json:"assignee,omitempty"` // empty before accept or claim

	Title    string    `json:"title"`
	Caps     []string  `json:"caps,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"` // zero when the offer named none
	Priority string    `json:"priority,omitempty"`

	BidDeadline time.Time `json:"bid_deadline,omitzero"` // zero when the offer named none
	Replaces    HandoffID `json:"replaces,omitzero"`     // the handoff that this one revives; perhaps unknown here

	Opened time.Time `json:"opened"`
	Moved  time.Time `json:"moved"` // when the last step was filed

	Answered Version   `json:"answered,omitempty"` // of the step that took it out of the state it opened in; 0 before
	Over     bool      `json:"over,omitempty"`     // no step can follow
	Clock    Clock     `json:"clock,omitempty"`    // what ends it if nobody moves it; "" for nothing
	Since    time.Time `json:"since,omitzero"`     // since when that runs; zero without Clock
}

// Clock names what the home waits for before it ends a handoff itself. The
// lifecycle of a kind says which one runs in which state, and may have others
// than these.
type Clock string

// The clocks of every home.
const (
	DeadlineClock   Clock = "deadline"   // runs from the deadline of an offer that nobody answered
	UnansweredClock Clock = "unanswered" // runs from the last step of an offer without deadline
	AbandonedClock  Clock = "abandoned"  // runs from the last step of work that somebody took on
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

// Filing is one step with all that its filing changes, written in one
// transaction or not at all: the event with its evidence, the view, a row in
// each inbox and each feed, the effects, and what is now known of the signer ([Binding],
// for an event whose arrival names one).
type Filing struct {
	Owed

	Event   Event
	After   Version // of the view that the step was judged against
	View    View    // as it is after the step
	Inboxes []DID
	Filed   time.Time
	// Receipt is the home's confirmation of the step, owed to the same feeds; nil
	// where the step needs none. It enters no log and no inbox.
	Receipt *Event
	// Newcomer is a DID that the record meets with the step, see [Newcomers]; "" for none.
	Newcomer DID
	// Ruling is that of the home of the handoff, where that is another one which numbers
	// its steps; else nil. The step does not wait for it any more, see [Guests].
	Ruling *Ruling
}

// Entry is one filed step as read back from a log, an inbox or a feed.
type Entry struct {
	Event   Event     `json:"event"`
	Version Version   `json:"version"` // position in the log of its handoff; the offer is 1; 0 for a receipt
	State   State     `json:"state"`   // of the handoff after it
	Filed   time.Time `json:"filed"`
	Cursor  Cursor    `json:"-"` // set when read from an inbox
	Number  uint64    `json:"-"` // in that inbox: from 1, without gaps as entries arrive
	Waits   bool      `json:"-"` // nobody has read it there yet
}

// Store is the record of handoffs. It is durable: a nil error means that the
// change survives a power cut. Its methods may be called concurrently and block
// on the disk. Each returns an error wrapping [*UnavailableError] when the disk
// cannot be written or read now.
type Store interface {
	// Append files a step. It returns [ErrStale] when f.After is not the version
	// of the log any more, and a [*RefusalError] with [EventIDInUse] when the
	// signer used the id before for other bytes, or the handoff id opened another
	// handoff. The same step twice (see [Event.Digest]) is filed once and answered
	// with the first Entry.
	Append(ctx context.Context, f Filing) (Entry, error)
	// Known returns the entry that a signer's step already has, found by its id, and
	// where that finds nothing by its digest: a gateway that vouches for the same
	// message a second time mints another id for it. It returns [ErrNotFound] for a
	// step not seen before and a [*RefusalError] with [EventIDInUse] when the id
	// was used for other bytes.
	Known(ctx context.Context, from DID, id EventID, digest [32]byte) (Entry, error)
	// View returns the zero View for a handoff that has no log here.
	View(ctx context.Context, id HandoffID) (View, error)
	// Log yields the steps of one handoff, oldest first, and ends.
	Log(ctx context.Context, id HandoffID) iter.Seq2[Entry, error]
	// Receipts returns the home's receipts for the steps of a handoff, oldest first.
	Receipts(ctx context.Context, id HandoffID) ([]Event, error)
	// Reference returns the handoff of a step by its event ID or the id of the
	// message that carried it, or [ErrNotFound].
	Reference(ctx context.Context, ref string) (HandoffID, error)
	// Evidence returns the bytes that a filed step or a kept rendition named by
	// their SHA-256, or [ErrNotFound].
	Evidence(ctx context.Context, digest [32]byte) ([]byte, error)
	// EvidenceOf returns the view of the handoff that named evidence first, or
	// [ErrNotFound] for bytes that none named.
	EvidenceOf(ctx context.Context, digest [32]byte) (View, error)
	// Keep files the evidence behind a rendition of a step of a handoff. Keeping it
	// again changes nothing.
	Keep(ctx context.Context, id HandoffID, evidence Evidence) error
	// Step returns the entry of a step in the log of a handoff by its event ID, the
	// first where several signers used one, or [ErrNotFound].
	Step(ctx context.Context, handoff HandoffID, id EventID) (Entry, error)
	// Due returns up to limit handoffs on which a clock has been running since a time
	// or longer, those first that it runs on longest.
	Due(ctx context.Context, clock Clock, since time.Time, limit int) ([]View, error)
	// Unfinished counts the handoffs that a DID offered and that are not over.
	Unfinished(ctx context.Context, offerer DID) (int, error)
}

// Inboxes holds what reached each DID. Its promises are those of [Store].
type Inboxes interface {
	// Replay returns up to limit entries that reached an inbox after the cursor,
	// oldest first. Reading changes nothing. It returns a [*CursorError], which wraps
	// [ErrUnknownCursor], for a cursor that this inbox never gave out.
	Replay(ctx context.Context, to DID, after Cursor, limit int) ([]Entry, error)
	// Waiting returns how many entries of an inbox nobody has read yet, and how many
	// bytes of signed documents that is.
	Waiting(ctx context.Context, to DID) (entries int, size int64, err error)
	// Use returns what waits in an inbox, and how much of that one DID signed.
	Use(ctx context.Context, to, from DID) (InboxUse, error)
	// Read notes that a DID has been shown some steps, which wait no more from then on:
	// they are delivered, and the signer of one that was told that it takes time is told
	// that too. A step that never reached the inbox is no error.
	Read(ctx context.Context, to DID, events []EventID, now time.Time) error
	// Lapse ends the waiting of steps that a DID was never shown: they are expired, and
	// stay to be read. Their signers are told; of an offer the home tells its offerer.
	Lapse(ctx context.Context, to DID, events []EventID, now time.Time) error
	// Undelivered returns up to limit entries that were filed at or before a time and
	// wait in an inbox ever since, oldest first.
	Undelivered(ctx context.Context, before time.Time, limit int) ([]Undelivered, error)
}

// Binding says which DID stood behind a name on a network.
type Binding struct {
	DID     DID
	Network string // as in [Arrival]
	Link    string
	Name    string // the newest
	First   string // the name at first sight, which aliases are made of for good
	Key     []byte // raw public key that verified last
	Seen    time.Time
}

// Bindings remembers the signers of filed steps, and whom vouched ones stand for.
// Its promises are those of [Store].
type Bindings interface {
	// Binding returns [ErrNotFound] for a DID that never signed a filed step, nor had
	// one vouched for in its name.
	Binding(ctx context.Context, did DID) (Binding, error)
	// BindingByHash finds a DID by the first characters of its [DID.Hash], at
	// least ten. It returns [ErrNotFound] when none or more than one fits.
	BindingByHash(ctx context.Context, prefix string) (Binding, error)
	// KeyOwner returns the DID whose key has this [KeyID]: of a signer of a filed
	// step or of a key that a network's tables noted. It returns [ErrNotFound] when no
	// owner is known.
	KeyOwner(ctx context.Context, keyID string) (DID, error)
}
