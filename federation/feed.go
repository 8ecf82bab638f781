package federation

import (
	"context"
	"time"
)

// Rank orders what waits for one link between handoffs: the lower one goes first.
type Rank int

// The ranks of the steps that wait.
const (
	RankOver     Rank = iota // it ended its handoff
	RankAnswer               // anything that is none of the others
	RankOffer                // it opened its handoff
	RankProgress             // somebody reports
)

// RankOf returns the rank of a step. The view is that after it.
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

// Delivery is one row of a feed: a step that a link is still owed. The rows of one
// handoff are a lane: they are delivered in their order, and hold up no others.
type Delivery struct {
	Row     int64 // position in the feed; rows of one handoff are delivered in this order
	Entry   Entry
	View    View      // of the handoff as it stands now
	Attempt int       // how often it was handed to the link before
	Next    time.Time // when it is tried, at the head of its lane; zero for at once
	Reason  string    // why the last attempt failed; "" before one did
	// Skipped is how many reports of progress before this one are not delivered by
	// themselves: this one is newer. It is set by the feed, not by the record.
	Skipped int
	// Broken is why the record cannot read the row; "" for one that it can. Such a row has
	// no Entry and no View.
	Broken string
}

// Feeds holds what each link has still to deliver. Its promises are those of
// [Store].
type Feeds interface {
	// Owed returns up to limit rows of a link after a row, oldest first.
	Owed(ctx context.Context, link string, after int64, limit int) ([]Delivery, error)
	// OwedIn returns how many rows of a link are of one handoff.
	OwedIn(ctx context.Context, link string, id HandoffID) (int, error)
	// Heads returns up to limit lanes of a link whose first row is to be tried now: those of
	// the lowest [Rank] first, of one rank the oldest.
	Heads(ctx context.Context, link string, now time.Time, limit int) ([]HandoffID, error)
	// Lane returns up to limit rows of one lane in order. A row that cannot be read is
	// among them, as Broken.
	Lane(ctx context.Context, link string, id HandoffID, limit int) ([]Delivery, error)
	// Stuck returns the first lane, in the order of Heads, whose first row waits for a time
	// after now: of the handoffs of a DID, where it has any, else of all. It returns
	// [ErrNotFound] where nothing waits.
	Stuck(ctx context.Context, link string, did DID, now time.Time) (HandoffID, error)
	// Attempt counts one more attempt on each row. It is durable before anything is
	// written to the peer, so that what may be shown once at most is.
	Attempt(ctx context.Context, link string, rows []int64) error
	// Failed notes that an attempt on a row came to nothing, and when the next one is.
	Failed(ctx context.Context, link string, row int64, f Failure) error
	// Hurry lets every lane of a link be tried at once. What was counted stays.
	Hurry(ctx context.Context, link string) error
	// Settle ends rows: delivered, refused, or given up. Where the link has shown them
	// to its people, the steps do not wait any more in the inboxes of the DIDs that
	// are bound to it. It files the notices to the signers, and the dead letters.
	Settle(ctx context.Context, link string, rows []int64, s Settlement) error
	// Given returns up to limit rows of a link that ended delivered at or after a time,
	// in the order in which they did.
	Given(ctx context.Context, link string, since time.Time, limit int) ([]Given, error)
	// Delay files a [NoticeDelayed] for up to limit rows that were filed at or before a
	// time and have none, and returns how many. A step that an agent was told then, and
	// has not fetched, is one; so is one that waits in an inbox which is its only way to
	// its reader (see [InboxLink]).
	Delay(ctx context.Context, before, now time.Time, limit int) (delayed int, err error)
	// Expire gives up to limit rows up that were filed at or before a time, of whatever
	// link, and returns how many. Of what an agent was told then, and has not fetched, the
	// delivery is [DeliveryExpired].
	Expire(ctx context.Context, before, now time.Time, limit int) (expired int, err error)
	// Held returns whether, and since when, nothing is delivered to a link or a peer by
	// the word of an operator.
	Held(ctx context.Context, to string) (Withheld, bool, error)
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
}

// Settlement says how rows of a feed ended.
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
