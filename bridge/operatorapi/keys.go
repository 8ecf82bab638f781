package operatorapi

import (
	"context"
	"time"

	"baton/bridge/operatorapi/contract"
)

// defaultOverlap is how long an old key is valid when the operator names no overlap.
const defaultOverlap = 24 * time.Hour

// keys returns the list of keys. It has no second page.
func (o *Operator) keys(context.Context, contract.Paging) (listing[contract.Key], error) {
	page := func(ctx context.Context, _ string, _ int) (Page[contract.Key], error) {
		keys, err := o.deps.Server.ListKeys(ctx, time.Now())
		if keys == nil {
			keys = []contract.Key{}
		}
		return Page[contract.Key]{Items: keys}, err
	}
	return listing[contract.Key]{page: page}, nil
}

func (o *Operator) rotateKey(ctx context.Context, in contract.KeyRotation) (contract.Key, error) {
	ask, err := in.Body.Read()
	if err != nil {
		return contract.Key{}, err
	}
	ask, overlap := ask, defaultOverlap
	if ask.Overlap != "" {
		var err error
		if overlap, err = time.ParseDuration(ask.Overlap); err != nil {
			return contract.Key{}, usage("overlap: want a duration, such as 24h")
		}
	}
	name := in.Name
	key, err := o.deps.Server.RotateKey(ctx, name, overlap, time.Now())
	if err != nil {
		return contract.Key{}, err
	}
	o.act(ctx, "keys rotate", name, ask.Reason)
	return key, nil
}
