package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
)

func (o *Operator) examine(ctx context.Context, _ struct{}) (Page[contract.Diagnosis], error) {
	return Page[contract.Diagnosis]{Items: o.deps.Server.Examine(ctx, false)}, nil
}

func (o *Operator) examineOnline(ctx context.Context, _ struct{}) (Page[contract.Diagnosis], error) {
	return Page[contract.Diagnosis]{Items: o.deps.Server.Examine(ctx, true)}, nil
}
