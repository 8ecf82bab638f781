package home

import (
	"context"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Record is the port of a home to the record, which documents the methods. They block on the disk,
// and return an error wrapping [*federation.UnavailableError] while the record is unusable. After a
// nil error a change survives a power failure.
type Record interface {
	Snapshot(ctx context.Context, q federation.SnapshotQuery) (federation.Snapshot, error)
	Append(ctx context.Context, f federation.Filing) (federation.Entry, error)

	KeepPending(ctx context.Context, p federation.Pending, after federation.Version) error
	ListPendingIn(ctx context.Context, id federation.HandoffID) ([]federation.Pending, error)
	ResolvePending(ctx context.Context, id federation.HandoffID, from federation.DID, event federation.EventID) error
	RulingOn(ctx context.Context, id federation.HandoffID, version federation.Version) (document, signature string, err error)
	KeepFork(ctx context.Context, f federation.Fork) error

	ListDue(ctx context.Context, clock federation.Clock, since time.Time, limit int) ([]federation.View, error)
	// Unseen returns up to limit offered handoffs without a deadline, opened at or before a given
	// time, whose recipient was not shown the offer.
	Unseen(ctx context.Context, opened time.Time, limit int) ([]federation.View, error)
	Undelivered(ctx context.Context, before time.Time, limit int) ([]federation.Undelivered, error)
	ExpireUnread(ctx context.Context, to federation.DID, events []federation.EventID, now time.Time) error

	Acquainted(ctx context.Context, did federation.DID) (met time.Time, known bool, err error)
	Meet(ctx context.Context, did federation.DID, now time.Time) error

	Defer(ctx context.Context, d federation.Deferred, limits federation.DeferralLimits) (federation.Deferred, error)
	DeferredIn(ctx context.Context, id federation.HandoffID) ([]federation.Deferred, error)
	DeferredDue(ctx context.Context, at time.Time, limit int) ([]federation.HandoffID, error)
	DeferAgain(ctx context.Context, row int64, next time.Time, reason string) error
	HastenDeferred(ctx context.Context, signer federation.DID, at time.Time) error
	EndDeferral(ctx context.Context, row int64) error
}
