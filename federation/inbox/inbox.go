// Package inbox reads the inboxes of DIDs. An inbox has the arrivals of a DID in order, and keeps
// them after they were read. A step enters the inboxes of the other parties of its handoff in the
// transaction that files it.
//
// A [Mailbox] has two ways to read:
//
//   - [Mailbox.Replay] returns all entries after a cursor, and changes nothing. Each device of a DID
//     has its own cursor, which [Mailbox.Advance] moves.
//   - [Mailbox.Lease] gives each waiting entry to one device for a time, and then to another device
//     unless the first one acknowledged the entry.
//
// An entry stops waiting once a device acknowledged it or read past it, or a network showed it to
// the DID. It stays in the inbox until its handoff leaves the record. An entry is delivered at least
// once; event IDs identify repetitions.
//
// The methods of a Mailbox block on the record alone, and may be called concurrently.
package inbox

import (
	"context"
	"fmt"
	"iter"
	"time"

	"baton/federation"
)

// pageSize is how many entries one read of the record fetches: few enough to hold in memory, and
// enough that round trips do not dominate a replay.
const pageSize = 256

// Inboxes reads the arrivals of each DID.
type Inboxes interface {
	// Replay returns up to limit entries that reached an inbox after the cursor, oldest
	// first. It blocks on the record and changes nothing. It returns a
	// [*federation.CursorError], which wraps [federation.ErrUnknownCursor], for a cursor that
	// this inbox never gave out.
	Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error)
}

// Leases gives each waiting entry to one device at a time. Its methods block on the disk; a
// nil error means that the change survives a power cut. Each returns an error wrapping a
// [*federation.UnavailableError] while the record cannot be used.
type Leases interface {
	// Lease gives a device up to limit waiting entries that no device has now, oldest first, until
	// a time.
	Lease(ctx context.Context, to federation.DID, device, session string, now, until time.Time, limit int) ([]federation.Lease, error)
	// Ack ends the waiting of an entry. It returns [federation.ErrLeaseLost] if the lease ended and
	// another device was given the entry. A repeated Ack changes nothing.
	Ack(ctx context.Context, to federation.DID, hold federation.Hold, now time.Time) error
	// Nack puts an entry back until a time. It returns [federation.ErrLeaseLost] as Ack does, and for
	// an entry that no longer waits.
	Nack(ctx context.Context, to federation.DID, hold federation.Hold, again time.Time) error
	// Extend moves the end of a lease. Its errors are the errors of Nack.
	Extend(ctx context.Context, to federation.DID, hold federation.Hold, until time.Time) error
}

// Devices remembers how far each device of a DID has read.
type Devices interface {
	// Advance notes that a device has read its inbox up to a cursor, and ends the waiting of the
	// entries up to there for all devices. A device never moves back. Without a name, Advance only
	// ends the waiting. It blocks on the disk. It returns [federation.ErrTooManyDevices], and a
	// [*federation.CursorError] for a cursor that this inbox never gave out.
	Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error
}

// Mailbox reads inboxes. It may be used concurrently.
type Mailbox struct {
	Inboxes Inboxes
	Leases  Leases
	Devices Devices
}

// Replay yields the arrivals of a DID after a cursor, oldest first, and ends. It changes nothing. The
// zero cursor reads from the start. The error is a [*federation.CursorError] for a cursor that this
// inbox never gave out.
func (m Mailbox) Replay(ctx context.Context, to federation.DID, after federation.Cursor) iter.Seq2[federation.Entry, error] {
	return func(yield func(federation.Entry, error) bool) {
		for {
			page, err := m.Inboxes.Replay(ctx, to, after, pageSize)
			if err != nil {
				yield(federation.Entry{}, fmt.Errorf("replay inbox: %w", err))
				return
			}
			for _, entry := range page {
				if !yield(entry, nil) {
					return
				}
				after = entry.Cursor
			}
			if len(page) < pageSize {
				return
			}
		}
	}
}
