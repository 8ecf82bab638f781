// Package routing locates DIDs, and moves mailboxes. [Locator.Resolve] returns the [Address] of a DID: the
// home of its mailbox, and its link and name at this home.
//
// The DID of a key kept by this gateway represents its owner. The mailbox home of a DID stores its inbox
// and delivers to it. It is determined by the first of these sources that names a home:
//
//  1. An operator moved the mailbox. No other source overrules that.
//  2. The DID was seen: it is this home, an agent or a user of a network here, or it is bound
//     to the name of another home, which sent its steps.
//  3. It is a did:web below the name of another home.
//  4. A stored location: a step, a login here, the document of the DID, the well-known document
//     of its host, or the answer of a home.
//
// At this home, a DID is located on the link on which it last signed, or to which an operator bound
// it. A DID that never signed and is not an agent is located on the link on which it is logged in.
//
// A location at a home that is no longer a peer is a lost route: any newer source overrules it.
//
// Steps for a DID without a known location, or with a lost route, wait in the outbox [Unrouted].
// [Locator.Deliver] reads the documents, queries all other homes, stores the location, and sends the step
// there. [Locator.Linked] retries these steps when a link to a home comes up. [Locator.Reroute] fills the
// outbox when homes are added or removed.
//
// [Locator.Move] moves a mailbox to another home. This home then forwards steps for the DID for
// thirty days.
//
// The methods of a Locator may be called concurrently.
package routing

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

// Unrouted is the outbox for DIDs whose mailbox home is unknown, or no longer a peer.
const Unrouted = federation.UnroutedLink

// Network of the bindings of DIDs at other homes.
const homeNetwork = "home"

// Record is the required part of the record.
type Record interface {
	// MailboxLocation returns a stored mailbox location, or [federation.ErrNotFound].
	MailboxLocation(ctx context.Context, did federation.DID) (federation.MailboxLocation, error)
	// HasMoved reports whether an operator moved any mailbox from one home to another.
	HasMoved(ctx context.Context, from, to federation.HomeID) (bool, error)
	// KeepMailboxLocation replaces a stored location, and blocks until it is on disk.
	KeepMailboxLocation(ctx context.Context, l federation.MailboxLocation) error
	// IsAgent reports whether a DID is an agent of this gateway.
	IsAgent(ctx context.Context, did federation.DID) (bool, error)
	// Binding returns the link on which a DID was last seen or bound, or [federation.ErrNotFound].
	Binding(ctx context.Context, did federation.DID) (federation.Binding, error)
	// KnowsHomes reports whether the record has a location at another home, or steps that another home
	// sent.
	KnowsHomes(ctx context.Context, self federation.HomeID) (bool, error)
	// View returns the view of a handoff, or the zero View.
	View(ctx context.Context, id federation.HandoffID) (federation.View, error)
	// Waiting returns the number and the size of the unread entries of an inbox.
	Waiting(ctx context.Context, to federation.DID) (entries int, sizeBytes int64, err error)
	// Lease leases up to limit unread entries of an inbox, oldest first.
	Lease(ctx context.Context, to federation.DID, device, session string, now, until time.Time, limit int) ([]federation.Lease, error)
	// Ack marks a leased entry as read, or returns [federation.ErrLeaseLost] if another device has
	// leased it.
	Ack(ctx context.Context, to federation.DID, hold federation.LeaseToken, now time.Time) error
	// Nack releases a leased entry, which no device gets before the given time.
	Nack(ctx context.Context, to federation.DID, hold federation.LeaseToken, again time.Time) error
}

// Peer is another home.
type Peer struct {
	Home    federation.HomeID
	URL     string // without a path
	Blocked bool   // nothing is sent to it
}

// Peers is the set of other homes. For an unreachable home or a former peer, methods that block on the
// network return an error wrapping [*federation.UnavailableError].
type Peers interface {
	// All returns the peers in configured order.
	All() iter.Seq[Peer]
	// Peer returns the peer with the given name, or false if there is none.
	Peer(home federation.HomeID) (Peer, bool)
	// Houses asks a home whether it has a DID's mailbox. It blocks on the network.
	Houses(ctx context.Context, home federation.HomeID, did federation.DID) (bool, error)
	// Give asks a home to take over a DID's mailbox. It blocks on the network. A refusal is a
	// [*federation.RefusalError].
	Give(ctx context.Context, home federation.HomeID, did federation.DID) error
	// Deliver sends a step to a home, and blocks until its receipt. A [*federation.RefusalError] is
	// final.
	Deliver(ctx context.Context, home federation.HomeID, d federation.Delivery) error
	// DeliverText sends private text like Deliver.
	DeliverText(ctx context.Context, home federation.HomeID, t federation.Text) error
	// ReportMisbehavior records a home's invalid signed claim.
	ReportMisbehavior(ctx context.Context, home federation.HomeID, kind federation.MisbehaviorKind, why string)
}

// Documents reads published documents. Its methods block on the network.
type Documents interface {
	// MailboxURL returns the address of the mailbox home in a DID document, or "".
	MailboxURL(ctx context.Context, did federation.DID) (string, error)
	// HostHome returns the home in a host's well-known document, or "".
	HostHome(ctx context.Context, host string) (federation.HomeID, error)
}

