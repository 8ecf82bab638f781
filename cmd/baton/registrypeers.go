package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"baton/bridge/airc"
	"baton/bridge/rest"
	"baton/federation"
)

// peers returns the registries that the configuration or an operator names.
func (p *program) peers() []rest.Peer {
	var all []rest.Peer
	for _, r := range *p.gateway.fleet.current.Load() {
		registry, ok := r.link.(*airc.Link)
		if !ok {
			continue
		}
		for _, cfg := range registry.Peers() {
			all = append(all, rest.Peer{
				Name: cfg.Domain, Network: federation.RegistryLink, Mode: cmp.Or(cfg.Mode, airc.ModeAllow), Origin: rest.FromConfiguration,
				URL: cmp.Or(cfg.URL, "https://"+cfg.Domain), Dialect: cfg.Dialect,
			})
		}
	}
	for domain, mode := range *p.modes.Load() {
		i := slices.IndexFunc(all, func(known rest.Peer) bool { return known.Name == domain })
		if i < 0 {
			i = len(all)
			all = append(all, rest.Peer{Name: domain, Network: federation.RegistryLink, URL: "https://" + domain})
		}
		all[i].Mode, all[i].Origin = mode, rest.FromRecord
	}
	return all
}

// setMode makes an operator's word on another registry the one that holds, unless it is
// only to be looked whether it could.
func (p *program) setMode(ctx context.Context, m federation.PeerMode, dry bool) error {
	if !airc.ValidDomain(m.Domain) {
		return &rest.ProblemError{Status: http.StatusBadRequest, Code: rest.CodeUsage, Detail: "want the domain of a registry, such as peer.example, not " + m.Domain}
	}
	if dry {
		return nil
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	if err := p.record.SetPeerMode(ctx, m); err != nil {
		return fmt.Errorf("keep mode: %w", err)
	}
	return p.readModes(ctx)
}
