package operatorapi

import (
	"context"
	"time"

	"baton/bridge/operatorapi/contract"
)

// defaultOverlap is how long an old key is valid when the operator names no overlap.
const defaultOverlap = 24 * time.Hour

// ListKeys implements [contract.StrictServerInterface].
func (o *Operator) ListKeys(ctx context.Context, req contract.ListKeysRequestObject) (contract.ListKeysResponseObject, error) {
	p := req.Params
	return o.list(ctx, listing{page: o.keyPage}, nil, p.Limit, p.Cursor, nil)
}

// keyPage returns all keys. They have no second page.
func (o *Operator) keyPage(ctx context.Context, _ string, _ int) (any, error) {
	keys, err := o.deps.Vault.Keys(ctx, time.Now())
	if keys == nil {
		keys = []contract.Key{}
	}
	return Page[contract.Key]{Items: keys}, err
}

// RotateKey implements [contract.StrictServerInterface].
func (o *Operator) RotateKey(ctx context.Context, req contract.RotateKeyRequestObject) (contract.RotateKeyResponseObject, error) {
	if err := bodyOf(ctx); err != nil {
		return nil, err
	}
	ask, overlap := *req.Body, defaultOverlap
	if ask.Overlap != "" {
		var err error
		if overlap, err = time.ParseDuration(ask.Overlap); err != nil {
			return nil, usage("overlap: want a duration, such as 24h")
		}
	}
	name := req.Name
	key, err := o.deps.Vault.Rotate(ctx, name, overlap, time.Now())
	if err != nil {
		return nil, err
	}
	o.act(ctx, "keys rotate", name, ask.Reason)
	return contract.RotateKey200JSONResponse(key), nil
}
