package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/routing"
)

// Same implements [bridge.Gateway].
func (g *Gateway) Same(ctx context.Context, a, b federation.DID) (bool, error) {
	if a == b || g.deps.Owners.KeepsFor(a, b) || g.deps.Owners.KeepsFor(b, a) {
		return true, nil
	}
	known, err := g.ownDIDs(ctx, a)
	return slices.Contains(known, b), err
}

// DIDs implements [bridge.Gateway].
func (g *Gateway) DIDs(ctx context.Context, did federation.DID) ([]federation.DID, error) {
	owner, err := g.Owner(ctx, did)
	if err != nil {
		return nil, err
	}
	dids, err := g.ownDIDs(ctx, owner)
	if err != nil {
		return nil, err
	}
	for _, own := range dids {
		if kept, keeps := g.deps.Owners.KeptDID(own); keeps {
			dids = append(dids, kept)
		}
	}
	slices.Sort(dids)
	return slices.Compact(dids), nil
}

func (g *Gateway) ownDIDs(ctx context.Context, did federation.DID) ([]federation.DID, error) {
	known, err := g.participants.WithDID(ctx, did)
	if !slices.Contains(known.DIDs, did) {
		return []federation.DID{did}, err
	}
	return known.DIDs, nil
}

// Owner implements [bridge.Gateway].
func (g *Gateway) Owner(ctx context.Context, did federation.DID) (federation.DID, error) {
	return g.deps.Owners.Owner(ctx, did)
}

// Place implements [bridge.Gateway].
//
// spec: handofftag "Rule of dialects"
func (g *Gateway) Place(ctx context.Context, from, to federation.DID, channel string) (federation.ChannelRef, federation.Dialect, error) {
	placers := g.links.ChannelLinks()
	if to == "" {
		place, dialect := openPlace(placers, channel)
		return place, dialect, nil
	}
	at, err := g.deps.Locator.Resolve(ctx, to)
	if err != nil {
		return federation.ChannelRef{}, "", err
	}
	binding := at.Binding
	if binding.Link == "" {
		binding = federation.Binding{DID: at.DID, Link: at.Link}
	}
	if binding.Link == "" {
		return federation.ChannelRef{}, federation.HandoffTags, nil
	}
	i := slices.IndexFunc(placers, func(p bridge.ChannelLink) bool { return p.Name() == binding.Link })
	// Another home chooses the place itself, and agents that read their inbox need no channel.
	if i < 0 && (g.links.isHome(binding.Link) || g.links.readsInbox(binding.Link)) {
		return federation.ChannelRef{Link: binding.Link, Venue: federation.PrivateVenue(from, to)}, federation.HandoffTags, nil
	}
	if i < 0 {
		return federation.ChannelRef{}, federation.HandoffTags, nil
	}
	if placers[i].Online(ctx, binding) {
		return federation.ChannelRef{Link: binding.Link, Venue: federation.PrivateVenue(from, to)}, placers[i].Dialect(), nil
	}
	return federation.ChannelRef{Venue: placers[i].Channels()[0]}, placers[i].Dialect(), nil
}

func openPlace(placers []bridge.ChannelLink, channel string) (federation.ChannelRef, federation.Dialect) {
	for _, p := range placers {
		if channel != "" && slices.Contains(p.Channels(), channel) {
			return federation.ChannelRef{Venue: channel}, p.Dialect()
		}
	}
	if len(placers) == 0 {
		return federation.ChannelRef{}, federation.HandoffTags
	}
	return federation.ChannelRef{Venue: placers[0].Channels()[0]}, placers[0].Dialect()
}

