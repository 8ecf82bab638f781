package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// relay returns the checks of the server at which homes meet. It has no second page.
func (o *Operator) relay(context.Context, contract.Paging) (listing[Check], error) {
	page := func(ctx context.Context, _ string, _ int) (Page[Check], error) {
		return Page[Check]{Items: shapeChecks(o.deps.Server.CheckRelay(ctx))}, nil
	}
	return listing[Check]{page: page}, nil
}

func shapeChecks(findings []federation.Finding) []Check {
	checks := []Check{}
	for _, f := range findings {
		checks = append(checks, Check{Check: f.What, State: string(f.State), Detail: f.Detail})
	}
	return checks
}
