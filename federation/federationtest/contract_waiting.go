package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Waits lets operators see and steer pending deliveries. Its promises are in [Store].
type Waits interface {
	// WaitingFor returns up to limit deliveries that match a filter after a cursor, those to
	// links first, and the cursor to go on from: "" at the end. The error is
	// [federation.ErrUnknownCursor] for an unknown cursor.
	WaitingFor(ctx context.Context, f federation.WaitingFilter, after federation.Cursor, limit int) ([]federation.Waiting, federation.Cursor, error)
	// Shapes returns a row for each destination that anything waits for, links first.
	Shapes(ctx context.Context, now time.Time) ([]federation.Shape, error)
	// Retry lets deliveries be tried at once, and returns how many.
	Retry(ctx context.Context, f federation.WaitingFilter, now time.Time) (int, error)
	// GiveUp ends deliveries on behalf of an operator: as dead letters with a notice to the
	// signer, or, with drop, without both. It returns how many.
	GiveUp(ctx context.Context, f federation.WaitingFilter, drop bool, reason string, now time.Time) (int, error)
	// Hold keeps deliveries to a link or a peer back until Release. Holding it again
	// changes the reason alone.
	Hold(ctx context.Context, h federation.Withheld) error
	// Release returns [federation.ErrNotFound] for what is not held.
	Release(ctx context.Context, to string) error
	// Holds returns what is held, by name.
	Holds(ctx context.Context) ([]federation.Withheld, error)
}
