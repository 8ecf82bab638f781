package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// DeadLetters keeps deliveries that were given up, until an operator acts or a sweep deletes
// them. Its promises are in [Store].
type DeadLetters interface {
	// DeadLetters returns up to limit dead letters that were not put back, the newest first,
	// before an id, or from the start with 0. A letter whose step cannot be read is among
	// them, without the unreadable part.
	DeadLetters(ctx context.Context, f federation.DeadFilter, before int64, limit int) ([]federation.DeadLetter, error)
	// DeadLetter returns one whole, or [federation.ErrNotFound].
	DeadLetter(ctx context.Context, id int64) (federation.DeadLetter, error)
	// Revive puts a dead letter back to be delivered now, at its place in the order of its
	// handoff, and reports whether it did. It leaves a delivery alone that is pending again,
	// or has arrived. It returns [federation.ErrNotFound] for an unknown id.
	Revive(ctx context.Context, id int64, now time.Time) (bool, error)
	// Discard forgets one, having seen to it that its signer is told. It returns
	// [federation.ErrNotFound] as Revive does.
	Discard(ctx context.Context, id int64, now time.Time) error
	// CountDead counts the dead letters that were not put back.
	CountDead(ctx context.Context) (map[federation.DeadReason]int, error)
	// PruneDead forgets up to limit that died at or before a time.
	PruneDead(ctx context.Context, before time.Time, limit int) (pruned int, err error)
}
