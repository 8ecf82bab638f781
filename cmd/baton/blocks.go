package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"baton/bridge"
	"baton/bridge/operatorapi"
	"baton/federation"
	"baton/federation/agents"
)

// blockPage is how many blocks are read at a time.
const blockPage = 500

// blockedDetail is all that a blocked source is told.
const blockedDetail = "the operator of this gateway has blocked this source"

// Blocked returns a [*federation.RefusalError] for a source that an operator blocked, and
// counts it. It returns another error where the record cannot tell now which agent a source
// is. It asks the record only where a block names a DID, a handle or a host.
func (g *gateway) Blocked(ctx context.Context, s federation.Source) error {
	now := time.Now()
	blocked, err := g.isBlocked(ctx, s, now)
	if err != nil || !blocked {
		return err
	}
	g.metrics.Blocked.WithLabelValues(s.Network).Inc()
	g.senders.noteBlocked(s, now)
	return &federation.RefusalError{Code: federation.PolicyDenied, Detail: blockedDetail}
}

// isBlocked is Blocked for a source that is not counted.
func (g *gateway) isBlocked(ctx context.Context, s federation.Source, now time.Time) (bool, error) {
	blocks := g.blocks.Load()
	if _, blocked := blocks.Match(s, now); blocked || !blocks.Named() {
		return blocked, nil
	}
	all, err := g.identify(ctx, s)
	if err != nil {
		return false, err
	}
	_, blocked := blocks.Match(all, now)
	return blocked, nil
}

// identify adds to a source the other DIDs and the handles of the agents that it names.
func (g *gateway) identify(ctx context.Context, s federation.Source) (federation.Source, error) {
	var known []agents.Agent
	for _, did := range s.DIDs {
		agent, err := g.record.AgentOf(ctx, did)
		if err != nil && !errors.Is(err, federation.ErrNotFound) {
			return s, fmt.Errorf("look up agent of %s: %w", did, err)
		}
		known = append(known, agent)
	}
	for _, handle := range s.Handles {
		agent, err := g.record.Agent(ctx, handle)
		if err != nil && !errors.Is(err, federation.ErrNotFound) {
			return s, fmt.Errorf("look up agent %s: %w", handle, err)
		}
		known = append(known, agent)
	}
	for _, agent := range known {
		if agent.Handle == "" {
			continue
		}
		s.Handles = append(slices.Clip(s.Handles), agent.Handle)
		s.DIDs = append(slices.Clip(s.DIDs), agent.DID, agent.OwnDID)
		if agent.Bound.DID != "" {
			s.DIDs = append(s.DIDs, agent.Bound.DID)
		}
		for _, key := range agent.Keys {
			if key.Proved() {
				s.DIDs = append(s.DIDs, key.DID)
			}
		}
	}
	return s, nil
}

// stepSource returns where a step comes from, but for its address.
func stepSource(ev federation.Event) federation.Source {
	s := federation.Source{
		Network: ev.Arrival.Network, Link: ev.Arrival.Link, Nick: ev.Arrival.Name, User: ev.Arrival.User, DIDs: []federation.DID{ev.Actor(), ev.From},
	}
	if ev.For != "" {
		s.DIDs = append(s.DIDs, ev.For)
	}
	return s
}

// refuseBlocked returns the refusal of a step whose source is blocked. No block holds for
// the steps of operators.
func (g *gateway) refuseBlocked(ctx context.Context, ev federation.Event) error {
	if ev.Arrival.Link == operatorLink {
		return nil
	}
	from := stepSource(ev)
	from.Address = bridge.NetworkFrom(ctx)
	err := g.Blocked(ctx, from)
	if _, blocked := errors.AsType[*federation.RefusalError](err); blocked {
		return federation.Refuse(ev, federation.PolicyDenied, blockedDetail)
	}
	return err
}

// judge is the home for steps that waited for a key: their source may have been blocked
// since. It implements [deferral.Judge].
type judge struct{ *gateway }

// Submit implements [deferral.Judge].
func (j judge) Submit(ctx context.Context, ev federation.Event, now time.Time) (federation.Judgement, error) {
	return j.home.Load().Submit(ctx, ev, now)
}

