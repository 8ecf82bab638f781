package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"baton/federation"
)

// route returns where the mailbox of a DID is, and how that is known; no home where nobody
// here knows. What an operator moved is where it was moved to, whoever was seen where; who
// was seen somewhere is there; and what was found out by asking counts last.
func (h *homes) route(ctx context.Context, did federation.DID) (federation.MailboxLocation, error) {
	kept, err := h.record.MailboxLocation(ctx, did)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return federation.MailboxLocation{DID: did}, err
	}
	if kept.Source == federation.LocatedByMove {
		return kept, nil
	}
	seen, err := h.seen(ctx, did)
	if err != nil || seen.Home != "" {
		return seen, err
	}
	if below, ok := strings.CutPrefix(string(did), "did:web:"); ok {
		host, _, _ := strings.Cut(below, ":")
		if peer := h.peer(federation.HomeID(host)); peer != nil {
			return federation.MailboxLocation{DID: did, Home: peer.Home(), Source: federation.LocatedByName}, nil
		}
	}
	kept.DID = did
	return kept, nil
}

// MaySpeakFor implements [relay.Mailboxes]: it reports whether a home may speak for a DID: its mailbox is there, or nobody
// knows of another one, but for one that merely said so. A record that cannot be read now
// says no.
func (h *homes) MaySpeakFor(ctx context.Context, did federation.DID, home federation.HomeID) bool {
	at, err := h.route(ctx, did)
	return err == nil && (at.Home == home || at.Home == "" || at.Source == federation.LocatedByAnswer)
}

// residence returns the home that has the mailbox of a DID, "" where nobody here knows.
func (h *homes) residence(ctx context.Context, did federation.DID) (federation.HomeID, error) {
	at, err := h.route(ctx, did)
	return at.Home, err
}

// routes returns where the mailboxes of the parties of a handoff are; none where this home
// knows no other.
func (h *homes) routes(ctx context.Context, v federation.View) ([]federation.MailboxLocation, error) {
	if len(h.peers()) == 0 {
		return nil, nil
	}
	var all []federation.MailboxLocation
	for _, did := range v.Others("") {
		at, err := h.route(ctx, did)
		if err != nil {
			return nil, fmt.Errorf("look up the home of %s: %w", did, err)
		}
		all = append(all, at)
	}
	return all, nil
}

// seen returns where somebody was seen: here, where the DID is the gateway's own, an
// agent's, or that of somebody on a network, or at the home that brought a step of theirs,
// or under whose name the operator bound it. It names no home for a DID that was seen
// nowhere.
func (h *homes) seen(ctx context.Context, did federation.DID) (federation.MailboxLocation, error) {
	at := federation.MailboxLocation{DID: did}
	here := federation.MailboxLocation{DID: did, Home: h.self, Source: federation.LocatedHere}
	if did == h.self.DID() {
		return here, nil
	}
	_, err := h.record.AgentOf(ctx, did)
	if err == nil {
		return here, nil
	}
	var b federation.Binding
	if errors.Is(err, federation.ErrNotFound) {
		b, err = h.record.Binding(ctx, did)
	}
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return at, nil
	case err != nil:
		return at, fmt.Errorf("look up %s: %w", did, err)
	}
	here.Since = b.Seen
	peer := h.peer(federation.HomeID(b.Link))
	switch {
	case peer == nil:
		return here, nil
	case b.Seen.IsZero():
		at.Source = federation.LocatedByBinding
	default:
		at.Source = federation.LocatedByStep
	}
	at.Home, at.Since = peer.Home(), b.Seen
	return at, nil
}

// settle notes that somebody's mailbox is at a home, where nobody knew of one.
func (h *homes) settle(ctx context.Context, did federation.DID, home federation.HomeID, source federation.LocationSource) {
	at, err := h.residence(ctx, did)
	if err == nil && at == "" {
		err = h.record.KeepMailboxLocation(ctx, federation.MailboxLocation{DID: did, Home: home, Source: source, Since: time.Now()})
	}
	h.noteKept(ctx, did, err)
}

// noteKept tells the log that a home was not kept. It is learned again.
func (h *homes) noteKept(ctx context.Context, did federation.DID, err error) {
	if err != nil {
		h.log.LogAttrs(ctx, slog.LevelWarn, "home of a DID not kept", slog.String("did", string(did)), slog.Any("err", err))
	}
}

// heardAt notes that a step of somebody came from the home that has their mailbox. Another
// one that answered that it has it is found out, where they signed the step themselves.
func (h *homes) heardAt(ctx context.Context, ev federation.Event, home federation.HomeID) {
	did := ev.Actor()
	kept, err := h.record.MailboxLocation(ctx, did)
	if err != nil || kept.Source != federation.LocatedByAnswer || kept.Home == home || ev.Provenance != federation.Signed {
		h.settle(ctx, did, home, federation.LocatedByStep)
		return
	}
	if peer := h.peer(kept.Home); peer != nil {
		peer.Doubt(ctx, federation.DoubtfulMailbox, "of "+string(did)+", whose steps come from "+string(home))
	}
	h.noteKept(ctx, did, h.record.KeepMailboxLocation(ctx, federation.MailboxLocation{DID: did, Home: home, Source: federation.LocatedByStep, Since: time.Now()}))
}
