package operatorapi

import (
	"context"
	"time"

	"baton/bridge/operatorapi/contract"
)

// defaultOverlap is how long an old key is valid when the operator names no overlap.
const defaultOverlap = 24 * time.Hour

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
