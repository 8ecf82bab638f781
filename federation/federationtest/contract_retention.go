package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Retention deletes rows that are not needed any more. Each call is one short write; a caller
// with more to delete calls again. Its promises are in [Store].
//
// A cursor of Prune is the position to go on from: zero at the start, and again at the end.
type Retention interface {
	// Prune looks at up to limit handoffs that did not move since a time. It deletes handoffs
	// that are over, with all that belongs to them: log, receipts, evidence, entries of
	// inboxes, and their rows in the tables of networks. It keeps a handoff with a pending
	// delivery to a link, and the handoff with the newest event, which later events number on
	// from. Tombstones remain: the same step again is refused with
	// [federation.TerminalHandoff], other bytes under its id with [federation.EventIDInUse].
	Prune(ctx context.Context, before, now time.Time, after federation.Cursor, limit int) (pruned int, next federation.Cursor, err error)
	// PruneIDs forgets up to limit ids of what was pruned at or before a time.
	PruneIDs(ctx context.Context, before time.Time, limit int) (pruned int, err error)
}
