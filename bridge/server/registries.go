package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/relay"
	"github.com/baton-gateway/baton/federation/routing"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// An absent record is not an error.
func lookUpTexts(ctx context.Context, name string) ([]string, error) {
	texts, err := net.DefaultResolver.LookupTXT(ctx, name)
	if missing, ok := errors.AsType[*net.DNSError](err); ok && missing.IsNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, &federation.UnavailableError{What: "DNS of " + name, Err: fmt.Errorf("look up texts: %w", err)}
	}
	return texts, nil
}

func (s *Server) registryDeps(record registry.Bound) airc.Deps {
	return airc.Deps{
		Record: record, Keyring: s.keyring, Mode: s.modes.Mode, Authenticate: s.Gateway.Links().Authenticate,
		Quotas: func() airc.Quotas {
			return airc.Quotas{
				Room: s.Gateway.Home().Limits.Inbox, FirstContacts: *s.firstContacts.Load(), RegistrationsPerHour: s.limits.Load().RegistrationsPerHour,
			}
		},
		Take: s.Gateway.Rates().Take, Left: s.Gateway.Rates().Left, Admit: s.Gateway.Admit, Meet: s.Gateway.Meet, Hooks: s.agentHooks(),
		Fetch: s.registryClient, Issuer: s.client, TXT: lookUpTexts, TokenKey: s.keyring.Token(), Authorities: clientPools(s.file), Logins: s.logins, Writes: s.writes,
		RunExclusive: func(ctx context.Context, do func(context.Context)) {
			_ = s.Record.RunExclusive(ctx, LinkLease(agents.Link), do) // its error is the end of ctx
		},
	}
}

// Peers returns the registries and homes named by the configuration or an operator.
func (s *Server) Peers() []admin.Peer { return append(s.registries(), s.homes.shapes()...) }

func (s *Server) registries() []admin.Peer {
	isHome := func(name string) bool { return s.homes.peer(federation.HomeID(name)) != nil }
	var all []admin.Peer
	for _, peer := range s.modes.LinkPeers(s.Gateway.Links(), isHome) {
		origin := admin.FromConfiguration
		if peer.Set {
			origin = admin.FromRecord
		}
		all = append(all, admin.Peer{Name: peer.Name, Network: peer.Network, Mode: peer.Mode, Origin: origin, URL: peer.URL, Dialect: peer.Dialect, Unsigned: peer.Unsigned})
	}
	return all
}

