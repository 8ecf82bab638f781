package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"baton/bridge"
	"baton/federation"
)

// reach returns where a recipient is: on a link that shows messages, or at its inbox alone. The
// error wraps [federation.ErrNotFound] for a DID that the record does not know, and for one whose
// mailbox is at another home.
func (g *Gateway) reach(ctx context.Context, to bridge.Recipient) (bridge.Recipient, bridge.Messenger, error) { //nolint:ireturn // links are of many types
	if to.Place.Link == "" {
		_, err := g.deps.Participants.WithDID(ctx, to.DID)
		if err == nil {
			return to, nil, nil // the registry has it as an effect
		}
		if !errors.Is(err, federation.ErrNotFound) {
			return to, nil, fmt.Errorf("look up %s: %w", to.DID, err)
		}
		b, err := g.deps.Participants.Binding(ctx, to.DID)
		switch {
		case errors.Is(err, federation.ErrNotFound):
			return to, nil, g.known(ctx, to.DID)
		case err != nil:
			return to, nil, fmt.Errorf("look up %s: %w", to.DID, err)
		}
		to.Place = federation.Place{Link: b.Link, Venue: b.Name}
	}
	link := to.Place.Link
	messenger, ok := g.links.Named(link).(bridge.Messenger)
	switch {
	case ok:
		return to, messenger, nil
	case g.links.isHome(link), g.links.Named(link) == nil:
		return to, nil, fmt.Errorf("no link of this gateway reaches %s: %w", to.DID, federation.ErrNotFound)
	}
	to.Place = federation.Place{}
	return to, nil, nil
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
