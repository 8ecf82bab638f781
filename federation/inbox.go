package federation

import (
	"context"
	"errors"
	"time"
)

// ErrLeaseLost is returned by [Leases] for a lease that holds no more: the entry
// was given to somebody else meanwhile, or put back, or waits no more.
var ErrLeaseLost = errors.New("federation: lease lost")

// ErrTooManyDevices is returned by [Devices.Advance] for a device that would be one
// more than [MaxDevices].
var ErrTooManyDevices = errors.New("federation: too many devices")

// MaxDevices is how many devices one DID may read its inbox with.
const MaxDevices = 16

// CursorError is the [ErrUnknownCursor] of [Inboxes] and [Devices]. Whoever gets
// it goes on from the zero Cursor, which reads all that is kept once more (an
// entry that was seen before is known by its event ID), or from Newest, to read
// only what is still to come.
type CursorError struct {
	Newest Cursor // zero for an inbox that nothing ever reached
}

// Error implements error.
func (e *CursorError) Error() string {
	return ErrUnknownCursor.Error() + ": read on from the start, or only what comes from now on"
}

// Unwrap returns [ErrUnknownCursor].
func (e *CursorError) Unwrap() error { return ErrUnknownCursor }

// Undelivered is an entry that waits in an inbox.
type Undelivered struct {
	To    DID
	Entry Entry
	View  View // of the handoff as it stands now
}

// Hold names one lease of one entry.
type Hold struct {
	Cursor   Cursor // of the entry, in the inbox that it is in
	Device   string // that has it
	Delivery int    // how often the entry was leased, this time included
}

// Lease is an entry that one device is working on.
type Lease struct {
	Hold

	Entry Entry
	Until time.Time // from then on somebody else may be given it
}

// Leases hands what waits in an inbox to one device at a time. Where several may
// take an entry, the record decides who has it, and whose Ack counts. Its promises
// are those of [Store].
type Leases interface {
	// Lease gives a device up to limit entries that wait and that nobody has at that
	// moment, oldest first. They are its own until the other one.
	Lease(ctx context.Context, to DID, device string, now, until time.Time, limit int) ([]Lease, error)
	// Ack ends the waiting of an entry as [Inboxes.Read] does. The lease may have run out,
	// as long as the entry was not given out again: once it was, Ack returns [ErrLeaseLost].
	// The same Ack again changes nothing.
	Ack(ctx context.Context, to DID, hold Hold, now time.Time) error
	// Nack puts an entry back: nobody is given it before a moment. It returns
	// [ErrLeaseLost] as Ack does, and for an entry that waits no more.
	Nack(ctx context.Context, to DID, hold Hold, again time.Time) error
	// Extend moves the end of a lease. Its errors are those of Nack.
	Extend(ctx context.Context, to DID, hold Hold, until time.Time) error
}

// Device is one reader of an inbox, with a place of its own in it.
type Device struct {
	Name   string
	Cursor Cursor    // it has read the inbox up to here; zero for not at all
	Since  time.Time // when it was first heard of
	Seen   time.Time // when it last moved
}

// Devices remembers how far each device of a DID has read. Its promises are those
// of [Store].
type Devices interface {
	// Devices returns those of a DID by name.
	Devices(ctx context.Context, of DID) ([]Device, error)
	// Advance notes that a device has read its inbox up to a cursor: what is there
	// waits no more, for any device, as after [Inboxes.Read]. A device is first heard of by its first Advance,
	// and never moves back. With no name only the waiting ends. It returns
	// [ErrTooManyDevices] for one too many, and a [*CursorError] for a cursor that
	// this inbox never gave out.
	Advance(ctx context.Context, of DID, device string, upTo Cursor, now time.Time) error
	// Forget ends a device, or returns [ErrNotFound]. What it has leased is leased on.
	Forget(ctx context.Context, of DID, device string) error
}
