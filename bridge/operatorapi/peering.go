package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// homeNetwork is the network of the peers that are other homes.
const homeNetwork = "home"

// AddPeer implements [contract.StrictServerInterface].
func (o *Operator) AddPeer(ctx context.Context, req contract.AddPeerRequestObject) (contract.AddPeerResponseObject, error) {
	if err := bodyOf(ctx); err != nil {
		return nil, err
	}
	ask := *req.Body
	added, err := o.deps.Homes.AddHome(ctx, ask.URL, ask.AllowPrivate, ask.DryRun)
	if err != nil {
		return nil, err
	}
	done := shapeAdded(added)
	if !ask.DryRun {
		o.act(ctx, "peer add", done.Peer.Name+" "+done.Peer.URL, ask.Reason)
	}
	return contract.AddPeer200JSONResponse(done), nil
}

// shapeAdded returns a home that was added, or would be.
func shapeAdded(added federation.AddedHome) Peered {
	done := Peered{
		Peer: Peer{
			Name: string(added.Home.Home), Network: homeNetwork, Mode: peerModes()[0], Origin: FromRecord, URL: added.Home.URL,
			PeerHome: &PeerHome{Path: added.Home.Path, Forks: []Fork{}},
		},
		Checks: shapeChecks(added.Findings),
	}
	if canary := added.Canary; canary != nil {
		done.Canary = &Canary{Handoff: canary.Handoff, Green: canary.Green, Took: canary.Took.String(), Reason: canary.Reason}
	}
	return done
}

// RemovePeer implements [contract.StrictServerInterface].
func (o *Operator) RemovePeer(ctx context.Context, req contract.RemovePeerRequestObject) (contract.RemovePeerResponseObject, error) {
	name := req.Name
	dry := req.Params.DryRun != nil
	gone, err := o.deps.Homes.RemoveHome(ctx, name, dry)
	if err != nil {
		return nil, err
	}
	if !dry {
		o.act(ctx, "peer remove", name, req.Params.Reason)
	}
	return contract.RemovePeer200JSONResponse(Peer{Name: name, Network: homeNetwork, Origin: FromRecord, URL: gone.URL}), nil
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
