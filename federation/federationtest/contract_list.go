package federationtest

import (
	"context"

	"baton/federation"
)

// Handoffs searches handoffs. Its promises are in [Store].
type Handoffs interface {
	// Handoffs returns up to limit handoffs that a filter admits, the newest
	// movement first, from after a cursor on, and the cursor to go on from: "" once
	// all were looked at. A page may be shorter than asked for and even empty before
	// that, since one call looks at a bounded number of handoffs. A handoff that moves
	// meanwhile is at the front again, and may so be missing from later pages. The
	// error is [federation.ErrUnknownCursor] for a cursor that was never given out.
	Handoffs(ctx context.Context, f federation.Filter, after federation.Cursor, limit int) (views []federation.View, next federation.Cursor, err error)
	// Find returns up to [federation.MaxFound] handoffs whose canonical id ends in a suffix,
	// in the order of their ids; none for a suffix shorter than [federation.MinSuffix].
	Find(ctx context.Context, suffix string) ([]federation.HandoffID, error)
}
