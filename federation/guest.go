package federation

import (
	"context"
	"time"
)

// Pending is a step in a handoff of another home which that has not ruled on yet. It
// is in no log and moves nothing; what becomes of it the home says, by a [Confirm] or
// by one that rules it out.
type Pending struct {
	Event Event
	Home  HomeID // whose ruling it waits for
	Since time.Time
}

// Guests keeps the steps that wait for the ruling of another home. Its promises are
// those of [Store].
type Guests interface {
	// Await keeps a step with its evidence, in a handoff that still has the version
	// that the step was judged at. The same step twice (see [Event.Digest]) waits once.
	// It returns [ErrStale] where the handoff has moved since: whoever settles what
	// waits when it moves has not seen this step.
	Await(ctx context.Context, p Pending, after Version) error
	// Awaiting returns up to limit steps that wait for a home, oldest first.
	Awaiting(ctx context.Context, home HomeID, limit int) ([]Pending, error)
	// AwaitingIn returns all steps that wait in one handoff, oldest first.
	AwaitingIn(ctx context.Context, id HandoffID) ([]Pending, error)
	// Ruled ends the wait of a step. One that does not wait is no error.
	Ruled(ctx context.Context, id HandoffID, from DID, event EventID) error
}
