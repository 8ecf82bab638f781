package server

import (
	"context"

	"baton/bridge"
	"baton/federation"
)

var _ bridge.Presence = (*Gateway)(nil)

// Left implements [bridge.Presence].
func (g *Gateway) Left(ctx context.Context, did federation.DID) bool {
	binding, err := g.deps.Participants.Binding(ctx, did)
	if err != nil {
		return false
	}
	placer, up := g.links.placerUp(binding.Link)
	if !up || placer.Online(ctx, binding) {
		return false
	}
	elsewhere, err := g.loggedIn(ctx, did, binding.Link)
	return err == nil && !elsewhere
}
