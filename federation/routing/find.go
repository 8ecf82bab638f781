package routing

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/federation"
	"baton/federation/fault"
)

// Bounds of asking for a mailbox.
const (
	askedAgain  = time.Minute // between two rounds of questions about one DID
	askedAtOnce = 32          // peers, about one DID
	maxAsked    = 4096        // DIDs whose last round is remembered, at some 100 bytes each
)

var errNoHome = errors.New("no home is known to have its mailbox")

// Deliver sends a step of the outbox [Unrouted] to the mailbox homes of all parties of its
// handoff. It blocks on the network while it looks for them. The error is a
// [*federation.UnavailableError] while one is not found. A [*federation.RefusalError] says that the
// handoff ended before the home was found: the step is dropped.
func (l *Locator) Deliver(ctx context.Context, d federation.Delivery, now time.Time) error {
	done := map[federation.HomeID]bool{l.home: true}
	for _, did := range d.View.Others("") {
		home, err := l.find(ctx, did, now)
		if err != nil && d.View.Over {
			return federation.Refuse(d.Entry.Event, federation.InvalidTarget, err.Error())
		}
		if err != nil {
			return err
		}
		if done[home] {
			continue
		}
		if l.lost(home) {
			return noRoute(did, home)
		}
		if err := l.peers.Deliver(ctx, home, d); err != nil {
			return err
		}
		done[home] = true
	}
	return nil
}

// DeliverText sends text of the outbox [Unrouted] to the mailbox home of its recipient, as Deliver
// sends a step. A recipient that is at this home by now is a [*federation.RefusalError].
func (l *Locator) DeliverText(ctx context.Context, t federation.Text, now time.Time) error {
	home, err := l.find(ctx, t.To, now)
	switch {
	case err != nil:
		return err
	case home == l.home:
		return t.Refuse(federation.InvalidTarget, "the recipient is at this home now: write again")
	case l.lost(home):
		return noRoute(t.To, home)
	}
	return l.peers.DeliverText(ctx, home, t)
}

func noRoute(did federation.DID, home federation.HomeID) error {
	return &federation.UnavailableError{What: "route to " + string(did), Err: fmt.Errorf("its mailbox is at %s, which is no peer of this home", home)}
}

// find returns the mailbox home of a DID. Where no location is known, or its route is lost, it
// reads the document of the DID, then the well-known document of its host, and then asks the
// peers; the first source that names a home wins, and the record keeps the location. A moved mailbox
// is not searched.
func (l *Locator) find(ctx context.Context, did federation.DID, now time.Time) (federation.HomeID, error) {
	at, err := l.Locate(ctx, did)
	if err != nil || at.Home != "" && (at.Source == federation.LocatedByMove || !l.lost(at.Home)) {
		return at.Home, err
	}
	found, why := l.search(ctx, did, now)
	switch {
	case found != "":
		return found, nil
	case at.Home != "":
		return at.Home, nil
	}
	return "", notFound(did, why)
}

// search looks for the mailbox home of a DID, once a minute. It returns why none is found.
func (l *Locator) search(ctx context.Context, did federation.DID, now time.Time) (found federation.HomeID, why error) {
	if l.alone() || !l.due(did, now) {
		return "", errNoHome
	}
	why = errNoHome
	for _, each := range []struct {
		source federation.LocationSource
		look   func(context.Context, federation.DID) (federation.HomeID, error)
	}{
		{federation.LocatedByDocument, l.documented},
		{federation.LocatedByHost, l.hosted},
		{federation.LocatedByAnswer, l.ask},
	} {
		home, err := each.look(ctx, did)
		switch {
		case err != nil:
			why = err
		case home != "":
			l.learn(ctx, did, home, each.source, now)
			return home, nil
		}
	}
	return "", why
}

// Linked notes that the link to another home is up: each DID may be asked about again, and the
// steps of [Unrouted] are tried again. It may block on the disk.
func (l *Locator) Linked(ctx context.Context) {
	l.mu.Lock()
	clear(l.asked)
	l.mu.Unlock()
	l.routed(ctx, "")
}

func notFound(did federation.DID, why error) error {
	return &federation.UnavailableError{What: "home of " + string(did), Err: why}
}

// due reports whether another round of questions about a DID is due, and counts it as begun.
func (l *Locator) due(did federation.DID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.asked[did]; ok && now.Sub(at) < askedAgain {
		return false
	}
	if len(l.asked) >= maxAsked {
		clear(l.asked)
	}
	l.asked[did] = now
	return true
}

// documented returns the peer that the document of a DID names, "" where it names none.
func (l *Locator) documented(ctx context.Context, did federation.DID) (federation.HomeID, error) {
	named, err := l.documents.MailboxURL(ctx, did)
	if err != nil || named == "" {
		return "", err
	}
	address := strings.TrimSuffix(named, "/")
	for peer := range l.peers.All() {
		if peer.URL == address {
			return peer.Home, nil
		}
	}
	return "", fmt.Errorf("its document names %q, which is no peer of this gateway", named)
}

// hosted returns the peer that the host of a did:web names, "" for other DIDs and for a host
// that names none.
func (l *Locator) hosted(ctx context.Context, did federation.DID) (federation.HomeID, error) {
	below, ok := strings.CutPrefix(string(did), "did:web:")
	if !ok {
		return "", nil
	}
	host, _, _ := strings.Cut(below, ":")
	host, err := url.PathUnescape(host) // a did:web writes the colon before a port as %3A
	if err != nil {
		return "", err
	}
	home, err := l.documents.HostHome(ctx, host)
	if err != nil {
		return "", fmt.Errorf("read the well-known document of %s: %w", host, err)
	}
	if _, ok := l.peers.Peer(home); !ok && home != "" {
		return "", fmt.Errorf("its host names %q, which is no peer of this gateway", home)
	}
	return home, nil
}

// ask asks all peers whether they have the mailbox of a DID, and returns the only peer that says yes.
// If several say yes, it believes none of them and reports the offence of each. If none says yes,
// the error is that of the peers that did not answer.
func (l *Locator) ask(ctx context.Context, did federation.DID) (federation.HomeID, error) {
	var peers []federation.HomeID
	for peer := range l.peers.All() {
		peers = append(peers, peer.Home)
	}
	says, errs := make([]bool, len(peers)), make([]error, len(peers))
	var group errgroup.Group
	group.SetLimit(askedAtOnce)
	for i, home := range peers {
		group.Go(func() error {
			errs[i] = fault.Catch(func() (err error) { says[i], err = l.peers.Houses(ctx, home, did); return err })
			return nil
		})
	}
	_ = group.Wait() // each question has an error of its own
	fault.Again(errors.Join(errs...))
	var claim []string
	for i, home := range peers {
		if says[i] {
			claim = append(claim, string(home))
		}
	}
	switch len(claim) {
	case 0:
		return "", errors.Join(errs...)
	case 1:
		return federation.HomeID(claim[0]), nil
	}
	all := strings.Join(claim, " and ")
	for _, home := range claim {
		l.peers.ReportOffence(ctx, federation.HomeID(home), federation.OffenceMailbox, "of "+string(did)+", which "+all+" say they have")
	}
	return "", fmt.Errorf("%s say each that they have its mailbox", all)
}
