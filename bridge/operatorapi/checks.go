package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// CheckRelay implements [contract.StrictServerInterface].
func (o *Operator) CheckRelay(ctx context.Context, req contract.CheckRelayRequestObject) (contract.CheckRelayResponseObject, error) {
	p := req.Params
	return o.list(ctx, o.relay(), nil, p.Limit, p.Cursor, nil)
}

// relay returns the checks of the server at which homes meet. It has no second page.
func (o *Operator) relay() listing {
	page := func(ctx context.Context, _ string, _ int) (any, error) {
		return Page[Check]{Items: shapeChecks(o.deps.Relay.CheckRelay(ctx))}, nil
	}
	return listing{page: page}
}

func shapeChecks(findings []federation.Finding) []Check {
	checks := []Check{}
	for _, f := range findings {
		checks = append(checks, Check{Check: f.What, State: string(f.State), Detail: f.Detail})
	}
	return checks
}
