package routing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// The homes of a handoff learn the new location with the first receipt after the move.
const forwardFor = 30 * 24 * time.Hour

const (
	movingDevice = "inbox move"
	movingLease  = time.Minute
	movingBatch  = 64
)

const maxFormer = 16

// PeerError is returned for a move to a home that is not a peer.
type PeerError struct{ Home federation.HomeID }

func (e *PeerError) Error() string { return "there is no peer " + string(e.Home) }

// ElsewhereError is returned for a move of a mailbox that is not here.
type ElsewhereError struct{ DID federation.DID }

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("the mailbox of %s is not here", e.DID)
}

// Moved is the result of a move.
type Moved = federation.MovedInbox

// MovedHere reports whether operators moved a DID's mailbox from a home to here. It may have moved
// again.
func (l *Locator) MovedHere(ctx context.Context, did federation.DID, from federation.HomeID) (bool, error) {
	at, err := l.record.MailboxLocation(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return false, nil
	}
	here, there := slices.Index(at.Former, l.home), slices.Index(at.Former, from)
	return at.Source == federation.LocatedByMove && there >= 0 && (at.Home == l.home || 0 <= here && here < there), err
}

// MovedFrom reports whether operators moved any mailbox from a home to here, even indirectly.
func (l *Locator) MovedFrom(ctx context.Context, from federation.HomeID) (bool, error) {
	return l.record.HasMoved(ctx, from, l.home)
}

// MovedAway returns the parties of a handoff whose mailboxes moved away from here within the last
// thirty days. It omits a mailbox that the record cannot look up now.
func (l *Locator) MovedAway(ctx context.Context, v federation.View, now time.Time) []federation.MovedMailbox {
	var gone []federation.MovedMailbox
	for _, did := range v.Others("") {
		if at, err := l.movedAway(ctx, did, now); err == nil && at.Home != "" {
			gone = append(gone, federation.MovedMailbox{DID: did, Home: at.Home})
		}
	}
	return gone
}

// The result is zero unless the mailbox moved within the last thirty days.
func (l *Locator) movedAway(ctx context.Context, did federation.DID, now time.Time) (federation.MailboxLocation, error) {
	at, err := l.record.MailboxLocation(ctx, did)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return federation.MailboxLocation{}, err
	}
	if at.Source != federation.LocatedByMove || at.Home == l.home || !slices.Contains(at.Former, l.home) || now.Sub(at.Since) > forwardFor {
		return federation.MailboxLocation{}, nil
	}
	return at, nil
}

// The result is the first home after this one. Later homes would refuse forwarded steps, because they
// do not know that the mailbox was here.
func (l *Locator) movedTo(ctx context.Context, did federation.DID, now time.Time) (federation.HomeID, error) {
	at, err := l.movedAway(ctx, did, now)
	if i := slices.Index(at.Former, l.home); i > 0 {
		return at.Former[i-1], err
	}
	return at.Home, err
}

func (l *Locator) keepMove(ctx context.Context, did federation.DID, from, to federation.HomeID, now time.Time) error {
	before, err := l.record.MailboxLocation(ctx, did)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return err
	}
	former := []federation.HomeID{from}
	for _, home := range before.Former {
		if home != from && len(former) < maxFormer {
			former = append(former, home)
		}
	}
	return l.record.KeepMailboxLocation(ctx, federation.MailboxLocation{DID: did, Home: to, Source: federation.LocatedByMove, Since: now, Former: former})
}

// TakeOver makes this home the mailbox home of a DID that another home moves. If a third home may have
// the mailbox, it asks that home, and blocks on the network. A non-empty reason means that the third
// home has it. The error is a [*federation.UnavailableError] if it does not answer.
func (l *Locator) TakeOver(ctx context.Context, did federation.DID, from federation.HomeID, now time.Time) (reason string, err error) {
	at, err := l.Locate(ctx, did)
	switch {
	case err != nil:
		return "", err
	case at.Home != "" && at.Home != from && at.Home != l.home && !l.lost(at.Home):
		if still, err := l.peers.Houses(ctx, at.Home, did); err != nil || still {
			return "its mailbox is known to be at " + string(at.Home), err
		}
	}
	return "", l.keepMove(ctx, did, from, l.home, now)
}

