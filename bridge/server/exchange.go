package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"log/slog"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/peering"
	"github.com/baton-gateway/baton/federation/relay"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/translate/dialect"
)

// homes connects the exchange with other homes to the gateway. It implements the ports of packages
// relay and peering.
type homes struct {
	*Server

	client    *identity.PeerClient
	documents *peering.Documents
	peering   *peering.Peering
	canary    *peering.Canary
	boot      string // boot ID of this start; see [relay.Deps]
}

func newHomes(p *Server) *homes {
	h := &homes{Server: p, boot: rand.Text(), client: identity.NewPeerClient(peerFetch(p.file))}
	h.canary = &peering.Canary{
		Home: p.homeID(), PublicURL: p.publicURL, Key: p.serverKey, Link: h.Link,
		Steps: homeSteps{p.bound(), p.Gateway, p.relay},
		Write: func(ev federation.Event) map[string]string {
			fields, _ := dialect.Write(ev) // a step of the home itself is valid in every dialect
			return fields
		},
	}
	path := relay.ByHTTPS
	if p.hub != nil {
		path = relay.ByRelay
	}
	h.peering = peering.New(peering.Config{
		Home: p.homeID(), Path: string(path), Batch: relay.BatchLimits(), ClockSkew: h.clockSkew,
		Fetch: peerFetch(p.file), Record: p.Record, Links: h, Canary: h.canary,
	})
	h.documents = &peering.Documents{
		Linked: h.linkedHome, Keys: func() federation.KeySource { return h.keys.Load() }, Histories: p.Record, Log: p.log,
	}
	return h
}

func peerFetch(file *configs.File) identity.FetchConfig {
	return identity.FetchConfig{AllowPrivate: file.Fetch.AllowPrivate, Denied: deniedNetworks(file)}
}

func (h *homes) clockSkew() time.Duration { return h.Gateway.Home().Limits.ClockSkew }

func (h *homes) deps() relay.Deps {
	return relay.Deps{
		Home: h.homeID(), Boot: h.boot, Record: h.bound(), Hub: h.hub, PubSub: h.relay, Log: h.log, Poster: relay.HTTPSPoster{Client: h.client},
		Gateway: h,
		Signer:  signing.HomeSigner{Key: h.serverKey, Keys: func() federation.KeySource { return h.keys.Load() }},
		Read:    dialect.FromDocument, Topic: bridge.RulingTopic, Mailboxes: h.locator, Now: time.Now, Linked: h.locator.Linked, Traces: h.tracesBetweenHomes(),
		ReadText: func(document, signature string) (federation.Text, error) {
			return signing.ReadText(document, signature, identity.ParseKeyDID)
		},
		MaxHops: func() int { return int(h.maxHops.Load()) },
		Caught:  h.caughtAt("hub"),
		BadInput: func(home federation.HomeID, reason string) {
			h.counters.BadInput.WithLabelValues(relay.Network, string(home), reason).Inc()
		},
	}
}

func (h *homes) handler() *relay.PeerHandler {
	return &relay.PeerHandler{Deps: h.deps(), Peer: h.peer, PublicURL: h.publicURL, ClockSkew: h.clockSkew, Documents: h.publicMux}
}

func (h *homes) peers() []*relay.Peer { return peersOf(h.Gateway.Links().Entries()) }

func (h *homes) peer(home federation.HomeID) *relay.Peer {
	return peerOf(h.Gateway.Links().Entry(string(home)))
}

func (h *homes) openHome(known federation.KnownHome) Entry {
	peer := relay.NewPeer(relay.PeerConfig{Home: known.Home, URL: known.URL, Path: relay.Path(known.Path), Mode: relay.Allow}, h.deps())
	peer.SetOperatorMode(relay.Mode(h.modes.Mode(peer.Name())))
	return openedPeer(peer, configs.Table{}, true)
}

func (h *homes) openUnrouted() Entry {
	return Entry{Link: Unrouted{Locator: h.locator}}
}

// CheckRelay checks the NATS servers for wake-ups and for the exchange between homes. It blocks on
// the network.
func (s *Server) CheckRelay(ctx context.Context) []federation.Finding {
	return append([]federation.Finding{s.relay.Check()}, s.hub.Check(ctx, s.homes.peers(), time.Now)...)
}

