package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Leases hands what waits in an inbox to one device at a time. Where several may
// take an entry, the record decides who has it, and whose Ack counts. Its promises
// are those of [Store].
type Leases interface {
	// Lease gives a device up to limit entries that wait and that nobody has at that
	// moment, oldest first. They are its own until the other one.
	Lease(ctx context.Context, to federation.DID, device string, now, until time.Time, limit int) ([]federation.Lease, error)
	// Ack ends the waiting of an entry as [Inboxes.Read] does. The lease may have run out,
	// as long as the entry was not given out again: once it was, Ack returns [federation.ErrLeaseLost].
	// The same Ack again changes nothing.
	Ack(ctx context.Context, to federation.DID, hold federation.Hold, now time.Time) error
	// Nack puts an entry back: nobody is given it before a moment. It returns
	// [federation.ErrLeaseLost] as Ack does, and for an entry that waits no more.
	Nack(ctx context.Context, to federation.DID, hold federation.Hold, again time.Time) error
	// Extend moves the end of a lease. Its errors are those of Nack.
	Extend(ctx context.Context, to federation.DID, hold federation.Hold, until time.Time) error
}

// Devices remembers how far each device of a DID has read. Its promises are those
// of [Store].
type Devices interface {
	// Devices returns those of a DID by name.
	Devices(ctx context.Context, of federation.DID) ([]federation.Device, error)
	// Advance notes that a device has read its inbox up to a cursor: what is there
	// waits no more, for any device, as after [Inboxes.Read]. A device is first heard of by its first Advance,
	// and never moves back. With no name only the waiting ends. It returns
	// [federation.ErrTooManyDevices] for one too many, and a [*federation.CursorError] for a cursor that
	// this inbox never gave out.
	Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error
	// Forget ends a device, or returns [federation.ErrNotFound]. What it has leased is leased on.
	Forget(ctx context.Context, of federation.DID, device string) error
}
