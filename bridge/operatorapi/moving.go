package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// MoveInbox implements [contract.StrictServerInterface].
func (o *Operator) MoveInbox(ctx context.Context, req contract.MoveInboxRequestObject) (contract.MoveInboxResponseObject, error) {
	did, err := parseDID("did", req.DID)
	if err != nil {
		return nil, err
	}
	if err := bodyOf(ctx); err != nil {
		return nil, err
	}
	ask := *req.Body
	done, err := o.deps.Mailboxes.MoveInbox(ctx, did, federation.HomeID(ask.Home), ask.DryRun)
	if err != nil {
		return nil, err
	}
	if !ask.DryRun {
		o.act(ctx, "inbox move", string(did)+" "+ask.Home, ask.Reason)
	}
	return contract.MoveInbox200JSONResponse(Moved{DID: done.DID, Home: string(done.Home), Taken: done.Taken, Waiting: done.Waiting}), nil
}
