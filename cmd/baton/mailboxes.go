package main

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"baton/bridge/operatorapi"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/mailbox"
	"baton/federation/relay"
)

// mailboxRecord implements [mailbox.Record].
type mailboxRecord struct{ boundRecord }

// IsAgent implements [mailbox.Record].
func (r mailboxRecord) IsAgent(ctx context.Context, did federation.DID) (bool, error) {
	_, err := r.AgentOf(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// otherHomes implements [mailbox.Peers].
type otherHomes struct{ set *atomic.Pointer[peerSet] }

// All implements [mailbox.Peers].
func (h otherHomes) All() iter.Seq[mailbox.Peer] {
	return func(yield func(mailbox.Peer) bool) {
		for _, peer := range h.set.Load().all {
			if !yield(mailboxPeer(peer)) {
				return
			}
		}
	}
}

// Peer implements [mailbox.Peers].
func (h otherHomes) Peer(home federation.HomeID) (mailbox.Peer, bool) {
	peer := h.set.Load().named[home]
	if peer == nil {
		return mailbox.Peer{}, false
	}
	return mailboxPeer(peer), true
}

func mailboxPeer(peer *relay.Peer) mailbox.Peer {
	return mailbox.Peer{Home: peer.Home(), URL: peer.URL(), Blocked: peer.Mode() == relay.Block}
}

// linked returns the link to another home.
func (h otherHomes) linked(home federation.HomeID) (*relay.Peer, error) {
	peer := h.set.Load().named[home]
	if peer == nil {
		return nil, &federation.UnavailableError{What: "home " + string(home), Err: errors.New("it is no peer of this one")}
	}
	return peer, nil
}

// Houses implements [mailbox.Peers].
func (h otherHomes) Houses(ctx context.Context, home federation.HomeID, did federation.DID) (bool, error) {
	peer, err := h.linked(home)
	if err != nil {
		return false, err
	}
	return peer.Houses(ctx, did)
}

// Give implements [mailbox.Peers].
func (h otherHomes) Give(ctx context.Context, home federation.HomeID, did federation.DID) error {
	peer, err := h.linked(home)
	if err != nil {
		return err
	}
	return peer.Move(ctx, did)
}

// Deliver implements [mailbox.Peers].
func (h otherHomes) Deliver(ctx context.Context, home federation.HomeID, d federation.Delivery) error {
	peer, err := h.linked(home)
	if err != nil {
		return err
	}
	return peer.Deliver(ctx, d)
}

// ReportOffence implements [mailbox.Peers].
func (h otherHomes) ReportOffence(ctx context.Context, home federation.HomeID, kind federation.OffenceKind, why string) {
	if peer, err := h.linked(home); err == nil {
		peer.ReportOffence(ctx, kind, why)
	}
}

// didDocuments implements [mailbox.Documents].
type didDocuments struct {
	directory func() *identity.Directory
	// client fetches from addresses that strangers chose.
	client *identity.Client
}

// MailboxURL implements [mailbox.Documents].
func (d didDocuments) MailboxURL(ctx context.Context, did federation.DID) (string, error) {
	document, err := d.directory().Resolve(ctx, did, time.Now())
	if err != nil {
		return "", err
	}
	return document.Mailbox, nil
}

// HostHome implements [mailbox.Documents].
func (d didDocuments) HostHome(ctx context.Context, host string) (federation.HomeID, error) {
	address, err := federation.JoinURL(federation.BaseURL(host), federation.ProfilePath, nil)
	if err != nil {
		return "", err
	}
	text, err := d.client.Get(ctx, address)
	if errors.Is(err, federation.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	profile, err := federation.ParseHomeProfile(text)
	return profile.Home, err
}

// unrouted is the link whose outbox is [mailbox.Unrouted].
type unrouted struct{ locator *mailbox.Locator }

// newUnrouted returns the link; one without homes is only checked, and never runs.
func newUnrouted(h *homes) unrouted {
	if h == nil {
		return unrouted{}
	}
	return unrouted{h.locator}
}

// Name implements [bridge.Link].
func (unrouted) Name() string { return mailbox.Unrouted }

// Network implements [bridge.Link].
func (unrouted) Network() string { return relay.Network }

// Carries implements [bridge.Link]: [mailbox.Locator.Recipients] names this outbox.
func (unrouted) Carries(context.Context, federation.Event, federation.View) (bool, error) {
	return false, nil
}

// Run implements [bridge.Link]. There is no connection.
func (unrouted) Run(ctx context.Context, up func()) error {
	up()
	<-ctx.Done()
	return ctx.Err()
}

// Deliver implements [bridge.Link].
func (u unrouted) Deliver(ctx context.Context, d federation.Delivery) error {
	return u.locator.Deliver(ctx, d, time.Now())
}

// moveInbox gives the mailbox of a DID to another home.
func (h *homes) moveInbox(ctx context.Context, did federation.DID, to federation.HomeID, dry bool) (operatorapi.Moved, error) {
	moved, err := h.locator.Move(ctx, did, to, dry, time.Now)
	return operatorapi.Moved{DID: moved.DID, Home: string(moved.Home), Taken: moved.Taken, Waiting: moved.Waiting}, problemOf(err)
}
