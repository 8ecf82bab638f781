package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
	"baton/bridge/route"
	"baton/federation"
)

// homeNetwork is the network of the peers that are other homes.
const homeNetwork = "home"

func (o *Operator) addPeer(ctx context.Context, body route.Body[Peering]) (Peered, error) {
	ask, err := body.Read()
	if err != nil {
		return Peered{}, err
	}
	added, err := o.deps.Server.AddHome(ctx, ask.URL, ask.AllowPrivate, ask.DryRun)
	if err != nil {
		return Peered{}, err
	}
	done := shapeAdded(added)
	if !ask.DryRun {
		o.act(ctx, "peer add", done.Peer.Name+" "+done.Peer.URL, ask.Reason)
	}
	return done, nil
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

func (o *Operator) removePeer(ctx context.Context, in contract.PeerRemoval) (Peer, error) {
	name := in.Name
	gone, err := o.deps.Server.RemoveHome(ctx, name, in.DryRun)
	if err != nil {
		return Peer{}, err
	}
	if !in.DryRun {
		o.act(ctx, "peer remove", name, in.Reason)
	}
	return Peer{Name: name, Network: homeNetwork, Origin: FromRecord, URL: gone.URL}, nil
}

func (o *Operator) comparePeer(ctx context.Context, in contract.ActOnName) (Compared, error) {
	ask, err := in.Body.Read()
	if err != nil {
		return Compared{}, err
	}
	done, err := o.deps.Server.ComparePeer(ctx, federation.HomeID(in.Name), ask.DryRun)
	if err != nil {
		return Compared{}, err
	}
	if !ask.DryRun {
		o.act(ctx, "peer compare", in.Name, ask.Reason)
	}
	return done, nil
}