type homeSteps struct {
	registry.Bound
	gateway *Gateway
	wakes   bridge.PubSub
}

// Submit implements [peering.Steps].
func (s homeSteps) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	return s.gateway.Submit(ctx, ev)
}

// Arrivals implements [peering.Steps].
func (s homeSteps) Arrivals(did federation.DID) (wake <-chan struct{}, stop func()) {
	return s.wakes.Subscribe(bridge.DIDTopic(did))
}

func (h *homes) posterOf(authorities []byte) (relay.HTTPSPoster, error) {
	roots, err := identity.WithAuthorities(authorities)
	cfg := peerFetch(h.file)
	cfg.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return relay.HTTPSPoster{Client: identity.NewPeerClient(cfg)}, err
}

type linkSource struct {
	table configs.Table
	url   string
	path  relay.Path
	peer  *relay.Peer // nil for a link to no home
}

// Same implements [Source].
func (s linkSource) Same(other Source) bool {
	o, ok := other.(linkSource)
	return ok && s.table.Equal(o.table) && s.url == o.url && s.path == o.path
}

func opened(link bridge.Link, t configs.Table) Entry {
	return Entry{Link: link, Source: linkSource{table: t}}
}

// The table is empty if an operator added the home.
func openedPeer(peer *relay.Peer, t configs.Table, added bool) Entry {
	return Entry{Link: peer, Source: linkSource{table: t, url: peer.URL(), path: peer.Path(), peer: peer}, Added: added}
}

var (
	_ HomeLink            = (*relay.Peer)(nil)
	_ bridge.LossReporter = (*relay.Peer)(nil)
)

func (h *homes) linkedHome(home federation.HomeID) (peering.Linked, bool) {
	peer := h.peer(home)
	if peer == nil {
		return peering.Linked{}, false
	}
	linked := peering.Linked{Home: home, URL: peer.URL(), Key: peer.Key(), Get: peer.Fetch, Vouches: peer.HubVouches}
	if peer.ByHub() {
		linked.Lookup = func(ctx context.Context, path federation.URLPath) (peering.Answer, error) {
			document, err := peer.Lookup(ctx, path)
			return peering.Answer{Document: document.Body, Signed: document.Answer.Body, Signature: document.Answer.Signature}, err
		}
	}
	return linked, true
}

func (s *Server) homeDocument(ctx context.Context, name string, path federation.URLPath) (body []byte, known bool, err error) {
	if s.homes == nil {
		return nil, false, nil
	}
	return s.homes.documents.Read(ctx, name, path)
}

func readMeeting(file *configs.File) relay.NATSConfig {
	var hub configs.Hub
	file.Table(relay.HubTable).Decode(&hub)
	if hub.Replicas < 0 || hub.Replicas > configs.MaxReplicas {
		file.Table(relay.HubTable).Mistake("replicas", "want 0 to "+strconv.Itoa(configs.MaxReplicas))
	}
	own := file.Relay
	return relay.NATSText{
		Home: federation.HomeID(file.Home.Name), Listen: own.Listen, Replicas: own.Replicas, MaxBytes: own.MaxBytes,
		Own:         relay.ServerText{URLs: own.URLs, CredsFile: own.CredsFile, NKeyFile: own.NKeyFile, CAFile: own.CAFile},
		Hub:         relay.ServerText{URLs: hub.URLs, CredsFile: hub.CredsFile, NKeyFile: hub.NKeyFile, CAFile: hub.CAFile},
		HubReplicas: hub.Replicas,
	}.Parse(file, func(table, key, why string) { file.Table(table).Mistake(key, why) })
}

func (s *Server) openMeeting(ctx context.Context, log *slog.Logger) error {
	m := readMeeting(s.file)
	var err error
	if m.Host != nil && s.file.SpeaksTLS() {
		m.Host.TLS = s.certificate.Config()
	}
	if m.Host != nil {
		if s.host, err = relay.OpenHost(ctx, *m.Host, log); err != nil {
			return err
		}
		log.InfoContext(ctx, "listening", slog.String("listener", "relay"), slog.String("address", s.host.URL()))
		m.Hub.Host = s.host
	}
	if m.Hub.Named() {
		s.hub, err = relay.OpenHub(m.Hub, s.homeID(), log)
	}
	return err
}
