package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Outbox holds the pending deliveries of each link. Its promises are in [Store].
type Outbox interface {
	// Outbox returns up to limit rows of a link after a row, oldest first.
	Outbox(ctx context.Context, link string, after int64, limit int) ([]federation.Delivery, error)
	// CountPending returns how many rows of a link are of one handoff.
	CountPending(ctx context.Context, link string, id federation.HandoffID) (int, error)
	// Heads returns up to limit handoffs whose first row on a link is due now: rows of the
	// lowest [federation.Rank] first, of one rank the oldest. Where more than limit are due again
	// after a failure, the ones that became due first are returned. It returns none of a link that
	// is held.
	Heads(ctx context.Context, link string, now time.Time, limit int) ([]federation.HandoffID, error)
	// Turn returns the next sender after another one, in a circle of the DIDs that signed a due
	// first row, with up to limit handoffs of these rows in the order of Heads. Nothing is due to
	// a link that is held.
	Turn(ctx context.Context, link string, after federation.DID, now time.Time, limit int) (federation.Turn, error)
	// PendingOf returns up to limit rows of one handoff in order. Rows that wait for a party and
	// were not hurried come last. An unreadable row is included, as Broken.
	PendingOf(ctx context.Context, link string, id federation.HandoffID, limit int) ([]federation.Delivery, error)
	// Stuck returns a handoff whose first row is due after now: the first one of the DID, in the
	// order of Heads, where it has any, else the one that is due next. Of a DID with hundreds of
	// handoffs, and hundreds that wait, it may miss one. It returns [federation.ErrNotFound] where
	// no row waits.
	Stuck(ctx context.Context, link string, did federation.DID, now time.Time) (federation.HandoffID, error)
	// Attempt counts one more attempt on each row. It is durable before anything is
	// written to the peer, so that what may be shown once at most is.
	Attempt(ctx context.Context, link string, rows []int64) error
	// Failed records a failed attempt on a row, and the time of the next one. If the row waits for
	// a party from then on, it is no longer the first row of its handoff, and the row behind it is
	// due.
	Failed(ctx context.Context, link string, row int64, f federation.Failure) error
	// Hurry makes the first row of every handoff on a link due at once. Attempts stay
	// counted.
	Hurry(ctx context.Context, link string) error
	// Settle ends rows: delivered, refused, or given up. Where the link has shown them
	// to its people, the steps do not wait any more in the inboxes of the DIDs that
	// are bound to it. It files the notices to the signers, and the dead letters.
	Settle(ctx context.Context, link string, rows []int64, s federation.Settlement) error
	// Given returns up to limit rows of a link that ended delivered at or after a time,
	// in the order in which they did.
	Given(ctx context.Context, link string, since time.Time, limit int) ([]federation.Given, error)
	// Delay files a [federation.NoticeDelayed] for up to limit rows that were filed at or before a
	// time and have none, and returns how many. A step that an agent was told then, and
	// has not fetched, is one; so is one that waits in an inbox which is its only way to
	// its reader (see [federation.InboxLink]).
	Delay(ctx context.Context, before, now time.Time, limit int) (delayed int, err error)
	// Expire gives up to limit rows up that were filed at or before a time, of whatever
	// link, and returns how many. Of what an agent was told then, and has not fetched, the
	// delivery is [federation.DeliveryExpired].
	Expire(ctx context.Context, before, now time.Time, limit int) (expired int, err error)
	// Held returns whether, and since when, an operator paused the deliveries to a link or a
	// peer.
	Held(ctx context.Context, to string) (federation.Withheld, bool, error)
}
