package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"baton/bridge/operatorapi"
	"baton/federation"
	"baton/federation/mailbox"
	"baton/federation/relay"
)

// peers returns the registries and homes that the configuration or an operator names.
func (s *Server) peers() []operatorapi.Peer { return append(s.registries(), s.homes.shapes()...) }

// isPeer reports whether a registry or a home has a name.
func (s *Server) isPeer(name string) bool {
	return slices.ContainsFunc(s.peers(), func(peer operatorapi.Peer) bool { return peer.Name == name })
}

// registries returns the peers of links, such as other registries.
func (s *Server) registries() []operatorapi.Peer {
	isHome := func(name string) bool { return s.homes.peer(federation.HomeID(name)) != nil }
	var all []operatorapi.Peer
	for _, peer := range s.modes.LinkPeers(s.Gateway.Links(), isHome) {
		origin := operatorapi.FromConfiguration
		if peer.Set {
			origin = operatorapi.FromRecord
		}
		all = append(all, operatorapi.Peer{Name: peer.Name, Network: peer.Network, Mode: peer.Mode, Origin: origin, URL: peer.URL, Dialect: peer.Dialect, Unsigned: peer.Unsigned})
	}
	return all
}

// setMode sets the mode of a registry, of a home, or of both where they have one name; a dry
// run only checks the name.
func (s *Server) setMode(ctx context.Context, m federation.PeerMode, dry bool) error {
	if s.homes.peer(federation.HomeID(m.Domain)) == nil {
		if err := s.Gateway.Links().CheckPeer(m.Domain); err != nil {
			return &operatorapi.ProblemError{Status: http.StatusBadRequest, Code: operatorapi.CodeUsage, Detail: "want a home, or " + err.Error()}
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

// readModes reads the modes that operators set, and gives them to the homes. The deliveries to
// a home with another mode are due now.
func (s *Server) readModes(ctx context.Context) error {
	if err := s.modes.Read(ctx); err != nil || s.homes == nil {
		return err
	}
	var errs []error
	for _, peer := range s.homes.peers() {
		if mode := relay.Mode(s.modes.Mode(peer.Name())); mode != peer.OperatorMode() {
			peer.SetOperatorMode(mode)
			errs = append(errs, s.Record.Hurry(ctx, peer.Name()))
		}
	}
	return errors.Join(errs...)
}

// operatorPeers implements [operatorapi.Peers].
type operatorPeers struct{ p *Server }

// Peers implements [operatorapi.Peers].
func (o operatorPeers) Peers() []operatorapi.Peer { return o.p.peers() }

// SetMode implements [operatorapi.Peers].
func (o operatorPeers) SetMode(ctx context.Context, m federation.PeerMode, dry bool) error {
	return o.p.setMode(ctx, m, dry)
}

// ComparePeer implements [operatorapi.Peers].
func (o operatorPeers) ComparePeer(ctx context.Context, home federation.HomeID, dry bool) (operatorapi.Compared, error) {
	said := operatorapi.Compared{Lost: []operatorapi.Loss{}}
	peer := o.p.homes.peer(home)
	if peer == nil {
		return said, &operatorapi.ProblemError{Status: http.StatusNotFound, Code: operatorapi.CodeNotFound, Detail: (&mailbox.PeerError{Home: home}).Error()}
	}
	if dry {
		return said, nil
	}
	done, err := peer.CompareNow(ctx)
	said.Compared, said.Sent = done.Handoffs, done.Sent+done.Restored
	for _, l := range done.Lost {
		said.Lost = append(said.Lost, operatorapi.Loss{Handoff: l.Handoff, Version: l.Version, Have: l.Have})
	}
	return said, err
}
