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
	"errors"
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

// LeaseTime is the length of a lease that names none.
const LeaseTime = time.Minute

// MaxLeaseTime bounds a lease, so that an entry leased by a dead device reaches another
// device within the day.
const MaxLeaseTime = 12 * time.Hour

// MaxDelay bounds how long an entry may be put off: a longer delay would exceed most deadlines.
const MaxDelay = 24 * time.Hour

// MaxLeases bounds how many entries one call leases, and with that how long other writes to the
// record wait.
const MaxLeases = 100

// maxDeviceName bounds the name of a device, in bytes.
const maxDeviceName = 64

// ErrDeviceName is returned for a name that no device may have.
var ErrDeviceName = errors.New("inbox: a device has a name of 1 to 64 letters, digits and ._-")

// checkDevice refuses a name that does not fit into a path, a log line and a table.
func checkDevice(name string) error {
	if name == "" || len(name) > maxDeviceName {
		return ErrDeviceName
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return ErrDeviceName
		}
	}
	return nil
}

// Lease gives a device up to limit waiting entries, oldest first, at most [MaxLeases]. No other
// device gets them for a length of time: [LeaseTime] for 0, at most [MaxLeaseTime]. Delivery counts
// how often an entry was leased. The error is [ErrDeviceName] or that of [Leases].
func (m Mailbox) Lease(ctx context.Context, to federation.DID, device string, limit int, length time.Duration, now time.Time) ([]federation.Lease, error) {
	if err := checkDevice(device); err != nil {
		return nil, err
	}
	leases, err := m.Leases.Lease(ctx, to, device, "", now, now.Add(leaseTime(length)), min(limit, MaxLeases))
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	return leases, nil
}

func leaseTime(length time.Duration) time.Duration {
	if length <= 0 {
		return LeaseTime
	}
	return min(length, MaxLeaseTime)
}

// Ack ends the waiting of an entry for all devices. The error is [federation.ErrLeaseLost] when
// another device was given the entry meanwhile, which has to acknowledge it.
func (m Mailbox) Ack(ctx context.Context, to federation.DID, hold federation.Hold, now time.Time) error {
	if err := m.Leases.Ack(ctx, to, hold, now); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	return nil
}

// Nack puts an entry back, to be leased again after a delay of at most [MaxDelay].
func (m Mailbox) Nack(ctx context.Context, to federation.DID, hold federation.Hold, delay time.Duration, now time.Time) error {
	again := now.Add(min(max(delay, 0), MaxDelay))
	if err := m.Leases.Nack(ctx, to, hold, again); err != nil {
		return fmt.Errorf("put back: %w", err)
	}
	return nil
}

// Extend makes a lease end after a length of time from now, as [Mailbox.Lease] counts it.
func (m Mailbox) Extend(ctx context.Context, to federation.DID, hold federation.Hold, length time.Duration, now time.Time) error {
	if err := m.Leases.Extend(ctx, to, hold, now.Add(leaseTime(length))); err != nil {
		return fmt.Errorf("extend: %w", err)
	}
	return nil
}

// Advance notes that a device has read an inbox up to a cursor. The error is
// [ErrDeviceName] or that of [Devices].
func (m Mailbox) Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error {
	if err := checkDevice(device); err != nil {
		return err
	}
	if err := m.Devices.Advance(ctx, of, device, upTo, now); err != nil {
		return fmt.Errorf("advance: %w", err)
	}
	return nil
}