// Config contains the dependencies of a [Locator].
type Config struct {
	Home      federation.HomeID
	Record    Record
	Owners    Owners
	Outboxes  Outboxes
	Peers     Peers
	Documents Documents
	// LoggedInto returns the local link on which a DID is logged in, or "". It blocks on the owners of
	// links, and may be nil.
	LoggedInto func(ctx context.Context, did federation.DID) string
	// Routed is called with a DID whose location became known, or with "" for any DID. It may be nil,
	// and may block on the disk.
	Routed func(ctx context.Context, did federation.DID)
	Log    *slog.Logger
}

// Locator finds and moves mailboxes.
type Locator struct {
	home       federation.HomeID
	record     Record
	owners     Owners
	outboxes   Outboxes
	peers      Peers
	documents  Documents
	routed     func(ctx context.Context, did federation.DID)
	loggedInto func(ctx context.Context, did federation.DID) string
	log        *slog.Logger

	mu     sync.Mutex
	asked  map[federation.DID]time.Time // last query to the peers
	linked bool
	read   bool
	// First of successive rounds with several claims.
	contested map[federation.DID]time.Time
}

// New returns a locator without reading anything.
func New(cfg Config) *Locator {
	l := &Locator{
		home: cfg.Home, record: cfg.Record, owners: cfg.Owners, outboxes: cfg.Outboxes, peers: cfg.Peers, documents: cfg.Documents, routed: cfg.Routed, loggedInto: cfg.LoggedInto, log: cfg.Log,
		asked: map[federation.DID]time.Time{}, contested: map[federation.DID]time.Time{},
	}
	if l.routed == nil {
		l.routed = func(context.Context, federation.DID) {}
	}
	return l
}

const (
	askedAgain  = time.Minute // between rounds of queries about one DID
	askedAtOnce = 32          // concurrent queries per DID
	maxAsked    = 4096        // DIDs; each has about 100 bytes
	// Both homes of a move claim the mailbox until the former one has the answer.
	contestedFor = 10 * time.Minute // then the claims are offences
)

var errNoHome = errors.New("no home is known to have its mailbox")

// Deliver sends a step of [Unrouted] to the mailbox homes of all parties. It blocks on the network. It
// returns a [*federation.UnavailableError] while a home is not found, or a [*federation.RefusalError]
// if the handoff has ended.
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

// DeliverText sends text of [Unrouted] to the recipient's mailbox home. For a recipient now here, it
// returns a [*federation.RefusalError].
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

// A known location is kept, unless its route is lost. A moved mailbox is never searched.
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

// A search runs at most once a minute. A non-nil why means that the search failed.
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
		{federation.LocatedByAnswer, func(ctx context.Context, did federation.DID) (federation.HomeID, error) { return l.ask(ctx, did, now) }},
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

// Linked records that a link to another home is up. It allows queries and retries the steps of
// [Unrouted]. It may block on the disk.
func (l *Locator) Linked(ctx context.Context) {
	l.mu.Lock()
	clear(l.asked)
	l.mu.Unlock()
	l.routed(ctx, "")
}

func notFound(did federation.DID, why error) error {
	return &federation.UnavailableError{What: "home of " + string(did), Err: why}
}

// If it returns true, the round counts as begun.
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

// The result is "" unless the home is a peer.
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

// The result is "" unless the DID is a did:web and the home is a peer.
func (l *Locator) hosted(ctx context.Context, did federation.DID) (federation.HomeID, error) {
	below, ok := strings.CutPrefix(string(did), "did:web:")
	if !ok {
		return "", nil
	}
	host, _, _ := strings.Cut(below, ":")
	host, err := url.PathUnescape(host) // a port follows %3A
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

// If several peers claim the mailbox, none is trusted, and each is reported if this lasts longer than a
// move. If no peer claims it, the errors of unresponsive peers are returned.
func (l *Locator) ask(ctx context.Context, did federation.DID, now time.Time) (federation.HomeID, error) {
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
	_ = group.Wait()
	fault.Again(errors.Join(errs...))
	var claim []string
	for i, home := range peers {
		if says[i] {
			claim = append(claim, string(home))
		}
	}
	since := l.contest(did, len(claim) > 1, now)
	switch len(claim) {
	case 0:
		return "", errors.Join(errs...)
	case 1:
		return federation.HomeID(claim[0]), nil
	}
	all := strings.Join(claim, " and ")
	for _, home := range claim {
		if now.Sub(since) < contestedFor {
			break
		}
		l.peers.ReportMisbehavior(ctx, federation.HomeID(home), federation.MisbehaviorMailbox, "of "+string(did)+", which "+all+" say they have")
	}
	return "", fmt.Errorf("%s each claim to have its mailbox", all)
}

func (l *Locator) contest(did federation.DID, several bool, now time.Time) (since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, before := l.contested[did]
	switch {
	case !several:
		delete(l.contested, did)
	case !before:
		if len(l.contested) >= maxAsked {
			clear(l.contested)
		}
		l.contested[did], since = now, now
	}
	return since
}
