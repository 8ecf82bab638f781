package irc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// Channels maps the channels of a link to their names in this federation. It is immutable.
type Channels struct {
	here    []string
	there   []string
	spelled []string
}

const called = " as "

// ParseChannels parses the channels of a link. Each entry is a name of at most maxBytes, or two
// names, as in "#ops as #agents". The error describes the first invalid entry.
func ParseChannels(entries []string, maxBytes int) (Channels, error) {
	var c Channels
	if len(entries) == 0 {
		return c, errors.New(`want at least one, as in ["#ops"]`)
	}
	for _, entry := range entries {
		name, spelled, two := strings.Cut(entry, called)
		if !two {
			spelled = name
		}
		here, ok := channel(name, maxBytes)
		there, okThere := channel(spelled, maxBytes)
		switch {
		case !ok || !okThere:
			return c, fmt.Errorf("%q is no channel: want \"#\" and up to %d bytes without space or comma", entry, maxBytes-1)
		case slices.Contains(c.here, here) || slices.Contains(c.there, there):
			return c, fmt.Errorf("%q is listed twice", entry)
		}
		c.here, c.there, c.spelled = append(c.here, here), append(c.there, there), append(c.spelled, spelled)
	}
	return c, nil
}

func channel(name string, maxBytes int) (venue string, ok bool) {
	venue, ok = translate.Channel(name)
	return venue, ok && len(name) >= 2 && len(name) <= maxBytes && !strings.ContainsFunc(name, unicode.IsControl)
}

// Here returns the venues in this federation.
func (c Channels) Here() []string { return slices.Clone(c.here) }

// There returns the venues on the network, in the same order.
func (c Channels) There() []string { return slices.Clone(c.there) }

// Spelled returns the names on the network as spelled in the configuration, in the same order.
func (c Channels) Spelled() []string { return slices.Clone(c.spelled) }

// Out translates a venue of this federation to one on the network. It returns other venues
// unchanged.
func (c Channels) Out(here string) (there string) {
	if i := slices.Index(c.here, here); i >= 0 {
		return c.there[i]
	}
	return here
}

// Place returns the place of a step signed for a venue on the network, or the zero value if the venue
// has the same name here.
func (c Channels) Place(there string) federation.ChannelRef {
	if here, ok := c.In(there); ok && here != there {
		return federation.ChannelRef{Venue: here}
	}
	return federation.ChannelRef{}
}

// In translates a venue on the network to one of this federation. It returns false for a venue
// outside the link.
func (c Channels) In(there string) (here string, ok bool) {
	i := slices.Index(c.there, there)
	if i < 0 {
		return "", false
	}
	return c.here[i], true
}

// PrivateVenue returns the venue of a step sent to one user of this gateway: its own user, or the
// pseudo-client of another DID. The sender's signature covers the venue, which is a pair of DIDs. A
// party of the handoff signs the pair of the handoff. Any other sender signs its own DID paired
// with the DID of the other party of the step.
//
// It returns a [*federation.RefusalError] for a step sent to another user, or for an unknown
// handoff.
//
// spec: handofftag "Canonical document"
func PrivateVenue(ctx context.Context, p bridge.Ports, ev federation.Event, to federation.DID) (string, error) {
	var view federation.View // before the step; an offer has none
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
	if to != p.Home.DID() {
		if same, err := p.Gateway.Same(ctx, to, other); err != nil {
			return "", err
		} else if !same {
			return "", federation.Refuse(ev, federation.InvalidTarget, "that user is not a party to it")
		}
	}
	pairs := func(did federation.DID) bool { return federation.PrivateVenue(ev.From, did) == view.Venue }
	if slices.ContainsFunc(append(view.Others(ev.From), p.Home.DID()), pairs) {
		return view.Venue, nil
	}
	return federation.PrivateVenue(ev.From, other), nil
}

// Writes reports whether the steps of a handoff are written on a link. A private handoff is written
// on the link that opened it, and on the links where its other parties were last seen.
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

// SeenOn returns the link on which a DID last signed, or "" if it never signed here.
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

// otherParty returns "" for an unclaimed open offer.
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

// ValidAddress reports whether a string is "host:port" with a host.
func ValidAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// ValidListen is [ValidAddress] for a listener, whose host may be empty.
func ValidListen(s string) bool {
	return ValidAddress(s) || strings.HasPrefix(s, ":") && ValidAddress("localhost"+s)
}
