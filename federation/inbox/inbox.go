// Package inbox is the mailbox of a DID: its arrivals in order, kept after they were read. A
// step enters the inboxes of the other parties of its handoff in the transaction that files
// it; [Mailbox] reads them.
//
// There are two ways to read. [Mailbox.Replay] returns all entries after a cursor, as often
// as it is called, and changes nothing; each device of a DID has its own cursor, which
// [Mailbox.Advance] moves. [Mailbox.Lease] gives each waiting entry to one device for a time,
// and to the next device unless the first acknowledges it. An entry stops waiting once it is
// acknowledged, a device has read past it, or a network has shown it to its DID. It stays in
// the inbox until its handoff leaves the record.
//
// A Mailbox may be used concurrently, and its methods block on the record alone. An entry is
// delivered at least once: event IDs tell repetitions apart.
package inbox

import (
	"context"
	"fmt"
	"iter"
	"time"

	"baton/federation"
)

// pageSize is how many entries one read of the record fetches: enough that a
// replay is not bound by round trips, little enough to hold in memory.
const pageSize = 256

// Inboxes reads what reached each DID.
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
	// Lease gives a device up to limit entries that wait and that no device has at that
	// moment, oldest first, until the other time.
	Lease(ctx context.Context, to federation.DID, device string, now, until time.Time, limit int) ([]federation.Lease, error)
	// Ack ends the waiting of an entry. The lease may have run out, as long as the entry was
	// not given out again: once it was, Ack returns [federation.ErrLeaseLost]. The same Ack
	// again changes nothing.
	Ack(ctx context.Context, to federation.DID, hold federation.Hold, now time.Time) error
	// Nack puts an entry back until a moment. It returns [federation.ErrLeaseLost] as Ack does,
	// and for an entry that waits no more.
	Nack(ctx context.Context, to federation.DID, hold federation.Hold, again time.Time) error
	// Extend moves the end of a lease. Its errors are the errors of Nack.
	Extend(ctx context.Context, to federation.DID, hold federation.Hold, until time.Time) error
}

// Devices remembers how far each device of a DID has read.
type Devices interface {
	// Advance notes that a device has read its inbox up to a cursor: the entries up to there
	// wait no more, for any device. A device never moves back. With no name only the waiting
	// ends. It blocks on the disk. It returns [federation.ErrTooManyDevices] for one too many,
	// and a [*federation.CursorError] for a cursor that this inbox never gave out.
	Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error
}

// Mailbox reads inboxes. It may be used concurrently.
type Mailbox struct {
	Inboxes Inboxes
	Leases  Leases
	Devices Devices
}

// Replay yields what reached a DID after a cursor, oldest first, and ends. It
// changes nothing. The error is a [*federation.CursorError] for a cursor that this
// inbox never gave out; the zero cursor reads from the start again.
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
