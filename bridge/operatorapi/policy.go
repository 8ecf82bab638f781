package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
)

// GetPolicy implements [contract.StrictServerInterface].
func (o *Operator) GetPolicy(context.Context, contract.GetPolicyRequestObject) (contract.GetPolicyResponseObject, error) {
	return contract.GetPolicy200JSONResponse(o.deps.Policy.Policy()), nil
}
