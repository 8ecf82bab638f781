package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
)

// Clock controls the confirmed time of a gateway. Its methods do not block.
type Clock interface {
	// Doubt returns why the clock is unconfirmed, "" if it is confirmed.
	Doubt() string
	// Accept confirms the clock, and reports whether it was in doubt.
	Accept(by string) bool
}

// AcceptClock implements [contract.StrictServerInterface].
func (o *Operator) AcceptClock(ctx context.Context, req contract.AcceptClockRequestObject) (contract.AcceptClockResponseObject, error) {
	if err := bodyOf(ctx); err != nil {
		return nil, err
	}
	doubt, changed := o.deps.Clock.Doubt(), 0
	if doubt != "" {
		changed = 1
	}
	if changed > 0 && !req.Body.DryRun {
		o.deps.Clock.Accept(callerOf(ctx).actor)
	}
	return contract.AcceptClock200JSONResponse(o.acted(ctx, "clock accept", doubt, *req.Body, changed)), nil
}
