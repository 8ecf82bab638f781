package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

const blockPage = 500

const blockedDetail = "the operator of this gateway has blocked this source"

// Blocked returns a [*federation.RefusalError] for a source blocked by an operator, and counts it.
// Any other error means that the record cannot be read now.
func (g *Gateway) Blocked(ctx context.Context, s federation.Source) error {
	now := time.Now()
	blocked, err := g.isBlocked(ctx, s, now)
	if err != nil || !blocked {
		return err
	}
	g.deps.Metrics.Blocked.WithLabelValues(s.Network).Inc()
	g.senders.NoteBlocked(s, now)
	return &federation.RefusalError{Code: federation.PolicyDenied, Detail: blockedDetail}
}

func (g *Gateway) isBlocked(ctx context.Context, s federation.Source, now time.Time) (bool, error) {
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

// identify adds all DIDs and handles of its participants to a source.
func (g *Gateway) identify(ctx context.Context, s federation.Source) (federation.Source, error) {
	var all []Participant
	for _, did := range s.DIDs {
		each, err := g.participants.WithDID(ctx, did)
		if err != nil {
			return s, err
		}
		all = append(all, each)
	}
	for _, handle := range s.Participants {
		each, err := g.participants.WithHandle(ctx, handle)
		if err != nil {
			return s, err
		}
		all = append(all, each)
	}
	for _, each := range all {
		if each.Handle == "" {
			continue
		}
		s.Participants = append(slices.Clip(s.Participants), each.Handle)
		s.DIDs = append(slices.Clip(s.DIDs), each.DIDs...)
		if each.Bound != "" {
			s.DIDs = append(s.DIDs, each.Bound)
		}
	}
	return s, nil
}

// refuseBlocked returns the refusal of a step from a blocked source. It exempts the steps of
// operators.
func (g *Gateway) refuseBlocked(ctx context.Context, ev federation.Event) error {
	dids := []federation.DID{ev.Actor(), ev.From}
	if ev.For != "" {
		dids = append(dids, ev.For)
	}
	return g.refuseSource(ctx, ev.Arrival, dids, federation.Refuse(ev, federation.PolicyDenied, blockedDetail))
}

func (g *Gateway) refuseAuthor(ctx context.Context, t federation.Text) error {
	return g.refuseSource(ctx, t.Arrival, []federation.DID{t.Author}, t.Refuse(federation.PolicyDenied, blockedDetail))
}

func (g *Gateway) refuseSource(ctx context.Context, at federation.Arrival, dids []federation.DID, refused *federation.RefusalError) error {
	if at.Link == OperatorLink {
		return nil
	}
	err := g.Blocked(ctx, federation.Source{
		Network: at.Network, Link: at.Link, Name: at.Name, User: at.User, DIDs: dids, Address: bridge.SubnetFrom(ctx),
	})
	if _, blocked := errors.AsType[*federation.RefusalError](err); blocked {
		return refused
	}
	return err
}

// ReadBlocks reloads the recorded blocks, and disconnects blocked clients.
func (g *Gateway) ReadBlocks(ctx context.Context) error {
	g.blocking.Lock()
	defer g.blocking.Unlock()
	return g.readBlocks(ctx)
}

func (g *Gateway) readBlocks(ctx context.Context) error {
	var all []federation.Block
	for more := true; more; {
		last := ""
		if len(all) > 0 {
			last = all[len(all)-1].What
		}
		page, err := g.deps.Record.BlocksAfter(ctx, last, blockPage)
		if err != nil {
			return err
		}
		all, more = append(all, page...), len(page) == blockPage
	}
	if slices.Equal(all, g.blocked) {
		return nil
	}
	g.blocked = all
	blocks := federation.NewBlocks(all)
	g.blocks.Store(blocks)
	for _, entry := range g.links.Entries() {
		if crowd, ok := entry.Link.(bridge.ClientCloser); ok {
			crowd.CloseClients(func(s federation.Source) bool { _, blocked := blocks.Match(s, time.Now()); return blocked })
		}
	}
	return nil
}

// Purged counts the handoffs and steps that a purge ended.
type Purged = bridge.Purged

// BlockError is an invalid block or purge.
type BlockError struct{ Why string }

func (e *BlockError) Error() string { return e.Why }

// Unwrap returns the error to show to operators.
func (e *BlockError) Unwrap() error { return bridge.UsageProblem(e.Why) }

// Block adds a block and returns it as recorded. With purge, it also ends the handoffs that the
// source offered here, and drops its waiting steps; with dry, it only counts them. The error is a
// [*BlockError] for an invalid block, or an error of the record.
func (g *Gateway) Block(ctx context.Context, b federation.Block, purge, dry bool) (federation.Block, Purged, error) {
	b = g.ownHandle(b)
	if err := g.checkBlock(b, purge); err != nil {
		return b, Purged{}, err
	}
	if !dry {
		if err := g.keepBlock(ctx, func() error { return g.deps.Record.AddBlock(ctx, b) }); err != nil {
			return b, Purged{}, err
		}
	}
	if !purge {
		return b, Purged{}, nil
	}
	done, err := g.purge(ctx, b, dry)
	return b, done, err
}

// Unblock ends a block, or with dry checks that it exists. It returns [federation.ErrNotFound] for
// an unknown block.
func (g *Gateway) Unblock(ctx context.Context, b federation.Block, dry bool) error {
	b = g.ownHandle(b)
	if !dry {
		return g.keepBlock(ctx, func() error { return g.deps.Record.RemoveBlock(ctx, b.What) })
	}
	g.blocking.Lock()
	defer g.blocking.Unlock()
	if !slices.ContainsFunc(g.blocked, func(on federation.Block) bool { return on.What == b.What }) {
		return federation.ErrNotFound
	}
	return nil
}

func (g *Gateway) keepBlock(ctx context.Context, change func() error) error {
	g.blocking.Lock()
	defer g.blocking.Unlock()
	if err := change(); err != nil {
		return err
	}
	defer g.TellReplicas()
	return g.readBlocks(ctx)
}

// ownHandle removes the domain of this registry from a handle.
func (g *Gateway) ownHandle(b federation.Block) federation.Block {
	domains := []string{string(g.home.Load().ID)}
	for registrar := range able[bridge.Registrar](g.links) {
		domains = append(domains, registrar.Domain())
	}
	for _, domain := range domains {
		if handle, own := strings.CutSuffix(b.What, "@"+domain); own && b.Kind == federation.BlockParticipant {
			b.What = handle
		}
	}
	return b
}

// A purge by address or mask is refused, because the record contains neither.
func (g *Gateway) checkBlock(b federation.Block, purge bool) error {
	blocks := federation.NewBlocks([]federation.Block{b})
	if _, own := blocks.Match(federation.Source{DIDs: []federation.DID{g.home.Load().ID.DID()}}, b.Since); own {
		return &BlockError{b.What + " is this gateway"}
	}
	if link := federation.BlockedLink(b); link != "" && !g.links.Has(link) {
		return &BlockError{"there is no link " + link}
	}
	if purge && (b.Kind == federation.BlockNetwork || b.Kind == federation.BlockMask) {
		return &BlockError{"the record does not keep addresses and user names: find the DIDs with baton top, and purge those"}
	}
	return nil
}

const purgeNote = "the operator of this gateway has blocked the offerer"

const purgePage = 500

// purge ends the handoffs offered here by a blocked source, and drops its waiting steps, or with
// dry counts both. It is idempotent.
func (g *Gateway) purge(ctx context.Context, b federation.Block, dry bool) (Purged, error) {
	of, err := g.blockedNames(ctx, b)
	if err != nil {
		return Purged{}, err
	}
	var done Purged
	if done.Purged, err = g.deps.Record.Purge(ctx, of.DIDs, of.Participants, time.Now(), dry); err != nil {
		return done, err
	}
	for _, did := range of.DIDs {
		n, err := g.endOffersOf(ctx, did, dry, time.Now())
		if done.Handoffs += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

func (g *Gateway) blockedNames(ctx context.Context, b federation.Block) (federation.Source, error) {
	var s federation.Source
	switch b.Kind {
	case federation.BlockDID:
		s.DIDs = []federation.DID{federation.DID(b.What)}
	case federation.BlockParticipant:
		s.Participants = []string{b.What}
	case federation.BlockHost:
		var err error
		if s.DIDs, err = g.sendersOf(ctx, b); err != nil {
			return s, err
		}
	case federation.BlockNetwork, federation.BlockMask:
	}
	s, err := g.identify(ctx, s)
	if err != nil {
		return s, err
	}
	for _, did := range slices.Clone(s.DIDs) {
		s.DIDs = append(s.DIDs, g.deps.Kept("person:"+string(did)).DID)
		binding, err := g.participants.Binding(ctx, did)
		if err != nil && !errors.Is(err, federation.ErrNotFound) {
			return s, fmt.Errorf("look up %s: %w", did, err)
		}
		for registrar := range able[bridge.Registrar](g.links) {
			s.Participants = append(s.Participants, registrar.HandlesOf(did, binding.First)...)
		}
	}
	for _, handle := range slices.Clone(s.Participants) {
		for registrar := range able[bridge.Registrar](g.links) {
			s.Participants = append(s.Participants, registrar.Unverified(handle))
		}
	}
	slices.Sort(s.DIDs)
	s.DIDs = slices.Compact(s.DIDs)
	return s, nil
}

func (g *Gateway) sendersOf(ctx context.Context, b federation.Block) ([]federation.DID, error) {
	blocks := federation.NewBlocks([]federation.Block{b})
	var fit []federation.DID
	var last federation.DID
	for more := true; more; {
		page, err := g.deps.Record.Senders(ctx, last, purgePage)
		if err != nil {
			return nil, err
		}
		for _, did := range page {
			if _, ok := blocks.Match(federation.Source{DIDs: []federation.DID{did}}, b.Since); ok {
				fit = append(fit, did)
			}
			last = did
		}
		more = len(page) == purgePage
	}
	return fit, nil
}

// endOffersOf ends the open local handoffs offered by a DID, or with dry counts them.
func (g *Gateway) endOffersOf(ctx context.Context, offerer federation.DID, dry bool, now time.Time) (int, error) {
	home := g.home.Load()
	var open []federation.View
	var after federation.Cursor
	for more := true; more; {
		page, next, err := g.deps.Record.Handoffs(ctx, federation.Filter{DIDs: []federation.DID{offerer}}, after, purgePage)
		if err != nil {
			return 0, err
		}
		for _, v := range page {
			if v.Offerer == offerer && !v.Over && v.Home == home.ID {
				open = append(open, v)
			}
		}
		after, more = next, next != ""
	}
	if dry {
		return len(open), nil
	}
	filed, err := home.End(ctx, open, purgeNote, now)
	g.filed(ctx, filed)
	return len(filed), err
}
