package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// DeadLetters keeps what was given up until an operator acts, or it is swept. Its
// promises are those of [Store].
type DeadLetters interface {
	// DeadLetters returns up to limit of those that were not put back, the newest first,
	// before an id, or from the start with 0. One whose step cannot be read is among
	// them, without what cannot be read.
	DeadLetters(ctx context.Context, f federation.DeadFilter, before int64, limit int) ([]federation.DeadLetter, error)
	// DeadLetter returns one whole, or [federation.ErrNotFound].
	DeadLetter(ctx context.Context, id int64) (federation.DeadLetter, error)
	// Revive puts one back to be delivered now, at its place in its lane, and reports
	// whether it did: one that is on its way again, or has arrived, is left alone. It
	// returns [federation.ErrNotFound] for an id that there is no letter of.
	Revive(ctx context.Context, id int64, now time.Time) (bool, error)
	// Discard forgets one, having seen to it that its signer is told. It returns
	// [federation.ErrNotFound] as Revive does.
	Discard(ctx context.Context, id int64, now time.Time) error
	// CountDead counts those that were not put back.
	CountDead(ctx context.Context) (map[federation.DeadReason]int, error)
	// PruneDead forgets up to limit that died at or before a time.
	PruneDead(ctx context.Context, before time.Time, limit int) (pruned int, err error)
}