// SetPeerMode sets the mode of a registry, of a home, or of both if they share a name. A dry run
// only checks the name. Its error may be a [*bridge.ProblemError].
func (s *Server) SetPeerMode(ctx context.Context, m federation.PeerMode, dry bool) error {
	if s.homes.peer(federation.HomeID(m.Domain)) == nil {
		if err := s.Gateway.Links().CheckPeer(m.Domain); err != nil {
			return &admin.ProblemError{Status: http.StatusBadRequest, Code: admin.CodeUsage, Detail: "want a home, or " + err.Error()}
		}
	}
	if dry {
		return nil
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.modes.SetPeerMode(ctx, m); err != nil {
		return fmt.Errorf("keep mode: %w", err)
	}
	defer s.Gateway.TellReplicas()
	return errors.Join(s.readModes(ctx), s.Gateway.ReviveBlocked(ctx))
}

// readModes reads the modes set by operators. Deliveries to homes with a changed mode become due at
// once.
func (s *Server) readModes(ctx context.Context) error {
	if err := s.modes.Read(ctx); err != nil || s.homes == nil {
		return err
	}
	var errs []error
	for _, peer := range s.homes.peers() {
		if mode := relay.Mode(s.modes.Mode(peer.Name())); mode != peer.OperatorMode() {
			peer.SetOperatorMode(mode)
			errs = append(errs, s.Record.Rows().Hurry(ctx, peer.Name()))
		}
	}
	return errors.Join(errs...)
}

// ComparePeer compares histories with another home and sends its missing steps. A dry run only
// checks that the home exists. It blocks on the network. Its error may be a [*bridge.ProblemError].
func (s *Server) ComparePeer(ctx context.Context, home federation.HomeID, dry bool) (admin.Compared, error) {
	said := admin.Compared{Lost: []admin.Loss{}}
	peer := s.homes.peer(home)
	if peer == nil {
		return said, &admin.ProblemError{Status: http.StatusNotFound, Code: admin.CodeNotFound, Detail: (&routing.PeerError{Home: home}).Error()}
	}
	if dry {
		return said, nil
	}
	done, err := peer.CompareNow(ctx)
	said.Compared, said.Sent = done.Handoffs, done.Sent+done.Restored
	for _, l := range done.Lost {
		said.Lost = append(said.Lost, admin.Loss{Handoff: l.Handoff, Version: l.Version, Have: l.Have})
	}
	return said, err
}

// PeerModes has the modes set by operators for other registries and homes. They override the
// configuration.
type PeerModes struct {
	*registry.Record

	current atomic.Pointer[map[string]string]
}

// NewPeerModes returns modes, empty until [PeerModes.Read].
func NewPeerModes(record *registry.Record) *PeerModes {
	m := &PeerModes{Record: record}
	m.current.Store(&map[string]string{})
	return m
}

// Read loads the recorded modes.
func (m *PeerModes) Read(ctx context.Context) error {
	kept, err := m.PeerModes(ctx)
	if err != nil {
		return fmt.Errorf("read modes of peers: %w", err)
	}
	modes := map[string]string{}
	for _, each := range kept {
		modes[each.Domain] = each.Mode
	}
	m.current.Store(&modes)
	return nil
}

// Mode returns the mode of a peer, or "" if unset.
func (m *PeerModes) Mode(name string) string { return (*m.current.Load())[name] }

// LinkPeer is a peer of a [bridge.Peered] link in the form for operators.
type LinkPeer struct {
	bridge.Peer

	Network string
	// Set reports whether an operator set the mode. Such a peer need not be in the configuration.
	Set bool
}

// LinkPeers returns the peers of links in the order of the configuration. Other peers with a mode
// set by an operator follow, by name, unless skip returns true.
func (m *PeerModes) LinkPeers(links *LinkSet, skip func(name string) bool) []LinkPeer {
	var all []LinkPeer
	network := agents.Link // for an unconfigured peer
	for link := range able[bridge.Peered](links) {
		network = link.Network()
		for _, peer := range link.Peers() {
			all = append(all, LinkPeer{Peer: peer, Network: network})
		}
	}
	modes := *m.current.Load()
	for _, name := range slices.Sorted(maps.Keys(modes)) {
		i := slices.IndexFunc(all, func(known LinkPeer) bool { return known.Name == name })
		switch {
		case i < 0 && skip(name):
			continue
		case i < 0:
			i = len(all)
			all = append(all, LinkPeer{Peer: bridge.Peer{Name: name, URL: federation.BaseURL(name)}, Network: network})
		}
		all[i].Mode, all[i].Set = modes[name], true
	}
	return all
}

// CheckPeer returns nil if a link can have a peer with this name, and otherwise the reason.
func (l *LinkSet) CheckPeer(name string) error {
	err := fmt.Errorf("a link that has peers, to know %s", name)
	for link := range able[bridge.Peered](l) {
		if err = link.CheckPeer(name); err == nil {
			return nil
		}
	}
	return err
}

const mutualTable = "airc.mtls"

// authorities returns the certificate authorities for registries, in PEM; nil without mutual
// TLS. It adds to the mistakes of the file.
func authorities(file *configs.File) []byte {
	t := file.Table(mutualTable)
	var table peers.MTLSConfig
	t.Decode(&table)
	if table.CAFile == "" {
		return nil
	}
	if !file.HTTP.TLS || !file.SpeaksTLS() {
		t.Mistake("ca_file", "requires http.tls and the certificate of [tls]: behind a TLS proxy, the gateway does not see client certificates")
		return nil
	}
	text, err := identity.ReadAuthorities(file.Path(table.CAFile))
	if err != nil {
		t.Mistake("ca_file", err.Error())
		return nil
	}
	return text
}

// clientAuthorities returns the authorities of client certificates in PEM, by the configured
// file. It adds to the mistakes of the file.
func clientAuthorities(file *configs.File) map[string][]byte {
	all := map[string][]byte{}
	t, table := file.Table("airc"), airc.DefaultConfig()
	t.Decode(&table)
	if text := authorities(file); text != nil {
		all[table.MTLS.CAFile] = text
	}
	for _, peer := range table.Peers {
		if peer.ClientCA == "" {
			continue
		}
		if !file.HTTP.TLS || !file.SpeaksTLS() {
			t.Mistake("peers.client_ca", peer.Domain+": requires http.tls and the certificate of [tls]")
			continue
		}
		text, err := identity.ReadAuthorities(file.Path(peer.ClientCA))
		if err != nil {
			t.Mistake("peers.client_ca", peer.Domain+": "+err.Error())
			continue
		}
		all[peer.ClientCA] = text
	}
	return all
}

func clientPools(file *configs.File) map[string]*x509.CertPool {
	pools := map[string]*x509.CertPool{}
	for name, text := range clientAuthorities(file) {
		pools[name] = x509.NewCertPool()
		pools[name].AppendCertsFromPEM(text)
	}
	return pools
}

// If registries use client certificates, any certificate presented must be valid. Package airc
// requires certificates of certain clients, and checks their authority.
func listenerTLS(file *configs.File, certificate *bridge.Certificate) *tls.Config {
	protocols := []string{"h2", "http/1.1"}
	if file.TLS.Mode == configs.ACMEMode {
		protocols = append(protocols, bridge.ChallengeProtocol)
	}
	config := certificate.Config(protocols...)
	if all := clientAuthorities(file); len(all) > 0 {
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
		for _, text := range all {
			config.ClientCAs.AppendCertsFromPEM(text)
		}
	}
	return config
}

// newRegistryClient returns the guarded client for other registries. With mutual TLS, it presents
// our certificate and also accepts server certificates from the same authorities. Otherwise, it
// returns strangers.
func newRegistryClient(file *configs.File, certificate *bridge.Certificate, strangers *identity.Client) (*identity.Client, error) {
	text := authorities(file)
	if text == nil {
		return strangers, nil
	}
	roots, err := identity.WithAuthorities(text)
	if err != nil {
		return nil, err
	}
	cfg := fetchConfig(file)
	cfg.TLS = certificate.Config()
	cfg.TLS.RootCAs = roots
	return identity.NewClient(cfg), nil
}
