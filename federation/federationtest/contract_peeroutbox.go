package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// PeerOutboxes holds the pending deliveries of networks to their own peers. Its promises are
// in [Store]. PeerTook, Bury and Delayed file a [federation.Notice] to the signer of a step,
// unless the network tells that signer itself.
type PeerOutboxes interface {
	// Enqueue files a delivery that goes with no message of the record, unless the same
	// Message of the same Sender waits under its OrderKey already. It returns a
	// [*federation.UnavailableError] where [federation.MaxPeerDeliveries] wait for the peer.
	Enqueue(ctx context.Context, r federation.PeerDelivery) error
	// PeerOutboxes returns the peers with pending relays, by their names.
	PeerOutboxes(ctx context.Context) ([]federation.PeerOutbox, error)
	// Pause notes that a peer did not answer, or with no Failures that it did.
	Pause(ctx context.Context, p federation.PeerOutbox) error
	// PeerBacklogs returns how the queue of each peer stands, by their names.
	PeerBacklogs(ctx context.Context) ([]federation.PeerBacklog, error)
	// Relays returns up to limit rows of a peer after one, in the order in which they
	// were queued; after 0 from the first.
	PeerDeliveries(ctx context.Context, peer string, after int64, limit int) ([]federation.PeerDelivery, error)
	// PeerQueue is PeerDeliveries without documents.
	PeerQueue(ctx context.Context, peer string, after int64, limit int) ([]federation.PeerDelivery, error)
	// Attempted notes that a row is about to be sent under an id, by which replies may
	// name its message.
	Attempted(ctx context.Context, row int64, id string, now time.Time) error
	// Postpone notes why an attempt failed, the id under which the peer may have the
	// message nevertheless, and when the next attempt is.
	Postpone(ctx context.Context, row int64, reason, unsure string, now, next time.Time) error
	// PeerTook takes a row out: the peer has it.
	PeerTook(ctx context.Context, row int64, now time.Time) error
	// Bury gives a row up, and keeps it as a [federation.DeadLetter].
	Bury(ctx context.Context, row int64, reason federation.DeadReason, why string, now time.Time) error
	// Slow returns up to limit messages that were queued at or before a time, and whose
	// sender was not told of the delay.
	Slow(ctx context.Context, queued time.Time, limit int) ([]federation.PeerDelivery, error)
	// Delayed notes that the sender of a row was told that it takes time.
	Delayed(ctx context.Context, row int64, now time.Time) error
}
