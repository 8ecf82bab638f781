package operatorapi

import (
	"context"

	"baton/bridge/route"
)

// Clock controls the confirmed time of a gateway. Its methods do not block.
type Clock interface {
	// Doubt returns why the clock is unconfirmed, "" if it is confirmed.
	Doubt() string
	// Accept confirms the clock, and reports whether it was in doubt.
	Accept(by string) bool
}

func (o *Operator) acceptClock(ctx context.Context, body route.Body[Act]) (Acted, error) {
	ask, err := body.Read()
	if err != nil {
		return Acted{}, err
	}
	doubt, changed := o.deps.Clock.Doubt(), 0
	if doubt != "" {
		changed = 1
	}
	if changed > 0 && !ask.DryRun {
		o.deps.Clock.Accept(callerOf(ctx).actor)
	}
	return o.acted(ctx, "clock accept", doubt, ask, changed), nil
}
