package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// AddPeer implements [contract.StrictServerInterface].
func (o *Operator) AddPeer(ctx context.Context, req contract.AddPeerRequestObject) (contract.AddPeerResponseObject, error) {
	if err := bodyOf(ctx); err != nil {
		return nil, err
	}
	ask := *req.Body
	done, err := o.deps.Peers.AddPeer(ctx, ask)
	if err != nil {
		return nil, err
	}
	if !ask.DryRun {
		o.act(ctx, "peer add", done.Peer.Name+" "+done.Peer.URL, ask.Reason)
	}
	return contract.AddPeer200JSONResponse(done), nil
}

// RemovePeer implements [contract.StrictServerInterface].
func (o *Operator) RemovePeer(ctx context.Context, req contract.RemovePeerRequestObject) (contract.RemovePeerResponseObject, error) {
	name := req.Name
	dry := req.Params.DryRun != nil
	gone, err := o.deps.Peers.RemovePeer(ctx, name, dry)
	if err != nil {
		return nil, err
	}
	if !dry {
		o.act(ctx, "peer remove", name, req.Params.Reason)
	}
	return contract.RemovePeer200JSONResponse(gone), nil
}

// ComparePeer implements [contract.StrictServerInterface].
func (o *Operator) ComparePeer(ctx context.Context, req contract.ComparePeerRequestObject) (contract.ComparePeerResponseObject, error) {
	if err := bodyOf(ctx); err != nil {
		return nil, err
	}
	done, err := o.deps.Peers.ComparePeer(ctx, federation.HomeID(req.Name), req.Body.DryRun)
	if err != nil {
		return nil, err
	}
	if !req.Body.DryRun {
		o.act(ctx, "peer compare", req.Name, req.Body.Reason)
	}
	return contract.ComparePeer200JSONResponse(done), nil
}
