package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"baton/configs"
	"baton/federation"
)

// Of what operators change at one of several gateways of a home, most is read from the
// record whenever it is asked for: tokens, bindings, what is held, retried or given up. What
// a gateway has in memory is taken up by the others: the modes of peers and the homes that
// were added, from the record, and the gateway's own keys, from the folder that they share.

// changedTopic is the topic of gateways of a home at which something was changed.
const changedTopic = "changed"

// takeUpEvery is how often it is looked what was changed at other gateways, where no wake-up
// came.
const takeUpEvery = 5 * time.Second

// shared reports whether a home may have several gateways.
func shared(file *configs.File) bool { return file.Store.Driver == configs.Postgres }

// tellOthers has the other gateways of the home take up what was changed here.
func (p *program) tellOthers() { p.relay.Wake(changedTopic) }

// takeUp makes hold what operators change at other gateways of the home, where it may have
// any, until ctx ends.
func (p *program) takeUp(ctx context.Context) {
	if !shared(p.file) {
		return
	}
	wake, stop := p.relay.Subscribe(changedTopic)
	defer stop()
	tick := time.NewTicker(takeUpEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := p.takeUpOnce(ctx); err != nil && ctx.Err() == nil {
			p.log.LogAttrs(ctx, slog.LevelError, "not taken up what was changed at other gateways", slog.Any("err", err))
		}
		select {
		case <-wake:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (p *program) takeUpOnce(ctx context.Context) error {
	return errors.Join(p.takeUpKeys(ctx), p.takeUpHomes(ctx), p.takeUpModes(ctx), p.takeUpBlocks(ctx))
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
	for _, o := range p.gateway.fleet.Entries() {
		if o.Added {
			added++
		}
	}
	return added == len(known) && !slices.ContainsFunc(known, func(k federation.KnownHome) bool {
		peer := p.homes.peer(k.Home)
		return peer == nil || peer.URL() != k.URL || string(peer.Path()) != k.Path
	})
}
