package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Waits lets operators see and steer what is still to be delivered. Its promises are
// those of [Store].
type Waits interface {
	// Waiting returns up to limit deliveries that a filter admits after a cursor, those of
	// links first, and the cursor to go on from: "" at the end. The error is
	// [federation.ErrUnknownCursor] for a cursor that was never given out.
	WaitingFor(ctx context.Context, f federation.WaitingFilter, after federation.Cursor, limit int) ([]federation.Waiting, federation.Cursor, error)
	// Shapes returns a row for each destination that anything waits for, links first.
	Shapes(ctx context.Context, now time.Time) ([]federation.Shape, error)
	// Retry lets deliveries be tried at once, and returns how many.
	Retry(ctx context.Context, f federation.WaitingFilter, now time.Time) (int, error)
	// GiveUp ends deliveries by the word of an operator: as a dead letter, its signer
	// told; or, to be dropped, without either. It returns how many.
	GiveUp(ctx context.Context, f federation.WaitingFilter, drop bool, reason string, now time.Time) (int, error)
	// Hold keeps deliveries to a link or a peer back until Release. Holding it again
	// changes the reason alone.
	Hold(ctx context.Context, h federation.Withheld) error
	// Release returns [federation.ErrNotFound] for what is not held.
	Release(ctx context.Context, to string) error
	// Holds returns what is held, by name.
	Holds(ctx context.Context) ([]federation.Withheld, error)
}
