package operatorapi

import (
	"context"

	"baton/bridge/route"
)

func (o *Operator) acceptClock(ctx context.Context, body route.Body[Act]) (Acted, error) {
	ask, err := body.Read()
	if err != nil {
		return Acted{}, err
	}
	doubt, changed := o.deps.Server.ClockDoubt(), 0
	if doubt != "" {
		changed = 1
	}
	if changed > 0 && !ask.DryRun {
		o.deps.Server.AcceptClock(callerOf(ctx).actor)
	}
	return o.acted(ctx, "clock accept", doubt, ask, changed), nil
}
