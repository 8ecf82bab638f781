package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Leases hands each waiting entry of an inbox to one device at a time. Where several devices
// ask for an entry, the record decides which one has it, and whose Ack counts. Its promises
// are in [Store].
type Leases interface {
	// Lease gives a device up to limit waiting entries without a lease, oldest first, until a time.
	// Before that, regardless of the limit, it expires every waiting offer of a closed handoff,
	// with or without a lease. A lease ends with its session, "" for none. Lease returns
	// [federation.ErrSessionEnded] for an ended session.
	Lease(ctx context.Context, to federation.DID, device, session string, now, until time.Time, limit int) ([]federation.Lease, error)
	// Ack ends the waiting of an entry as [Inboxes.Read] does. The lease may have run out,
	// as long as the entry was not given out again: once it was, Ack returns [federation.ErrLeaseLost].
	// The same Ack again changes nothing.
	Ack(ctx context.Context, to federation.DID, hold federation.Hold, now time.Time) error
	// Nack puts an entry back: no device gets it before a time. It returns
	// [federation.ErrLeaseLost] as Ack does, and for an entry that does not wait any more.
	Nack(ctx context.Context, to federation.DID, hold federation.Hold, again time.Time) error
	// Extend moves the end of a lease. Its errors are the errors of Nack.
	Extend(ctx context.Context, to federation.DID, hold federation.Hold, until time.Time) error
}

// Devices remembers how far each device of a DID has read. It makes the promises of
// [Store].
type Devices interface {
	// Devices returns the devices of a DID by name.
	Devices(ctx context.Context, of federation.DID) ([]federation.Device, error)
	// Advance notes that a device has read its inbox up to a cursor: the entries up to it
	// stop waiting, for every device, as after [Inboxes.Read]. The first Advance makes the
	// device, and no Advance moves it back. With no name only the waiting ends. It returns
	// [federation.ErrTooManyDevices] for one device too many, and a [*federation.CursorError]
	// for a cursor of another inbox.
	Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error
	// Forget deletes a device, or returns [federation.ErrNotFound]. Its leases go on.
	Forget(ctx context.Context, of federation.DID, device string) error
}
