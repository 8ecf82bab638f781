package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"baton/bridge"
	"baton/bridge/gateway"
	"baton/configs"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/mailbox"
	"baton/federation/peering"
	"baton/federation/relay"
	"baton/federation/signing"
	"baton/translate/dialect"
)

// homes wires the exchange with other homes to the gateway.
type homes struct {
	linked    atomic.Pointer[peerSet]
	self      federation.HomeID
	gateway   *gateway.Gateway
	record    boundRecord
	client    *identity.PeerClient
	documents *peering.Documents
	routes    http.Handler // the public routes
	locator   *mailbox.Locator
	peering   *peering.Peering
	canary    *peering.Canary
	hub       *relay.Hub // nil for none
	wakes     bridge.Wakes
	log       *slog.Logger
	keys      func() *identity.KeySource
	maxHops   func() int // through which a step may come
	publicURL string
	boot      string // of this start; see [relay.Deps]
	fetch     identity.FetchConfig
	badInput  func(home federation.HomeID, reason string)
}

func newHomes(p *program) *homes {
	h := &homes{
		self: p.homeID(), gateway: p.gateway, record: p.bound(), hub: p.hub, wakes: p.relay, log: p.log, keys: p.keys.Load,
		boot: rand.Text(), publicURL: p.publicURL, maxHops: func() int { return int(p.maxHops.Load()) },
		client: identity.NewPeerClient(peerFetch(p.file)), fetch: peerFetch(p.file), canary: newCanary(p),
	}
	h.linked.Store(newPeerSet(nil))
	h.locator = mailbox.New(mailbox.Config{
		Home: p.homeID(), Record: mailboxRecord{p.bound()}, Peers: otherHomes{&h.linked},
		Documents: didDocuments{p.directory.Load, p.client}, Routed: p.gateway.Routed, Log: p.log,
	})
	h.peering = newPeering(p, h)
	h.documents, h.routes = newHomeDocuments(p, h), p.publicMux
	h.badInput = func(home federation.HomeID, reason string) {
		p.counters.BadInput.WithLabelValues(relay.Network, string(home), reason).Inc()
	}
	return h
}

// peerFetch says which addresses of other homes are reached.
func peerFetch(file *configs.File) identity.FetchConfig {
	return identity.FetchConfig{AllowPrivate: file.Fetch.AllowPrivate, Denied: deniedNetworks(file)}
}

// clockSkew returns by which the clock of another home may differ.
func (h *homes) clockSkew() time.Duration { return h.gateway.Home().Limits.ClockSkew }

// deps returns what the exchange with other homes is wired to.
func (h *homes) deps() relay.Deps {
	return relay.Deps{
		Home: h.self, Boot: h.boot, Record: h.record, Gateway: homeGateway{h}, Signer: homeSigner{h.gateway, h.keys}, Poster: homePoster{h.client}, Hub: h.hub,
		Wakes: h.wakes, Log: h.log, Read: dialect.FromDocument, Topic: bridge.RulingTopic,
		Mailboxes: h.locator, Now: time.Now, MaxHops: h.maxHops, Linked: h.locator.Linked, BadInput: h.badInput,
	}
}

// handler returns the handler of requests of other homes.
func (h *homes) handler() *relay.PeerHandler {
	return &relay.PeerHandler{Deps: h.deps(), Peer: h.peer, PublicURL: h.publicURL, ClockSkew: h.clockSkew, Documents: h.routes}
}

// peers returns the other homes that are configured now.
func (h *homes) peers() []*relay.Peer { return h.linked.Load().all }

// peer returns another home, nil for a home that is no peer.
func (h *homes) peer(home federation.HomeID) *relay.Peer {
	return h.linked.Load().named[home]
}

// Place implements [relay.Gateway].
func (h *homes) Place(ctx context.Context, ev federation.Event) (federation.Place, error) {
	channel := ev.Venue
	if federation.Private(channel) {
		channel = ""
	}
	place, _, err := h.gateway.Place(ctx, ev.From, ev.To, channel)
	return place, err
}

// homeGateway implements [relay.Gateway].
type homeGateway struct{ *homes }

// Submit implements [relay.Gateway]. It learns from a filed step where the mailbox of the
// signer is.
func (g homeGateway) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	ev, err := g.locator.LocalName(ctx, ev)
	if err != nil {
		return federation.Judgement{}, err
	}
	g.gateway.FetchKey(ctx, ev)
	judged, err := g.gateway.Submit(ctx, ev)
	if err == nil && !judged.Duplicate {
		g.locator.LearnFromStep(ctx, ev, ev.Arrival.Home, time.Now())
	}
	return judged, err
}

// Ruled implements [relay.Gateway]. It learns from a filed offer where the mailbox of the
// offerer is, and answers a canary.
func (g homeGateway) Ruled(ctx context.Context, ev federation.Event, r federation.Ruling) (federation.Judgement, error) {
	ev, err := g.locator.LocalName(ctx, ev)
	if err != nil {
		return federation.Judgement{}, err
	}
	g.gateway.FetchKey(ctx, ev)
	judged, err := g.gateway.Ruled(ctx, ev, r)
	if err == nil && !judged.Duplicate && ev.Verb == federation.Offer && r.Home != g.self {
		g.locator.LearnFromStep(ctx, ev, r.Home, time.Now())
		if err := g.canary.Answer(ctx, ev, r.Home); err != nil {
			g.log.LogAttrs(ctx, slog.LevelWarn, "canary not completed", slog.String("peer", string(r.Home)), slog.Any("err", err))
		}
	}
	return judged, err
}

// GiveUp implements [relay.Gateway].
func (g homeGateway) GiveUp(ctx context.Context, p federation.Pending, code federation.RefusalCode, detail string) error {
	return g.gateway.GiveUp(ctx, p, code, detail)
}

// homeSigner implements [relay.Signer] with the key that is good now.
type homeSigner struct {
	gateway *gateway.Gateway
	// keys may ask the host of the other home, which an operator named.
	keys func() *identity.KeySource
}

// Sign implements [relay.Signer].
func (s homeSigner) Sign(ctx context.Context, message []byte) (string, error) {
	return signing.SignHome(ctx, s.gateway.Home().Key, message)
}

// Verify implements [relay.Signer].
func (s homeSigner) Verify(ctx context.Context, home federation.HomeID, at time.Time, message []byte, signature string) (federation.Verdict, error) {
	return signing.VerifyHome(ctx, s.keys(), home, message, signature, at)
}

// posterOf returns the HTTPS client for a home that some authorities, in PEM, certify beside
// those of the system.
func (h *homes) posterOf(authorities []byte) (homePoster, error) {
	roots, err := withAuthorities(authorities)
	if err != nil {
		return homePoster{}, err
	}
	cfg := h.fetch
	cfg.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return homePoster{identity.NewPeerClient(cfg)}, nil
}

// homePoster implements [relay.Poster].
type homePoster struct{ client *identity.PeerClient }

// Post implements [relay.Poster].
func (p homePoster) Post(ctx context.Context, address string, e relay.Envelope) (relay.Envelope, error) {
	answer, header, err := p.client.Do(ctx, http.MethodPost, address, e.Body, e.Header())
	return relay.NewEnvelope(answer, header), err
}

// Get implements [relay.Poster].
func (p homePoster) Get(ctx context.Context, address string) (relay.Envelope, error) {
	answer, header, err := p.client.Do(ctx, http.MethodGet, address, nil, nil)
	return relay.NewEnvelope(answer, header), err
}
