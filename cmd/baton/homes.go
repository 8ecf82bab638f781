package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/relay"
	"baton/federation/signing"
	"baton/translate/dialect"
)

// homes is what this gateway knows of other homes: who they are, and whose mailboxes
// they have.
type homes struct {
	self    federation.HomeID
	gateway *gateway
	record  boundRecord
	client  *identity.PeerClient
	// strangers is asked at addresses that others chose.
	strangers *identity.Client
	// documents resolves DIDs.
	documents func() *identity.Directory
	hub       *relay.Hub // nil for none
	wakes     bridge.Wakes
	log       *slog.Logger
	keys      func() *identity.KeySource
	maxHops   func() int // through which a step may come
	publicURL string
}

func newHomes(p *program) *homes {
	return &homes{
		self: p.homeID(), gateway: p.gateway, record: p.bound(), hub: p.hub, wakes: p.relay, log: p.log, keys: p.keys.Load,
		publicURL: p.publicURL, strangers: p.client, documents: p.directory.Load, maxHops: func() int { return int(p.maxHops.Load()) },
		client: identity.NewPeerClient(identity.FetchConfig{AllowPrivate: p.file.Fetch.AllowPrivate, Denied: deniedNetworks(p.file)}),
	}
}

// deps returns what the exchange with other homes is wired to.
func (h *homes) deps() relay.Deps {
	return relay.Deps{
		Home: h.self, Record: h.record, Gateway: homeGateway{h}, Signer: homeSigner{h.gateway, h.keys}, Poster: homePoster{h.client}, Hub: h.hub,
		Wakes: h.wakes, Log: h.log, Read: dialect.FromDocument, Topic: bridge.RulingTopic,
		Resides: h.resides, Here: h.here, Place: h.place, Now: time.Now,
		MovedFrom: h.movedFrom, TakeOver: h.takeOver, Moved: h.moved, Learn: h.learn, MaxHops: h.maxHops,
	}
}

// door returns what takes the steps of other homes.
func (h *homes) door() *relay.Door {
	return &relay.Door{Deps: h.deps(), Peer: h.peer, PublicURL: h.publicURL, ClockSkew: func() time.Duration { return h.gateway.home.Load().Limits.ClockSkew }}
}

// peers returns the other homes that are configured now.
func (h *homes) peers() []*relay.Peer { return h.gateway.fleet.current.Load().peers }

// peer returns another home, nil for one that nobody configured.
func (h *homes) peer(home federation.HomeID) *relay.Peer {
	return h.gateway.fleet.current.Load().peer(home)
}

// documented returns the peer that the document of a DID names as the home of its
// mailbox, "" where it names none. It blocks on the network.
func (h *homes) documented(ctx context.Context, did federation.DID) (federation.HomeID, error) {
	document, err := h.documents().Resolve(ctx, did, time.Now())
	if err != nil || document.Mailbox == "" {
		return "", err
	}
	address := strings.TrimSuffix(document.Mailbox, "/")
	for _, peer := range h.peers() {
		if peer.URL() == address {
			return peer.Home(), nil
		}
	}
	return "", fmt.Errorf("its document names %q, which is no peer of this gateway", document.Mailbox)
}

// hosted returns the peer that the host of a did:web names in its well-known document,
// "" for other DIDs, and for a host that has none. It blocks on the network.
func (h *homes) hosted(ctx context.Context, did federation.DID) (federation.HomeID, error) {
	below, ok := strings.CutPrefix(string(did), "did:web:")
	if !ok {
		return "", nil
	}
	host, _, _ := strings.Cut(below, ":")
	host, err := url.PathUnescape(host) // a port stands behind %3A
	if err != nil {
		return "", err
	}
	address, err := federation.JoinURL(federation.BaseURL(host), relay.ProfilePath, nil)
	if err != nil {
		return "", err
	}
	text, err := h.strangers.Get(ctx, address)
	if errors.Is(err, federation.ErrNotFound) {
		return "", nil
	}
	var profile relay.Profile
	if err == nil {
		profile, err = relay.ParseProfile(text)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("read the well-known document of %s: %w", host, err)
	case h.peer(profile.Home) == nil:
		return "", fmt.Errorf("its host names %q, which is no peer of this gateway", profile.Home)
	}
	return profile.Home, nil
}

// here reports whether a DID has its mailbox at this gateway.
func (h *homes) here(ctx context.Context, did federation.DID) (bool, error) {
	home, err := h.residence(ctx, did)
	return home == h.self, err
}