// Resume implements [deferral.Judge].
func (j judge) Resume(ctx context.Context, ev federation.Event, since, now time.Time) (federation.Judgement, error) {
	if err := j.refuseBlocked(ctx, ev); err != nil {
		return federation.Judgement{}, err
	}
	return j.home.Load().Resume(ctx, ev, since, now)
}

// readBlocks reads the blocks of the record, makes them hold, and ends the connections of
// blocked clients.
func (p *program) readBlocks(ctx context.Context) error {
	var all []federation.Block
	for more := true; more; {
		last := ""
		if len(all) > 0 {
			last = all[len(all)-1].What
		}
		page, err := p.record.BlocksAfter(ctx, last, blockPage)
		if err != nil {
			return err
		}
		all, more = append(all, page...), len(page) == blockPage
	}
	if slices.Equal(all, p.blocked) {
		return nil
	}
	p.blocked = all
	blocks := federation.NewBlocks(all)
	p.gateway.blocks.Store(blocks)
	for _, r := range p.gateway.fleet.current.Load().all {
		if crowd, ok := r.link.(bridge.Dismisser); ok {
			crowd.Dismiss(func(s federation.Source) bool { _, blocked := blocks.Match(s, time.Now()); return blocked })
		}
	}
	return nil
}

func (p *program) takeUpBlocks(ctx context.Context) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	return p.readBlocks(ctx)
}

// block keeps a block, and where it is to be purged ends what its source has offered and
// drops what waits of it; or dry says what that would be.
func (p *program) block(ctx context.Context, b federation.Block, purge, dry bool) (federation.Block, operatorapi.Purged, error) {
	b = p.ownHandle(b)
	if err := p.checkBlock(b, purge); err != nil {
		return b, operatorapi.Purged{}, err
	}
	if !dry {
		if err := p.keepBlock(ctx, func() error { return p.record.AddBlock(ctx, b) }); err != nil {
			return b, operatorapi.Purged{}, err
		}
	}
	if !purge {
		return b, operatorapi.Purged{}, nil
	}
	done, err := p.purge(ctx, b, dry)
	return b, done, err
}

// unblock ends a block, or dry looks whether there is one.
func (p *program) unblock(ctx context.Context, b federation.Block, dry bool) error {
	b = p.ownHandle(b)
	if !dry {
		return p.keepBlock(ctx, func() error { return p.record.RemoveBlock(ctx, b.What) })
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	if !slices.ContainsFunc(p.blocked, func(on federation.Block) bool { return on.What == b.What }) {
		return federation.ErrNotFound
	}
	return nil
}

// keepBlock changes the blocks on record, and has every gateway of the home take that up.
func (p *program) keepBlock(ctx context.Context, change func() error) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	if err := change(); err != nil {
		return err
	}
	defer p.tellOthers()
	return p.readBlocks(ctx)
}

// ownHandle drops the domain of this registry from a handle.
func (p *program) ownHandle(b federation.Block) federation.Block {
	for _, domain := range p.registryDomains() {
		if handle, own := cutDomain(b.What, domain); own && b.Kind == federation.BlockHandle {
			b.What = handle
		}
	}
	return b
}

// checkBlock refuses a block of the gateway itself or of a link that does not exist, and a
// purge by an address or a mask, which the record does not keep.
func (p *program) checkBlock(b federation.Block, purge bool) error {
	wrong := func(why string) error {
		return &operatorapi.ProblemError{Status: http.StatusBadRequest, Code: operatorapi.CodeUsage, Detail: why}
	}
	blocks := federation.NewBlocks([]federation.Block{b})
	if _, own := blocks.Match(federation.Source{DIDs: []federation.DID{p.homeID().DID()}}, b.Since); own {
		return wrong(b.What + " is this gateway")
	}
	if link := federation.BlockedLink(b); link != "" && !p.hasLink(link) {
		return wrong("there is no link " + link)
	}
	if purge && (b.Kind == federation.BlockNetwork || b.Kind == federation.BlockMask) {
		return wrong("the record does not keep addresses and user names: find the DIDs with baton top, and purge those")
	}
	return nil
}

func (p *program) hasLink(name string) bool {
	return slices.ContainsFunc(p.gateway.fleet.current.Load().all, func(r *running) bool { return r.link.Name() == name })
}
