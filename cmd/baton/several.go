package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"baton/configs"
	"baton/federation"
)

// shared reports whether a home may have several gateways.
func shared(file *configs.File) bool { return file.Store.Driver == configs.Postgres }

// takeUp reads what operators changed at other gateways of the home and is kept in memory
// here: the gateway's own keys, the homes that were added, and the modes of peers.
func (p *program) takeUp(ctx context.Context) error {
	return errors.Join(p.takeUpKeys(ctx), p.takeUpHomes(ctx), p.takeUpModes(ctx))
}

func (p *program) takeUpModes(ctx context.Context) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	return p.readModes(ctx)
}

func (p *program) takeUpKeys(ctx context.Context) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	changed, err := p.keyring.Reread()
	if changed {
		p.useKeys()
		p.log.LogAttrs(ctx, slog.LevelInfo, "keys read again")
	}
	return err
}

func (p *program) takeUpHomes(ctx context.Context) error {
	known, err := p.record.KnownHomes(ctx)
	if err != nil || p.linksAll(known) {
		return err
	}
	return p.linked(ctx)
}

// linksAll reports whether those are the homes that are linked because somebody added them.
func (p *program) linksAll(known []federation.KnownHome) bool {
	added := 0
	for _, o := range p.gateway.Links().Entries() {
		if o.Added {
			added++
		}
	}
	return added == len(known) && !slices.ContainsFunc(known, func(k federation.KnownHome) bool {
		peer := p.homes.peer(k.Home)
		return peer == nil || peer.URL() != k.URL || string(peer.Path()) != k.Path
	})
}
