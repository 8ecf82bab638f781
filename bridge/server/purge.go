package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/bridge"
	"baton/federation"
)

// purgeNote is the note in the step that ends a handoff because its offerer was blocked.
const purgeNote = "the operator of this gateway has blocked the offerer"

// purgePage is how many rows are read at a time.
const purgePage = 500

// purge ends the handoffs that a blocked source offered here, and drops its waiting steps; or dry counts
// both. A second purge finds nothing.
func (g *Gateway) purge(ctx context.Context, b federation.Block, dry bool) (Purged, error) {
	of, err := g.blockedNames(ctx, b)
	if err != nil {
		return Purged{}, err
	}
	var done Purged
	if done.Purged, err = g.deps.Blocks.Purge(ctx, of.DIDs, of.Participants, time.Now(), dry); err != nil {
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

// blockedNames returns the DIDs and handles of a blocked source that are on record.
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
		binding, err := g.deps.Participants.Binding(ctx, did)
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

// sendersOf returns the senders on record that a block fits.
func (g *Gateway) sendersOf(ctx context.Context, b federation.Block) ([]federation.DID, error) {
	blocks := federation.NewBlocks([]federation.Block{b})
	var fit []federation.DID
	var last federation.DID
	for more := true; more; {
		page, err := g.deps.Blocks.Senders(ctx, last, purgePage)
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

// endOffersOf ends the handoffs of this home that a DID offered and that are not over, or
// dry counts them.
func (g *Gateway) endOffersOf(ctx context.Context, offerer federation.DID, dry bool, now time.Time) (int, error) {
	home := g.home.Load()
	var open []federation.View
	var after federation.Cursor
	for more := true; more; {
		page, next, err := g.deps.Handoffs.Handoffs(ctx, federation.Filter{DID: offerer}, after, purgePage)
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
