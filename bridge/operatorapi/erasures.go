package operatorapi

import (
	"context"
	"errors"

	"baton/bridge/operatorapi/contract"
	"baton/bridge/route"
	"baton/federation"
)

// erase continues if the client leaves, so that the audit log has each erasure.
func (o *Operator) erase(ctx context.Context, body route.Body[contract.EraseAsk]) (contract.Erased, error) {
	ask, err := body.Read()
	if err != nil {
		return contract.Erased{}, err
	}
	did, err := federation.ParseDID(ask.DID)
	if err != nil {
		return contract.Erased{}, usage("did: " + err.Error())
	}
	ctx = context.WithoutCancel(ctx)
	done := contract.Erased{DID: did, DryRun: ask.DryRun}
	done.Erasing, err = o.deps.Server.Erase(ctx, did, ask.DryRun)
	if _, refused := errors.AsType[*ProblemError](err); !ask.DryRun && !refused {
		what := "erase"
		if err != nil {
			what = "erase, cut short"
		}
		o.act(ctx, what, string(did), ask.Reason)
	}
	if err == nil {
		done.Files, err = o.deps.Server.RecordCopies()
	}
	if err != nil {
		return contract.Erased{}, err
	}
	return done, nil
}