// owed returns the names of the feeds of other homes that a step goes to: those of its
// parties, and of an offer to anyone all. What is owed to somebody whose home is not
// known waits in a feed of its own. A handoff of another home is that one's to tell of, but
// for those who moved away from here.
func (h *homes) owed(ctx context.Context, ev federation.Event, after federation.View) ([]string, error) {
	peers := h.peers()
	switch {
	case len(peers) == 0 || ev.Verb == federation.Confirm:
		return nil, nil
	case after.Home != h.self:
		return h.forwarded(ctx, ev, after), nil
	}
	var names []string
	if after.Offeree == "" {
		for _, p := range peers {
			if p.Mode() != relay.Block && p.Name() != ev.Arrival.Link {
				names = append(names, p.Name())
			}
		}
		return names, nil
	}
	for _, did := range after.Others("") {
		if did == ev.Actor() && !ev.Arrival.Abroad {
			continue // who took it is here
		}
		home, err := h.residence(ctx, did)
		if err != nil {
			return nil, err
		}
		name := string(home)
		if home != h.self && h.peer(home) == nil {
			name = unroutedName
		}
		if home != h.self && name != ev.Arrival.Link && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// place returns where an offer of another home is written on IRC here.
func (h *homes) place(ctx context.Context, ev federation.Event) (federation.Place, error) {
	channel := ev.Venue
	if federation.Private(channel) {
		channel = ""
	}
	place, _, err := h.gateway.Place(ctx, ev.From, ev.To, channel)
	return place, err
}

// homeGateway implements [relay.Gateway].
type homeGateway struct{ *homes }

// Submit implements [relay.Gateway]. Whose step was taken has its mailbox where it came
// from, unless it is known to be elsewhere.
func (g homeGateway) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	ev, err := g.named(ctx, ev)
	if err != nil {
		return federation.Judgement{}, err
	}
	g.gateway.FetchKey(ctx, ev)
	judged, err := g.gateway.Submit(ctx, ev)
	if err == nil && !judged.Duplicate {
		g.heardAt(ctx, ev, ev.Arrival.Home)
	}
	return judged, err
}

// Ruled implements [relay.Gateway]. Who offered something has its mailbox at the home of
// the offer, unless it is known to be elsewhere.
func (g homeGateway) Ruled(ctx context.Context, ev federation.Event, r federation.Ruling) (federation.Judgement, error) {
	ev, err := g.named(ctx, ev)
	if err != nil {
		return federation.Judgement{}, err
	}
	g.gateway.FetchKey(ctx, ev)
	judged, err := g.gateway.Ruled(ctx, ev, r)
	if err == nil && !judged.Duplicate && ev.Verb == federation.Offer {
		g.heardAt(ctx, ev, r.Home)
		g.sing(ctx, ev, r.Home)
	}
	return judged, err
}

// named returns a step with the name that its signer has at the other home, where that is
// whose people it is of: who was seen here is called what they are called here.
func (h *homes) named(ctx context.Context, ev federation.Event) (federation.Event, error) {
	at, err := h.seen(ctx, ev.Actor())
	if at.Home == h.self || ev.Arrival.Name == "" {
		ev.Arrival.Name = ""
	}
	return ev, err
}

// GiveUp implements [relay.Gateway].
func (g homeGateway) GiveUp(ctx context.Context, p federation.Pending, code federation.RefusalCode, detail string) error {
	return g.gateway.giveUp(ctx, p, code, detail)
}

// homeSigner implements [relay.Signer] with the key that is good now.
type homeSigner struct {
	gateway *gateway
	// keys may ask the host of the other home, which an operator named.
	keys func() *identity.KeySource
}

// Sign implements [relay.Signer].
func (s homeSigner) Sign(ctx context.Context, message []byte) (string, error) {
	return signing.SignHome(ctx, s.gateway.home.Load().Key, message)
}

// Verify implements [relay.Signer].
func (s homeSigner) Verify(ctx context.Context, home federation.HomeID, at time.Time, message []byte, signature string) (federation.Verdict, error) {
	return signing.VerifyHome(ctx, s.keys(), home, message, signature, at)
}

// homePoster implements [relay.Poster].
type homePoster struct{ client *identity.PeerClient }

// Post implements [relay.Poster].
func (p homePoster) Post(ctx context.Context, address string, l relay.Letter) (relay.Letter, error) {
	answer, header, err := p.client.Do(ctx, http.MethodPost, address, l.Body, l.Header())
	return relay.NewLetter(answer, header), err
}

// Get implements [relay.Poster].
func (p homePoster) Get(ctx context.Context, address string) (relay.Letter, error) {
	answer, header, err := p.client.Do(ctx, http.MethodGet, address, nil, nil)
	return relay.NewLetter(answer, header), err
}
