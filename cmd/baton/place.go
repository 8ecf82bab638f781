package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"baton/bridge"
	"baton/federation"
)

// Same implements [bridge.Gateway].
func (g *submitter) Same(ctx context.Context, a, b federation.DID) bool {
	if a == b || g.stands(a, b) || g.stands(b, a) {
		return true
	}
	agent, err := g.record.AgentOf(ctx, a)
	return err == nil && agent.Is(a) && agent.Is(b)
}

// stands reports whether a DID is the one that the gateway keeps for another, to
// write that one's steps for networks where they cannot stand as they were signed.
func (g *submitter) stands(kept, of federation.DID) bool {
	return kept.Method() == "key" && g.kept("person:"+string(of)).DID == kept
}

// Place implements [bridge.Gateway].
//
// spec: handofftag "Rule of dialects"
func (g *submitter) Place(ctx context.Context, from, to federation.DID, channel string) (federation.Place, federation.Dialect, error) {
	placers := g.fleet.Placers()
	if to == "" {
		place, dialect := openPlace(placers, channel)
		return place, dialect, nil
	}
	binding, err := g.record.Binding(ctx, to)
	if errors.Is(err, federation.ErrNotFound) {
		return federation.Place{}, federation.HandoffTags, nil
	}
	if err != nil {
		return federation.Place{}, "", fmt.Errorf("look up %s: %w", to, err)
	}
	i := slices.IndexFunc(placers, func(p bridge.Placer) bool { return p.Name() == binding.Link })
	// Where it is written at another home is that home's to say, and whoever asks over HTTP
	// has their inbox.
	if i < 0 && (g.fleet.IsHome(binding.Link) || binding.Link == federation.RESTLink && g.fleet.Has(binding.Link)) {
		return federation.Place{Link: binding.Link, Venue: federation.PrivateVenue(from, to)}, federation.HandoffTags, nil
	}
	if i < 0 {
		return federation.Place{}, federation.HandoffTags, nil
	}
	if placers[i].Online(ctx, binding) {
		return federation.Place{Link: binding.Link, Venue: federation.PrivateVenue(from, to)}, placers[i].Dialect(), nil
	}
	return federation.Place{Venue: placers[i].Channels()[0]}, placers[i].Dialect(), nil
}

// openPlace returns where an offer to anyone is written: in a channel that some
// link lists, else in the first one of the first link.
func openPlace(placers []bridge.Placer, channel string) (federation.Place, federation.Dialect) {
	for _, p := range placers {
		if channel != "" && slices.Contains(p.Channels(), channel) {
			return federation.Place{Venue: channel}, p.Dialect()
		}
	}
	if len(placers) == 0 {
		return federation.Place{}, federation.HandoffTags
	}
	return federation.Place{Venue: placers[0].Channels()[0]}, placers[0].Dialect()
}
