package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/bridge"
	"baton/federation"
)

// Same implements [bridge.Gateway].
func (g *Gateway) Same(ctx context.Context, a, b federation.DID) bool {
	if a == b || g.deps.Owners.KeepsFor(a, b) || g.deps.Owners.KeepsFor(b, a) {
		return true
	}
	known, err := g.participants.WithDID(ctx, a)
	return err == nil && slices.Contains(known.DIDs, a) && slices.Contains(known.DIDs, b)
}

// Owner implements [bridge.Gateway].
func (g *Gateway) Owner(ctx context.Context, did federation.DID) (federation.DID, error) {
	return g.deps.Owners.Owner(ctx, did)
}

// Place implements [bridge.Gateway].
//
// spec: handofftag "Rule of dialects"
func (g *Gateway) Place(ctx context.Context, from, to federation.DID, channel string) (federation.Place, federation.Dialect, error) {
	placers := g.links.Placers()
	if to == "" {
		place, dialect := openPlace(placers, channel)
		return place, dialect, nil
	}
	owner, err := g.Owner(ctx, to)
	if err != nil {
		return federation.Place{}, "", err
	}
	binding, err := g.participants.Binding(ctx, owner)
	if errors.Is(err, federation.ErrNotFound) {
		if binding.Link, err = g.newcomerOn(ctx, owner); binding.Link == "" {
			return federation.Place{}, federation.HandoffTags, err
		}
		binding.DID = owner
	}
	if err != nil {
		return federation.Place{}, "", fmt.Errorf("look up %s: %w", to, err)
	}
	i := slices.IndexFunc(placers, func(p bridge.Placer) bool { return p.Name() == binding.Link })
	// Another home places the offer itself, and agents that read their inbox need no channel.
	if i < 0 && (g.links.isHome(binding.Link) || g.links.readsInbox(binding.Link)) {
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

// newcomerOn returns the link of a user that is logged in and never signed a step, "" for none. An
// agent has its offers in its inbox instead.
func (g *Gateway) newcomerOn(ctx context.Context, did federation.DID) (string, error) {
	link := g.links.loggedInto(ctx, did)
	if link == "" {
		return "", nil
	}
	_, err := g.participants.WithDID(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return link, nil
	}
	if err != nil {
		return "", fmt.Errorf("look up %s: %w", did, err)
	}
	return "", nil
}

// openPlace returns where an offer to anyone is written: in the channel on a link that lists it, else in
// the first channel of the first link.
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

// loggedIn reports whether a DID is logged in elsewhere: on another link but not on the named one,
// or in a session of an API. It blocks on the owners of the links and on the record, and returns the
// errors of the record.
func (g *Gateway) loggedIn(ctx context.Context, did federation.DID, link string) (elsewhere bool, err error) {
	for _, p := range g.links.Placers() {
		online := p.Online(ctx, federation.Binding{DID: did})
		if online && p.Name() == link {
			return false, nil
		}
		elsewhere = elsewhere || online
	}
	if elsewhere {
		return elsewhere, nil
	}
	return g.deps.Record.HasSession(ctx, string(did), time.Now())
}

// Ours reports whether a DID belongs to a participant of this gateway outside the named link: the
// home itself, an agent, a DID bound to a name on another link, or a DID that last signed on
// another link. A DID that never signed counts if it is logged in on another link or to an API of
// this gateway. It returns the errors of the record.
func (g *Gateway) Ours(ctx context.Context, did federation.DID, link string) (bool, error) {
	if did == g.home.Load().ID.DID() {
		return true, nil
	}
	did, err := g.Owner(ctx, did)
	if err != nil {
		return false, err
	}
	if _, err := g.participants.WithDID(ctx, did); !errors.Is(err, federation.ErrNotFound) {
		return err == nil, err
	}
	names, err := g.deps.Record.Names.Of(ctx, did)
	if err != nil {
		return false, fmt.Errorf("look up the names of %s: %w", did, err)
	}
	if slices.ContainsFunc(names, func(b federation.BoundName) bool { return b.Network != link }) {
		return true, nil
	}
	binding, err := g.participants.Binding(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return g.loggedIn(ctx, did, link)
	}
	return err == nil && binding.Link != link, err
}

// Seen reports whether this gateway knows a DID: see [Gateway.Ours], or by a login, a read inbox or
// declared capabilities.
func (g *Gateway) Seen(ctx context.Context, did federation.DID) (bool, error) {
	if ours, err := g.Ours(ctx, did, ""); err != nil || ours {
		return ours, err
	}
	owner, err := g.Owner(ctx, did)
	if err != nil {
		return false, err
	}
	return g.deps.Record.Seen(ctx, owner)
}
