package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"baton/bridge"
	"baton/bridge/operatorapi"
	"baton/federation"
	"baton/federation/agents"
	"baton/federation/relay"
)

// peers returns the registries and homes that the configuration or an operator names.
func (p *program) peers() []operatorapi.Peer { return append(p.registries(), p.homes.shapes()...) }

// isPeer reports whether a registry or a home has a name.
func (p *program) isPeer(name string) bool {
	return slices.ContainsFunc(p.peers(), func(peer operatorapi.Peer) bool { return peer.Name == name })
}

// registries returns the peers of links, such as other registries.
func (p *program) registries() []operatorapi.Peer {
	var all []operatorapi.Peer
	network := agents.Link // of a peer that the configuration does not name
	for _, o := range p.gateway.Links().Entries() {
		link, ok := o.Link.(bridge.Peered)
		if !ok {
			continue
		}
		network = link.Network()
		for _, peer := range link.Peers() {
			all = append(all, operatorapi.Peer{
				Name: peer.Name, Network: network, Mode: peer.Mode, Origin: operatorapi.FromConfiguration, URL: peer.URL, Dialect: peer.Dialect,
			})
		}
	}
	for domain, mode := range *p.modes.Load() {
		if p.homes.peer(federation.HomeID(domain)) != nil && !slices.ContainsFunc(all, func(known operatorapi.Peer) bool { return known.Name == domain }) {
			continue // it is that of a home
		}
		i := slices.IndexFunc(all, func(known operatorapi.Peer) bool { return known.Name == domain })
		if i < 0 {
			i = len(all)
			all = append(all, operatorapi.Peer{Name: domain, Network: network, URL: federation.BaseURL(domain)})
		}
		all[i].Mode, all[i].Origin = mode, operatorapi.FromRecord
	}
	return all
}

// setMode makes an operator's word the one that holds for a registry, for a home, or for
// both where they have one name; unless it is only to be looked whether it could.
func (p *program) setMode(ctx context.Context, m federation.PeerMode, dry bool) error {
	home := p.homes.peer(federation.HomeID(m.Domain))
	if home == nil {
		if err := p.checkPeerName(m.Domain); err != nil {
			return &operatorapi.ProblemError{Status: http.StatusBadRequest, Code: operatorapi.CodeUsage, Detail: "want a home, or " + err.Error()}
		}
	}
	if dry {
		return nil
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	if err := p.record.SetPeerMode(ctx, m); err != nil {
		return fmt.Errorf("keep mode: %w", err)
	}
	defer p.gateway.TellReplicas()
	return p.readModes(ctx)
}

// checkPeerName returns why no link can have a peer of a name, nil for a name that one can have.
func (p *program) checkPeerName(name string) error {
	err := errors.New("a link that has peers, to know " + name)
	for _, o := range p.gateway.Links().Entries() {
		if link, ok := o.Link.(bridge.Peered); ok {
			if err = link.CheckPeer(name); err == nil {
				return nil
			}
		}
	}
	return err
}

// readModes makes hold what operators said of other registries and homes. What a home was
// owed while something else was said need not wait.
func (p *program) readModes(ctx context.Context) error {
	said, err := p.record.PeerModes(ctx)
	if err != nil {
		return err
	}
	modes := map[string]string{}
	for _, m := range said {
		modes[m.Domain] = m.Mode
	}
	p.modes.Store(&modes)
	if p.homes == nil {
		return nil // nobody is known yet
	}
	var errs []error
	for _, peer := range p.homes.peers() {
		if before, word := peer.Word(), relay.Mode(modes[peer.Name()]); word != before {
			peer.Say(word)
			errs = append(errs, p.record.Hurry(ctx, peer.Name()))
		}
	}
	return errors.Join(errs...)
}
