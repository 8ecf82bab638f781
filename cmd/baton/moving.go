package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"baton/bridge/operatorapi"
	"baton/federation"
	"baton/federation/relay"
)

// forwardFor is how long a home sends on what still comes for somebody who moved away. By
// then whoever sent something was told.
const forwardFor = 30 * 24 * time.Hour

// Bounds of taking an inbox along.
const (
	movingDevice = "inbox move" // that has what is on its way
	movingLease  = time.Minute
	movingBatch  = 64
)

// MovedHere implements [relay.Mailboxes]: it reports whether the mailbox of a DID was at a home until it was moved here.
func (h *homes) MovedHere(ctx context.Context, did federation.DID, home federation.HomeID) bool {
	r, err := h.record.MailboxLocation(ctx, did)
	return err == nil && r.Source == federation.LocatedByMove && r.Home == h.self && r.From == home
}

// movedTo returns where the mailbox of a DID is that an operator moved away from here, ""
// where none did, or long ago.
func (h *homes) movedTo(ctx context.Context, did federation.DID, now time.Time) federation.HomeID {
	r, err := h.record.MailboxLocation(ctx, did)
	if err != nil || r.Source != federation.LocatedByMove || r.From != h.self || r.Home == h.self || now.Sub(r.Since) > forwardFor {
		return ""
	}
	return r.Home
}

// forwarded returns the names of the feeds that a step of another home goes on to: of
// those who moved away from here. Nothing goes where it came from.
func (h *homes) forwarded(ctx context.Context, ev federation.Event, after federation.View) []string {
	if !after.Numbered { // its home rules on nothing that could be shown to others
		return nil
	}
	var names []string
	for _, gone := range h.MovedAway(ctx, after, time.Now()) {
		name := string(gone.Home)
		if h.peer(gone.Home) != nil && gone.Home != after.Home && !slices.Contains(ev.Arrival.Path, gone.Home) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// MovedAway implements [relay.Mailboxes]: it returns the parties of a handoff who moved away from here.
func (h *homes) MovedAway(ctx context.Context, v federation.View, now time.Time) []federation.MovedMailbox {
	var gone []federation.MovedMailbox
	for _, did := range v.Others("") {
		if home := h.movedTo(ctx, did, now); home != "" {
			gone = append(gone, federation.MovedMailbox{DID: did, Home: home})
		}
	}
	return gone
}

// TakeOver implements [relay.Mailboxes]: it makes this the home of a mailbox that another home gives away, unless it is
// known to be somewhere else.
func (h *homes) TakeOver(ctx context.Context, did federation.DID, from federation.HomeID, now time.Time) (why string, err error) {
	at, err := h.residence(ctx, did)
	switch {
	case err != nil:
		return "", err
	case at != "" && at != from && at != h.self:
		return "its mailbox is known to be at " + string(at), nil
	}
	return "", h.record.KeepMailboxLocation(ctx, federation.MailboxLocation{DID: did, Home: h.self, Source: federation.LocatedByMove, Since: now, From: from})
}

// LearnMove implements [relay.Mailboxes]: it notes that a home moved the mailbox of somebody who was there, where the next home
// is a peer of this one.
func (h *homes) LearnMove(ctx context.Context, gone federation.MovedMailbox, from federation.HomeID, now time.Time) error {
	at, err := h.residence(ctx, gone.DID)
	if err != nil || at != from || gone.Home == h.self || h.peer(gone.Home) == nil {
		return err
	}
	return h.record.KeepMailboxLocation(ctx, federation.MailboxLocation{DID: gone.DID, Home: gone.Home, Source: federation.LocatedByMove, Since: now, From: from})
}

// move gives the mailbox of a DID to another home, with what waits in it. Moving again
// goes on with what is left.
func (h *homes) move(ctx context.Context, did federation.DID, to federation.HomeID, dry bool) (operatorapi.Moved, error) {
	done := operatorapi.Moved{DID: did, Home: string(to)}
	peer := h.peer(to)
	if peer == nil {
		return done, &operatorapi.ProblemError{Status: http.StatusNotFound, Code: operatorapi.CodeNotFound, Detail: "there is no peer " + string(to)}
	}
	waiting, _, err := h.record.Waiting(ctx, did)
	if err != nil {
		return done, err
	}
	at, err := h.residence(ctx, did)
	switch ours := at == h.self || at == "" && waiting > 0 || h.movedTo(ctx, did, time.Now()) == to; {
	case err != nil:
		return done, err
	case did == h.self.DID() || !ours:
		return done, &operatorapi.ProblemError{Status: http.StatusConflict, Code: operatorapi.CodeFailed, Detail: fmt.Sprintf("the mailbox of %s is not one of here to give away", did)}
	}
	if dry {
		done.Waiting = waiting
		return done, nil
	}
	if err := peer.Move(ctx, did); err != nil {
		return done, fmt.Errorf("move %s: %w", did, err)
	}
	if at != to {
		err := h.record.KeepMailboxLocation(ctx, federation.MailboxLocation{DID: did, Home: to, Source: federation.LocatedByMove, Since: time.Now(), From: h.self})
		if err != nil {
			return done, err
		}
	}
	h.log.LogAttrs(ctx, slog.LevelInfo, "mailbox moved", slog.String("did", string(did)), slog.String("peer", string(to)))
	err = h.takeAlong(ctx, peer, &done)
	return done, err
}

// takeAlong delivers what waits in an inbox to the home that it moved to. What that cannot
// take stays.
func (h *homes) takeAlong(ctx context.Context, peer *relay.Peer, done *operatorapi.Moved) error {
	for {
		now := time.Now()
		leases, err := h.record.Lease(ctx, done.DID, movingDevice, now, now.Add(movingLease), movingBatch)
		if err != nil || len(leases) == 0 {
			return err
		}
		for i, lease := range leases {
			err := h.hand(ctx, peer, done.DID, lease)
			_, refused := errors.AsType[*federation.RefusalError](err)
			switch {
			case err == nil:
				done.Taken++
			case refused:
				done.Waiting++ // and is not leased again before this is over
			default:
				done.Waiting += len(leases) - i
				return err
			}
		}
	}
}

// hand delivers one entry. The error is a [*federation.RefusalError] for one that stays.
func (h *homes) hand(ctx context.Context, peer *relay.Peer, did federation.DID, lease federation.Lease) error {
	view, err := h.record.View(ctx, lease.Entry.Event.Handoff)
	if err != nil {
		return err
	}
	if view.Home != h.self && !view.Numbered {
		return federation.Refuse(lease.Entry.Event, federation.PolicyDenied, "its home rules on nothing that could be shown to another")
	}
	if err := peer.Deliver(ctx, federation.Delivery{Entry: lease.Entry, View: view}); err != nil {
		return err
	}
	return h.record.Ack(ctx, did, lease.Hold, time.Now())
}
