package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/federation"
	"baton/federation/relay"
)

// unroutedName is the name of the feed of what is owed to people whose home is not known
// yet.
const unroutedName = "homes"

// Bounds of asking where somebody has their mailbox.
const (
	askedAgain  = time.Minute // after all homes said that it is not there
	askedAtOnce = 32          // peers, about one DID
	maxAsked    = 4096        // DIDs that are remembered as asked about, at some 100 bytes each
)

var errNoHome = errors.New("no home is known to have its mailbox")

// unrouted is the link to homes that are still to be found: it asks the peers, and hands
// over to the one that says yes.
type unrouted struct {
	homes *homes
	mu    sync.Mutex
	asked map[federation.DID]time.Time
}

func newUnrouted(h *homes) *unrouted {
	return &unrouted{homes: h, asked: map[federation.DID]time.Time{}}
}

// Name implements [bridge.Link].
func (*unrouted) Name() string { return unroutedName }

// Network implements [bridge.Link].
func (*unrouted) Network() string { return relay.Network }

// Carries implements [bridge.Link]: [homes.owed] says what waits here.
func (*unrouted) Carries(context.Context, federation.Event, federation.View) (bool, error) {
	return false, nil
}

// Run implements [bridge.Link]. There is no connection.
func (*unrouted) Run(ctx context.Context, up func()) error {
	up()
	<-ctx.Done()
	return ctx.Err()
}

// Deliver implements [bridge.Link]: to the homes of all parties of the handoff. What is
// over before a home is known is of interest to nobody any more.
func (u *unrouted) Deliver(ctx context.Context, d federation.Delivery) error {
	done := map[federation.HomeID]bool{u.homes.self: true}
	for _, did := range d.View.Others("") {
		home, err := u.find(ctx, did)
		if err != nil && d.View.Over {
			return federation.Refuse(d.Entry.Event, federation.InvalidTarget, err.Error())
		}
		if err != nil {
			return err
		}
		peer := u.homes.peer(home)
		switch {
		case done[home]:
			continue
		case peer == nil:
			return &federation.UnavailableError{What: "home " + string(home), Err: errors.New("it is no peer of this one")}
		}
		if err := peer.Deliver(ctx, d); err != nil {
			return err
		}
		done[home] = true
	}
	return nil
}

// find returns the home of a DID. Where nobody here knows it, the document of the DID is
// read, then the well-known document of its host, and then the peers are asked.
func (u *unrouted) find(ctx context.Context, did federation.DID) (federation.HomeID, error) {
	home, err := u.homes.residence(ctx, did)
	if err != nil || home != "" {
		return home, err
	}
	if !u.due(did, time.Now()) {
		return "", u.unknown(did, errNoHome)
	}
	why := errNoHome
	home, err = u.homes.documented(ctx, did)
	switch {
	case err != nil:
		why = err
	case home != "":
		u.homes.settle(ctx, did, home, federation.LocatedByDocument)
		return home, nil
	}
	home, err = u.homes.hosted(ctx, did)
	switch {
	case err != nil:
		why = err
	case home != "":
		u.homes.settle(ctx, did, home, federation.LocatedByHost)
		return home, nil
	}
	home, err = u.ask(ctx, did)
	switch {
	case err != nil:
		why = err
	case home != "":
		u.homes.settle(ctx, did, home, federation.LocatedByAnswer)
		return home, nil
	}
	return "", u.unknown(did, why)
}

// ask asks all peers whether they have the mailbox of a DID, and returns the one that says
// so. Where several do, none is believed. The error is that of a peer that did not answer,
// where no other said yes.
func (u *unrouted) ask(ctx context.Context, did federation.DID) (federation.HomeID, error) {
	peers := u.homes.peers()
	says, errs := make([]bool, len(peers)), make([]error, len(peers))
	var group errgroup.Group
	group.SetLimit(askedAtOnce)
	for i, peer := range peers {
		group.Go(func() error { says[i], errs[i] = peer.Houses(ctx, did); return nil })
	}
	_ = group.Wait() // each has an error of its own
	var owners []*relay.Peer
	var names []string
	for i, peer := range peers {
		if says[i] {
			owners, names = append(owners, peer), append(names, peer.Name())
		}
	}
	switch len(owners) {
	case 0:
		return "", errors.Join(errs...)
	case 1:
		return owners[0].Home(), nil
	}
	all := strings.Join(names, " and ")
	for _, peer := range owners {
		peer.Doubt(ctx, federation.DoubtfulMailbox, "of "+string(did)+", which "+all+" say they have")
	}
	return "", fmt.Errorf("%s say each that they have its mailbox", all)
}

func (u *unrouted) unknown(did federation.DID, why error) error {
	return &federation.UnavailableError{What: "home of " + string(did), Err: fmt.Errorf("%w", why)}
}

// due reports whether the peers are to be asked about a DID again.
func (u *unrouted) due(did federation.DID, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at, ok := u.asked[did]; ok && now.Sub(at) < askedAgain {
		return false
	}
	if len(u.asked) >= maxAsked {
		clear(u.asked)
	}
	u.asked[did] = now
	return true
}
