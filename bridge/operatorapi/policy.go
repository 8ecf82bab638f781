package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
)

func (o *Operator) getPolicy(_ context.Context, _ struct{}) (contract.Policy, error) {
	return o.deps.Server.Policy(), nil
}
