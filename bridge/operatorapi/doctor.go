package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
)

// Examine implements [contract.StrictServerInterface].
func (o *Operator) Examine(ctx context.Context, _ contract.ExamineRequestObject) (contract.ExamineResponseObject, error) {
	return contract.Examine200JSONResponse{Items: o.deps.Doctor.Examine(ctx, false)}, nil
}

// ExamineOnline implements [contract.StrictServerInterface].
func (o *Operator) ExamineOnline(ctx context.Context, _ contract.ExamineOnlineRequestObject) (contract.ExamineOnlineResponseObject, error) {
	return contract.ExamineOnline200JSONResponse{Items: o.deps.Doctor.Examine(ctx, true)}, nil
}
