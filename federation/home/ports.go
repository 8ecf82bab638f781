package home

import (
	"context"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Record is the port of a home to the record. Its methods block on the disk, and return an error
// wrapping a [*federation.UnavailableError] while the record cannot be used. After a nil error a
// change survives a power failure.
type Record interface {
	// Snapshot reads all data of a step in the record, as one consistent state.
	Snapshot(ctx context.Context, q federation.SnapshotQuery) (federation.Snapshot, error)
	// Append files a step. It returns [federation.ErrStale] if f.After is not the current version
	// of the log. It returns a [*federation.RefusalError] with [federation.EventIDInUse] if the
	// signer used the ID for other bytes, or the handoff ID opened another handoff. For a repeated
	// step it returns the first entry.
	Append(ctx context.Context, f federation.Filing) (federation.Entry, error)

	// KeepPending stores a step until another home rules on it. It returns [federation.ErrStale] if
	// the handoff no longer has the version at which the step was judged.
	KeepPending(ctx context.Context, p federation.Pending, after federation.Version) error
	// ListPendingIn returns the steps of one handoff pending a ruling, oldest first.
	ListPendingIn(ctx context.Context, id federation.HandoffID) ([]federation.Pending, error)
	// ResolvePending ends the pending state of a step. A step that is not pending is not an error.
	ResolvePending(ctx context.Context, id federation.HandoffID, from federation.DID, event federation.EventID) error
	// RulingOn returns the document and the signature of the ruling by which a step was
	// filed, or [federation.ErrNotFound].
	RulingOn(ctx context.Context, id federation.HandoffID, version federation.Version) (document, signature string, err error)
	// KeepFork stores the proof that a home equivocates. Only the first fork of a handoff is kept.
	KeepFork(ctx context.Context, f federation.Fork) error

	// ListDue returns up to limit handoffs with a clock that has been running at least since a
	// time, longest first.
	ListDue(ctx context.Context, clock federation.Clock, since time.Time, limit int) ([]federation.View, error)
	// Unseen returns up to limit offered handoffs without a deadline, opened at or before a time,
	// whose recipient was not shown the offer.
	Unseen(ctx context.Context, opened time.Time, limit int) ([]federation.View, error)
	// Undelivered returns up to limit unread entries filed at or before a time, oldest first.
	Undelivered(ctx context.Context, before time.Time, limit int) ([]federation.Undelivered, error)
	// ExpireUnread expires entries that were never shown to a DID, and notifies their signers.
	ExpireUnread(ctx context.Context, to federation.DID, events []federation.EventID, now time.Time) error

	// Acquainted reports whether a DID is known. The time is zero for an acquaintance older than
	// [federation.AcquaintanceAge].
	Acquainted(ctx context.Context, did federation.DID) (met time.Time, known bool, err error)
	// Meet records that a DID is known from now on.
	Meet(ctx context.Context, did federation.DID, now time.Time) error

	// Deferred steps; the record documents the methods.

	Defer(ctx context.Context, d federation.Deferred, limits federation.DeferralLimits) (federation.Deferred, error)
	DeferredIn(ctx context.Context, id federation.HandoffID) ([]federation.Deferred, error)
	DeferredDue(ctx context.Context, at time.Time, limit int) ([]federation.HandoffID, error)
	DeferAgain(ctx context.Context, row int64, next time.Time, reason string) error
	HastenDeferred(ctx context.Context, signer federation.DID, at time.Time) error
	EndDeferral(ctx context.Context, row int64) error
}
