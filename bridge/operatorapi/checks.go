package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
)

// CheckRelay implements [contract.StrictServerInterface].
func (o *Operator) CheckRelay(ctx context.Context, req contract.CheckRelayRequestObject) (contract.CheckRelayResponseObject, error) {
	p := req.Params
	return o.list(ctx, o.relay(), nil, p.Limit, p.Cursor, nil)
}

// relay returns the checks of the server at which homes meet. It has no second page.
func (o *Operator) relay() listing {
	page := func(ctx context.Context, _ string, _ int) (any, error) {
		return Page[Check]{Items: o.deps.Peers.CheckRelay(ctx)}, nil
	}
	return listing{page: page}
}
