package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Retention takes from the record what nobody needs any more. Each call is one
// short write; whoever has more to do calls again. Its promises are those of
// [Store].
//
// A cursor of Prune is where to go on from; the zero one is the start, and what is
// returned at the end.
type Retention interface {
	// Prune looks at up to limit handoffs that did not move since a time, and takes
	// those that are over from the record with all that belongs to them: log, receipts,
	// evidence, entries of inboxes, and what the tables of networks have of them. One of which a link is still owed
	// anything stays, and so does the one with the newest event, from which those to
	// come are numbered on. The ids of what is gone remain: the same step again is
	// refused with [federation.TerminalHandoff], other bytes under its id with [federation.EventIDInUse].
	Prune(ctx context.Context, before, now time.Time, after federation.Cursor, limit int) (pruned int, next federation.Cursor, err error)
	// PruneIDs forgets up to limit ids of what was pruned at or before a time.
	PruneIDs(ctx context.Context, before time.Time, limit int) (pruned int, err error)
}
