package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
)

// CheckRelay implements [contract.StrictServerInterface].
func (o *Operator) CheckRelay(ctx context.Context, req contract.CheckRelayRequestObject) (contract.CheckRelayResponseObject, error) {
	l, err := o.relay(ctx, req.Params)
	p := req.Params
	return o.list(ctx, l, err, p.Limit, p.Cursor, nil)
}

// relay returns the checks of the server at which homes meet. It has no second page.
func (o *Operator) relay(ctx context.Context, query contract.CheckRelayParams) (listing, error) {
	page := func(ctx context.Context, _ string, _ int) (any, error) {
		return Page[Check]{Items: o.deps.Peers.CheckRelay(ctx)}, nil
	}
	return listing{page: page}, nil
}
