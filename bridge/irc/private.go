package irc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"baton/bridge"
	"baton/federation"
)

// PrivateVenue returns the venue of a step that was sent to one user of this gateway: its
// own user, or the pseudo-client of another DID. The signature covers the venue, so the
// venue is the pair that the sender has signed: that of the handoff where the sender is a
// party of it, else the sender with the other party of the step.
//
// It returns a [*federation.RefusalError] for a step that was sent to a user other than
// that party, and for a step of an unknown handoff, whose venue is unknown too. Other
// errors come from [bridge.Gateway].
//
// spec: handofftag "Canonical document"
func PrivateVenue(ctx context.Context, p bridge.Ports, ev federation.Event, to federation.DID) (string, error) {
	var view federation.View // of the handoff before the step; an offer has none
	if ev.Verb != federation.Offer {
		var err error
		if view, err = p.Gateway.View(ctx, ev.Handoff); err != nil {
			return "", fmt.Errorf("read handoff %s: %w", ev.Handoff, err)
		}
		if !view.Exists() {
			return "", federation.Refuse(ev, federation.UnknownHandoff, "")
		}
	}
	other := otherParty(ev, view)
	if other == "" {
		other = p.Home.DID() // any DID may claim
	}
	if to != p.Home.DID() && !p.Gateway.Same(ctx, to, other) {
		return "", federation.Refuse(ev, federation.InvalidTarget, "that user has no part in it")
	}
	pairs := func(did federation.DID) bool { return federation.PrivateVenue(ev.From, did) == view.Venue }
	if slices.ContainsFunc(append(view.Others(ev.From), p.Home.DID()), pairs) {
		return view.Venue, nil
	}
	return federation.PrivateVenue(ev.From, other), nil
}

// Writes reports whether the steps of a handoff are written on a link: in its channels,
// and of a private handoff where that was opened and where another party of it was seen
// last. Its error is that of the record.
func (c Channels) Writes(ctx context.Context, p bridge.Ports, link string, v federation.View) (bool, error) {
	switch {
	case !federation.Private(v.Venue):
		return (v.Link == "" || v.Link == link) && slices.Contains(c.here, v.Venue), nil
	case v.Link == link:
		return true, nil
	}
	for _, did := range v.Others("") {
		at, err := SeenOn(ctx, p, did)
		if err != nil || at == link {
			return err == nil, err
		}
	}
	return false, nil
}

// SeenOn returns the link on which a DID signed last, "" where it never signed here. Its error is that of the record.
func SeenOn(ctx context.Context, p bridge.Ports, did federation.DID) (link string, err error) {
	at, err := p.Bindings.Seen(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look up %s: %w", did, err)
	}
	return at.Link, nil
}

// otherParty returns the recipient of a step, "" for an open offer without a claim.
func otherParty(ev federation.Event, view federation.View) federation.DID {
	switch {
	case ev.Verb == federation.Offer:
		return ev.Offeree()
	case ev.From != view.Offerer:
		return view.Offerer
	case view.Assignee != "":
		return view.Assignee
	}
	return view.Offeree
}
