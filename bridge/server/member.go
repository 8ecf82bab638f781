package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"baton/bridge"
	"baton/federation"
)

// Member reports whether an offer may be written in its channel. A DID that offers over REST must belong
// to the channel: it is present there, or on a link that lists the channel it has an account that the
// operator bound or a step on file. IRC links and other homes check their own users. Agents of the registry may offer to anyone (spec: airc-shapes, the list of
// parties). An offer to one DID that names no channel is written where the recipient is.
func (g *Gateway) Member(ctx context.Context, ev federation.Event) (bool, error) {
	venue := cmp.Or(ev.Arrival.Place.Venue, ev.Venue)
	if !ev.Arrival.ReadsInbox || federation.Private(venue) {
		return true, nil
	}
	if ev.To != "" {
		place, _, err := g.Place(ctx, ev.Actor(), ev.To, "")
		if err != nil || place.Venue == venue {
			return err == nil, err
		}
	}
	all, err := g.identify(ctx, federation.Source{DIDs: []federation.DID{ev.Actor()}})
	if err != nil {
		return false, err
	}
	for _, placer := range g.links.Placers() {
		if !slices.Contains(placer.Channels(), venue) {
			continue
		}
		for _, did := range all.DIDs {
			if known, err := g.knownOn(ctx, placer, venue, did); known || err != nil {
				return known, err
			}
		}
	}
	return false, nil
}

// knownOn reports whether a DID belongs to a channel of a link.
func (g *Gateway) knownOn(ctx context.Context, link bridge.Placer, venue string, did federation.DID) (bool, error) {
	if gatherer, ok := link.(bridge.Gatherer); ok && gatherer.Present(ctx, venue, did) {
		return true, nil
	}
	bound, err := g.deps.Record.Names.Of(ctx, did)
	if err != nil {
		return false, fmt.Errorf("look up names of %s: %w", did, err)
	}
	if slices.ContainsFunc(bound, func(b federation.BoundName) bool { return b.Network == link.Name() }) {
		return true, nil
	}
	seen, err := g.participants.Binding(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up %s: %w", did, err)
	}
	return seen.Link == link.Name(), nil
}
