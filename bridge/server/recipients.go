package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"baton/bridge"
	"baton/federation"
	"baton/federation/mailbox"
)

// route is the way of a message to its recipient.
type route struct {
	to        bridge.Recipient
	messenger bridge.Messenger // that shows the message; nil for a recipient that reads an inbox
	// home is the outbox of the home that has the mailbox of the recipient; "" for this home.
	home string
}

// reach returns the way to a recipient. Its error wraps [federation.ErrNotFound] for a DID that no
// home is known to have.
func (g *Gateway) reach(ctx context.Context, to bridge.Recipient) (r route, err error) {
	if r.to = to; to.Place.Link != "" {
		return g.shownOn(ctx, r)
	}
	at, err := g.locate(ctx, to.DID)
	if err != nil {
		return r, err
	}
	if at.Source == federation.LocatedByMove && at.Home != g.home.Load().ID {
		r.home = g.outboxOf(at.Home)
		return r, nil
	}
	_, err = g.participants.WithDID(ctx, to.DID)
	if err == nil {
		return r, nil // the registry has it as an effect
	}
	if !errors.Is(err, federation.ErrNotFound) {
		return r, fmt.Errorf("look up %s: %w", to.DID, err)
	}
	b, err := g.participants.Binding(ctx, to.DID)
	switch unseen := errors.Is(err, federation.ErrNotFound); {
	case err != nil && !unseen:
		return r, fmt.Errorf("look up %s: %w", to.DID, err)
	case unseen && (at.Home == "" || at.Home == g.home.Load().ID):
		b.Link = g.links.loggedInto(ctx, to.DID)
	}
	if b.Link == "" || g.links.isHome(b.Link) {
		r.home, err = g.homeOf(ctx, at)
		return r, err
	}
	r.to.Place = federation.Place{Link: b.Link, Venue: b.Name}
	return g.shownOn(ctx, r)
}

// shownOn returns the way to a recipient on a link, which may be gone.
func (g *Gateway) shownOn(ctx context.Context, r route) (route, error) {
	link := g.links.Named(r.to.Place.Link)
	if messenger, ok := link.(bridge.Messenger); ok {
		r.messenger = messenger
		return r, nil
	}
	r.to.Place = federation.Place{}
	if link != nil {
		return r, nil
	}
	at, err := g.locate(ctx, r.to.DID) // the home that the link led to may be no peer now
	if err != nil {
		return r, err
	}
	if r.home, err = g.homeOf(ctx, at); err == nil && r.home == "" {
		err = fmt.Errorf("no link of this gateway reaches %s: %w", r.to.DID, federation.ErrNotFound)
	}
	return r, err
}

// locate returns where the mailbox of a DID is.
func (g *Gateway) locate(ctx context.Context, did federation.DID) (federation.MailboxLocation, error) {
	at, err := g.deps.Locator.Locate(ctx, did)
	if err != nil {
		return at, fmt.Errorf("look up the home of %s: %w", did, err)
	}
	return at, nil
}

// homeOf returns the outbox of the home that has a mailbox, and "" for this home. A DID that is
// unknown here is searched at other homes while the message waits.
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
	return mailbox.Unrouted, err
}

// outboxOf returns the outbox of another home, or the one for homes that are no peers now.
func (g *Gateway) outboxOf(home federation.HomeID) string {
	if g.links.isHome(string(home)) {
		return string(home)
	}
	return mailbox.Unrouted
}

// known returns [federation.ErrNotFound] for a DID that the record does not know. A DID with a
// name that an operator bound is known.
func (g *Gateway) known(ctx context.Context, did federation.DID) error {
	_, known, err := g.home.Load().Acquaintances.Acquainted(ctx, did)
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
	did, valid := messenger.Addressee(ctx, nick)
	if !valid {
		return bridge.Recipient{}, federation.ErrNotFound
	}
	return bridge.Recipient{DID: cmp.Or(did, g.Guest(link, nick)), Place: federation.Place{Link: link, Venue: nick}}, nil
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
