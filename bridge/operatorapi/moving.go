package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

func (o *Operator) moveInbox(ctx context.Context, in contract.InboxMove) (Moved, error) {
	did, err := parseDID("did", in.DID)
	if err != nil {
		return Moved{}, err
	}
	ask, err := in.Body.Read()
	if err != nil {
		return Moved{}, err
	}
	done, err := o.deps.Server.MoveInbox(ctx, did, federation.HomeID(ask.Home), ask.DryRun)
	if err != nil {
		return Moved{}, err
	}
	if !ask.DryRun {
		o.act(ctx, "inbox move", string(did)+" "+ask.Home, ask.Reason)
	}
	return Moved{DID: done.DID, Home: string(done.Home), Taken: done.Taken, Waiting: done.Waiting}, nil
}
