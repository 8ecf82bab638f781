package bridge

import (
	"context"
	"time"

	"baton/federation"
)

// Tracer records what a gateway does with steps, for the traces of operators. Its methods do not
// block, and may be called concurrently. A nil Tracer records nothing.
type Tracer interface {
	// Submitted records how a step was judged that a link, an agent or another home submitted.
	Submitted(ctx context.Context, j Judged)
	// Ruled records how a step was taken that its home has ruled on.
	Ruled(ctx context.Context, j Judged)
	// Delivering begins to record one attempt of a delivery. The link delivers with the returned
	// context. The caller calls end with the result of the attempt.
	Delivering(ctx context.Context, link Link, d federation.Delivery) (delivering context.Context, end func(error))
}

// Judged is a step and how it was judged.
type Judged struct {
	Event     federation.Event // as it came
	Judgement federation.Judgement
	Err       error
	Start     time.Time // of the judgement
}