// LearnMove records that a home moved a DID's mailbox. It ignores a home without the mailbox, and a new
// home that is not a peer.
func (l *Locator) LearnMove(ctx context.Context, gone federation.MovedMailbox, from federation.HomeID, now time.Time) error {
	at, err := l.Locate(ctx, gone.DID)
	if err != nil || at.Home != from || gone.Home == l.home {
		return err
	}
	if _, ok := l.peers.Peer(gone.Home); !ok {
		return nil
	}
	return l.keepMove(ctx, gone.DID, from, gone.Home, now)
}

// Move moves a DID's mailbox to another home, with its unread entries. It blocks until each entry is
// receipted or refused. A second call moves the rest. With dry, it only counts the entries. The error
// is a [*PeerError], an [*ElsewhereError], a [*federation.RefusalError] of the other home, or from the
// record or the network.
func (l *Locator) Move(ctx context.Context, did federation.DID, to federation.HomeID, dry bool, now func() time.Time) (Moved, error) {
	done := Moved{DID: did, Home: to}
	if _, ok := l.peers.Peer(to); !ok {
		return done, &PeerError{to}
	}
	waiting, _, err := l.record.Waiting(ctx, did)
	if err != nil {
		return done, err
	}
	at, err := l.Locate(ctx, did)
	if err != nil {
		return done, err
	}
	before, err := l.movedTo(ctx, did, now())
	switch ours := at.Home == l.home || at.Home == "" && waiting > 0 || before == to; {
	case err != nil:
		return done, err
	case did == l.home.DID() || !ours:
		return done, &ElsewhereError{did}
	}
	if dry {
		done.Waiting = waiting
		return done, nil
	}
	if err := l.peers.Give(ctx, to, did); err != nil {
		return done, fmt.Errorf("move %s: %w", did, err)
	}
	if at.Home != to {
		if err := l.keepMove(ctx, did, l.home, to, now()); err != nil {
			return done, err
		}
	}
	l.log.LogAttrs(ctx, slog.LevelInfo, "mailbox moved", slog.String("did", string(did)), slog.String("peer", string(to)))
	err = l.moveEntries(ctx, &done, now)
	return done, err
}

// Refused or leased entries stay.
func (l *Locator) moveEntries(ctx context.Context, done *Moved, now func() time.Time) (err error) {
	var left []federation.Lease // for a device or a second call
	defer func() {
		for _, lease := range left {
			_ = l.record.Nack(context.WithoutCancel(ctx), done.DID, lease.LeaseToken, now()) // otherwise, its lease expires
		}
		var failed error
		done.Waiting, _, failed = l.record.Waiting(context.WithoutCancel(ctx), done.DID)
		err = cmp.Or(err, failed)
	}()
	for {
		start := now()
		leases, err := l.record.Lease(ctx, done.DID, movingDevice, "", start, start.Add(movingLease), movingBatch)
		if err != nil || len(leases) == 0 {
			return err
		}
		for i, lease := range leases {
			err := l.moveEntry(ctx, *done, lease, now)
			_, refused := errors.AsType[*federation.RefusalError](err)
			switch {
			case err == nil:
				done.Taken++
			case refused:
				left = append(left, lease)
			default:
				left = append(left, leases[i:]...)
				return err
			}
		}
	}
}

func (l *Locator) moveEntry(ctx context.Context, moved Moved, lease federation.Lease, now func() time.Time) error {
	view, err := l.record.View(ctx, lease.Entry.Event.Handoff)
	if err != nil {
		return err
	}
	if view.Home != l.home && !view.Numbered {
		return federation.Refuse(lease.Entry.Event, federation.PolicyDenied, "no ruling of its home proves the step to another home")
	}
	if err := l.peers.Deliver(ctx, moved.Home, federation.Delivery{Entry: lease.Entry, View: view}); err != nil {
		return err
	}
	return l.record.Ack(ctx, moved.DID, lease.LeaseToken, now())
}
