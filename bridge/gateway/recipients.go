package gateway

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
	if r.to = to; to.Place.Link == "" {
		if r.home, err = g.movedTo(ctx, to.DID); err != nil || r.home != "" {
			return r, err
		}
		_, err := g.deps.Participants.WithDID(ctx, to.DID)
		if err == nil {
			return r, nil // the registry has it as an effect
		}
		if !errors.Is(err, federation.ErrNotFound) {
			return r, fmt.Errorf("look up %s: %w", to.DID, err)
		}
		b, err := g.deps.Participants.Binding(ctx, to.DID)
		switch {
		case errors.Is(err, federation.ErrNotFound), err == nil && g.links.isHome(b.Link):
			r.home, err = g.homeOf(ctx, to.DID)
			return r, err
		case err != nil:
			return r, fmt.Errorf("look up %s: %w", to.DID, err)
		}
		r.to.Place = federation.Place{Link: b.Link, Venue: b.Name}
	}
	link := g.links.Named(r.to.Place.Link)
	messenger, ok := link.(bridge.Messenger)
	switch {
	case ok:
		r.messenger = messenger
	case link == nil: // it is gone, or the home that it led to is no peer now
		if r.home, err = g.homeOf(ctx, to.DID); err == nil && r.home == "" {
			err = fmt.Errorf("no link of this gateway reaches %s: %w", to.DID, federation.ErrNotFound)
		}
		r.to.Place = federation.Place{}
	default:
		r.to.Place = federation.Place{}
	}
	return r, err
}

// homeOf returns the outbox of the home that has the mailbox of a DID, and "" for this home. A DID
// that is unknown here is searched at other homes while the message waits.
func (g *Gateway) homeOf(ctx context.Context, did federation.DID) (outbox string, err error) {
	if g.deps.Mailboxes == nil {
		return "", g.known(ctx, did)
	}
	at, err := g.deps.Mailboxes.Locate(ctx, did)
	switch {
	case err != nil:
		return "", fmt.Errorf("look up the home of %s: %w", did, err)
	case at.Home == g.home.Load().ID:
		return "", nil
	case at.Home != "":
		return g.outboxOf(at.Home), nil
	}
	unknown := g.known(ctx, did)
	if !errors.Is(unknown, federation.ErrNotFound) {
		return "", unknown
	}
	others, err := g.deps.Mailboxes.KnowsHomes(ctx)
	if err == nil && !others {
		err = unknown
	}
	return mailbox.Unrouted, err
}

// movedTo returns the outbox of the home that an operator moved the mailbox of a DID to, and "" for
// a mailbox that did not move away.
func (g *Gateway) movedTo(ctx context.Context, did federation.DID) (outbox string, err error) {
	if g.deps.Mailboxes == nil {
		return "", nil
	}
	at, err := g.deps.Mailboxes.Locate(ctx, did)
	if err != nil {
		return "", fmt.Errorf("look up the home of %s: %w", did, err)
	}
	if at.Source != federation.LocatedByMove || at.Home == g.home.Load().ID {
		return "", nil
	}
	return g.outboxOf(at.Home), nil
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
