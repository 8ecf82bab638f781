package gateway

import (
	"context"
	"slices"

	"baton/bridge"
	"baton/federation"
)

// endpointed is a link to a server that others of its network know by the id of an endpoint.
type endpointed interface {
	bridge.Homed
	Endpoint() string
}

// Endpoint returns the endpoint id of the server that is a home, where a link leads to it, else
// "".
func (g *Gateway) Endpoint(home federation.HomeID) string {
	for _, r := range g.links.current.Load().all {
		if link, ok := r.Link.(endpointed); ok && link.Home() == home {
			return link.Endpoint()
		}
	}
	return ""
}

// onSibling reports whether a user is logged in as a DID to a server that a link other than
// the named one leads to. It blocks on the owners of the links.
func (g *Gateway) onSibling(ctx context.Context, did federation.DID, link string) bool {
	return slices.ContainsFunc(g.links.Placers(), func(p bridge.Placer) bool {
		_, sibling := p.(endpointed)
		return sibling && p.Name() != link && p.Online(ctx, federation.Binding{DID: did})
	})
}
