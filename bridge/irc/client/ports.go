package client

import (
	"context"
	"time"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/bridge/irc"
	"baton/federation"
)

// Deps is what a listener needs of the rest of the program.
type Deps struct {
	bridge.Ports

	Record Record
	// Logins counts the attempts of each address to log in, at all listeners.
	Logins credential.Addresses
	// MaxClients lowers max_clients, where this process may not open as many files; 0 does not.
	MaxClients int
}

// Record is the port to the record: the inboxes of participants and their devices, what
// was said in a channel, and tokens. All methods block on it, and return its failures as
// errors that wrap [*federation.UnavailableError].
type Record interface {
	irc.Handoffs

	// Replay returns up to limit entries that reached an inbox after a cursor, oldest
	// first. It returns a [*federation.CursorError] for a cursor that the inbox never gave
	// out.
	Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error)
	// Devices returns the devices of a DID by name.
	Devices(ctx context.Context, of federation.DID) ([]federation.Device, error)
	// Advance notes that a device has read its inbox up to a cursor, and adds the device
	// at its first call. An empty name notes it for no device. It returns
	// [federation.ErrTooManyDevices] for one too many, and a [*federation.CursorError] for
	// a cursor that the inbox never gave out.
	Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error
	// Spoken returns up to limit steps of a stretch, oldest first, without receipts.
	Spoken(ctx context.Context, s federation.Stretch, limit int) ([]federation.Said, error)
	// Mark returns the mark of the step at a place by its event ID or by the id of its
	// message, or [federation.ErrNotFound].
	Mark(ctx context.Context, p federation.Place, id string) (federation.Mark, error)
	// Token returns an operator's token by its digest, or [federation.ErrNotFound] for one
	// that is unknown, revoked, or not valid at a time. A token may stand for a DID.
	Token(ctx context.Context, digest [32]byte, now time.Time) (federation.OperatorToken, error)
}