// loggedIn reports whether a DID is logged in on a link other than link, or in a session of an API.
// It blocks on the owners of the links and on the record.
func (g *Gateway) loggedIn(ctx context.Context, did federation.DID, link string) (elsewhere bool, err error) {
	for _, p := range g.links.ChannelLinks() {
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
// home itself, an agent, or a DID that is bound to a name or last signed on another link. A DID
// that never signed counts if it is logged in elsewhere.
func (g *Gateway) Ours(ctx context.Context, did federation.DID, link string) (bool, error) {
	if did == g.home.Load().ID.DID() {
		return true, nil
	}
	at, err := g.deps.Locator.Recorded(ctx, did)
	if err != nil || at.Agent {
		return at.Agent, err
	}
	names, err := g.deps.Record.Names.Of(ctx, at.DID)
	if err != nil {
		return false, fmt.Errorf("look up the names of %s: %w", at.DID, err)
	}
	if slices.ContainsFunc(names, func(b federation.BoundName) bool { return b.Network != link }) {
		return true, nil
	}
	if at.Binding.Link == "" {
		return g.loggedIn(ctx, at.DID, link)
	}
	return at.Binding.Link != link, nil
}

// Seen is like [Gateway.Ours], and also counts a login, a read inbox or declared capabilities.
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

// Member reports whether an offer may be written in its channel. A DID that offers over an API for
// agents must be present in the channel, or have a bound account or a filed step on a link with the
// channel. IRC links and other homes check their own users. Operators and agents of the registry
// may offer to anyone (spec: airc-shapes, the list of parties).
func (g *Gateway) Member(ctx context.Context, ev federation.Event) (bool, error) {
	venue := cmp.Or(ev.Arrival.Place.Venue, ev.Venue)
	if !ev.Arrival.ReadsInbox || ev.Arrival.Link == OperatorLink || federation.Private(venue) {
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
	for _, placer := range g.links.ChannelLinks() {
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

func (g *Gateway) knownOn(ctx context.Context, link bridge.ChannelLink, venue string, did federation.DID) (bool, error) {
	if gatherer, ok := link.(bridge.MembershipLink); ok && gatherer.Present(ctx, venue, did) {
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

type route struct {
	to        bridge.Recipient
	messenger bridge.Messenger // nil if the recipient reads an inbox
	// home is the outbox of the recipient's home; "" for this home.
	home string
}

// reach returns the route to a recipient. Its error wraps [federation.ErrNotFound] for a DID
// without a known home.
func (g *Gateway) reach(ctx context.Context, to bridge.Recipient) (r route, err error) {
	if r.to = to; to.Place.Link != "" {
		return g.shownOn(ctx, r)
	}
	at, err := g.deps.Locator.Resolve(ctx, to.DID)
	elsewhere := at.Home != "" && at.Home != g.home.Load().ID
	switch {
	case err != nil:
		return r, err
	case elsewhere && at.Source == federation.LocatedByMove:
		r.home = g.outboxOf(at.Home)
		return r, nil
	case at.Agent:
		return r, nil // the registry gets it as an effect
	case at.Link == "", at.Binding.Link == "" && elsewhere:
		r.home, err = g.homeOf(ctx, at.MailboxLocation)
		return r, err
	}
	r.to.Place = federation.ChannelRef{Link: at.Link, Venue: at.Binding.Name}
	return g.shownOn(ctx, r)
}

// shownOn returns the route to a recipient on a link, which may no longer exist.
func (g *Gateway) shownOn(ctx context.Context, r route) (route, error) {
	link := g.links.Named(r.to.Place.Link)
	if messenger, ok := link.(bridge.Messenger); ok {
		r.messenger = messenger
		return r, nil
	}
	r.to.Place = federation.ChannelRef{}
	if link != nil {
		return r, nil
	}
	at, err := g.deps.Locator.Locate(ctx, r.to.DID) // the home may no longer be a peer
	if err != nil {
		return r, err
	}
	if r.home, err = g.homeOf(ctx, at); err == nil && r.home == "" {
		err = fmt.Errorf("no link of this gateway reaches %s: %w", r.to.DID, federation.ErrNotFound)
	}
	return r, err
}

// An empty outbox means this home. A message to an unknown DID waits while other homes are
// searched.
func (g *Gateway) homeOf(ctx context.Context, at federation.MailboxLocation) (outbox string, err error) {
	switch at.Home {
	case g.home.Load().ID:
		return "", nil
	case "":
	default:
		return g.outboxOf(at.Home), nil
	}
	unknown := g.known(ctx, at.DID)
	if !errors.Is(unknown, federation.ErrNotFound) {
		return "", unknown
	}
	others, err := g.deps.Locator.KnowsHomes(ctx)
	if err == nil && !others {
		err = unknown
	}
	return routing.Unrouted, err
}

// outboxOf returns the outbox of another home, or the shared one for a former peer.
func (g *Gateway) outboxOf(home federation.HomeID) string {
	if g.links.isHome(string(home)) {
		return string(home)
	}
	return routing.Unrouted
}

// known returns [federation.ErrNotFound] for a DID that is unknown to the record and not bound to a
// name.
func (g *Gateway) known(ctx context.Context, did federation.DID) error {
	_, known, err := g.home.Load().Record.Acquainted(ctx, did)
	if err == nil && !known {
		err = fmt.Errorf("no link of this gateway reaches %s: %w", did, federation.ErrNotFound)
	}
	return err
}

// Guest implements [bridge.Messages].
func (g *Gateway) Guest(link, nick string) federation.DID {
	return g.deps.Kept("guest:" + link + " " + strings.ToLower(nick)).DID
}

// Addressee implements [bridge.Messages].
func (g *Gateway) Addressee(ctx context.Context, address string) (bridge.Recipient, error) {
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return bridge.Recipient{}, federation.ErrNotFound
	}
	nick, link := address[:at], address[at+1:]
	messenger, ok := g.links.Named(link).(bridge.Messenger)
	if !ok {
		return bridge.Recipient{}, federation.ErrNotFound
	}
	did, err := messenger.Addressee(ctx, nick)
	if err != nil {
		return bridge.Recipient{}, err
	}
	return bridge.Recipient{DID: cmp.Or(did, g.Guest(link, nick)), Place: federation.ChannelRef{Link: link, Venue: nick}}, nil
}

// Introduce implements [bridge.Messages].
func (g *Gateway) Introduce(ctx context.Context, address string) (federation.DID, error) {
	for introducer := range able[bridge.Introducer](g.links) {
		if did, err := introducer.Introduce(ctx, address); !errors.Is(err, federation.ErrNotFound) {
			return did, err
		}
	}
	return "", federation.ErrNotFound
}
