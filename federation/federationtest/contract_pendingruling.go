package federationtest

import (
	"context"

	"baton/federation"
)

// PendingRulings keeps the steps that wait for the ruling of another home. Its promises are
// in [Store].
type PendingRulings interface {
	// Await keeps a step with its evidence, in a handoff that still has the version that the
	// step was judged at. The same step twice (see [federation.Event.Digest]) waits once. It
	// returns [federation.ErrStale] where the handoff has moved since: the caller that
	// settled the waiting steps at that move has not seen this one.
	Await(ctx context.Context, p federation.Pending, after federation.Version) error
	// Awaiting returns up to limit steps that wait for a home, oldest first.
	Awaiting(ctx context.Context, home federation.HomeID, limit int) ([]federation.Pending, error)
	// AwaitingIn returns all steps that wait in one handoff, oldest first.
	AwaitingIn(ctx context.Context, id federation.HandoffID) ([]federation.Pending, error)
	// Ruled ends the wait of a step. One that does not wait is no error.
	Ruled(ctx context.Context, id federation.HandoffID, from federation.DID, event federation.EventID) error
}
