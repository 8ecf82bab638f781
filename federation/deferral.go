package federation

import (
	"context"
	"errors"
	"time"
)

// ErrDeferralFull is returned by [Deferrals.Defer] when as many steps wait as may: from one
// origin, or of all.
var ErrDeferralFull = errors.New("federation: too many steps wait to be judged")

// Deferred is a step that waits until it can be judged: no key could be had for its
// signature, or it stands on a step before it that waits for one. It is in no log and
// moves nothing.
type Deferred struct {
	Row    int64 // order of arrival
	Event  Event
	Origin string // name of the link through which it came; never empty
	Since  time.Time
	Tried  int       // how often it was judged since
	Next   time.Time // when it is judged again
	Reason string    // why it could not be judged last; for operators
}

// DeferralLimits bound how many steps wait. Zero means no limit.
type DeferralLimits struct {
	PerUser   int // of one name on one link ([Arrival].Name); steps without a name are not counted so
	PerOrigin int
	Total     int
}

// Deferrals keeps the steps that wait for a key. [store.Record] documents the methods.
type Deferrals interface {
	// Defer keeps a step with its evidence and gives it a Row. The same step twice (see
	// [Event.Digest]) waits once, and is returned as it waits already. It returns
	// [ErrDeferralFull] and keeps nothing where that would be one too many.
	Defer(ctx context.Context, d Deferred, limits DeferralLimits) (Deferred, error)
	// DeferredIn returns all steps that wait in one handoff, in the order of arrival.
	DeferredIn(ctx context.Context, id HandoffID) ([]Deferred, error)
	// DeferredDue returns up to limit handoffs with a step that is to be judged again at
	// a time or before, those first where it is so longest.
	DeferredDue(ctx context.Context, at time.Time, limit int) ([]HandoffID, error)
	// DeferredStep returns the step of an event ID that waits, the first where several
	// do, or [ErrNotFound].
	DeferredStep(ctx context.Context, id EventID) (Deferred, error)
	// DeferAgain notes that a step was judged in vain, why, and when it is judged again.
	// One that does not wait is no error.
	DeferAgain(ctx context.Context, row int64, next time.Time, reason string) error
	// HastenDeferred makes the steps due at a time that a DID signed.
	HastenDeferred(ctx context.Context, signer DID, at time.Time) error
	// EndDeferral ends the wait of a step. One that does not wait is no error.
	EndDeferral(ctx context.Context, row int64) error
	// CountDeferred returns how many steps wait that came from each network.
	CountDeferred(ctx context.Context) (map[string]int, error)
}
