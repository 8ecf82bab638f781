package client

import (
	"context"
	"net/netip"
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
	// Agent returns the DID of an agent of the registry by its handle, or
	// [federation.ErrNotFound].
	Agent func(ctx context.Context, handle string) (federation.DID, error)
	// Origins are the origins whose pages may speak WebSocket, as in [http] cors_origins.
	Origins []string
	// Proxies are trusted to name the address of a client in a PROXY header, as in [http]
	// trusted_proxies.
	Proxies []netip.Prefix
	// Logins counts the attempts of each address to log in, at all listeners.
	Logins credential.Addresses
	// Proved judges whether a DID signed a message with a key that it has now. Its error
	// says why that cannot be told.
	Proved func(ctx context.Context, did federation.DID, message, signature []byte) (federation.Verdict, error)
	// Learn puts on record the key with which a DID signs. Its errors are those of
	// [federation.Keys.Learn].
	Learn func(ctx context.Context, report federation.KeyReport) error
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
