// Package routing answers where a DID lives, and moves mailboxes. [Locator.Resolve] returns the
// [Address] of a DID: the home of its mailbox, and its link and its name at this home.
//
// The DID of a key that this gateway keeps stands for its owner. The mailbox home of a DID keeps its
// inbox and delivers to it; the first of these sources that names a home wins:
//
//  1. An operator moved the mailbox. No other source overrules the kept location.
//  2. The DID was seen: it is this home, an agent or a user of a network here, or it is bound
//     to the name of another home, which sent its steps.
//  3. It is a did:web below the name of another home.
//  4. A kept location: a step, a login here, the document of the DID, the well-known document
//     of its host, or the answer of a home.
//
// At this home a DID is on the link on which it signed last, or to which an operator bound it. A DID
// that never signed and is no agent is on the link on which it is logged in now.
//
// A location at a home that is no peer any more is a lost route: any newer source overrules it.
//
// Steps for a DID without a known location, or with a lost route, wait in the outbox [Unrouted].
// [Locator.Deliver] empties it: it reads the documents, asks all other homes, and hands the step
// to the home that is found. The record keeps the location. [Locator.Linked] schedules all of them
// again when a link to a home comes up. [Locator.Reroute] moves steps there when homes are added or
// removed.
//
// [Locator.Move] gives a mailbox to another home. For thirty days this home then forwards the
// steps that still arrive for the DID.
//
// A Locator takes the record, the other homes and the documents of DIDs as ports, and the
// time as an argument. Its methods may be called concurrently.
package routing

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"baton/federation"
)

// Unrouted is the name of the outbox of steps for DIDs whose mailbox home is not known, or is no
// peer now.
const Unrouted = federation.UnroutedLink

// homeNetwork is the network of the bindings of DIDs whose steps another home sent.
const homeNetwork = "home"

// Record is the part of the record that a [Locator] reads and writes.
type Record interface {
	// MailboxLocation returns the kept location of a mailbox, or [federation.ErrNotFound].
	MailboxLocation(ctx context.Context, did federation.DID) (federation.MailboxLocation, error)
	// KeepMailboxLocation replaces the kept location of a mailbox. It blocks until the
	// location is on disk.
	KeepMailboxLocation(ctx context.Context, l federation.MailboxLocation) error
	// IsAgent reports whether a DID is that of an agent of this gateway.
	IsAgent(ctx context.Context, did federation.DID) (bool, error)
	// Binding returns under which link a DID was seen or bound last, or
	// [federation.ErrNotFound].
	Binding(ctx context.Context, did federation.DID) (federation.Binding, error)
	// KnowsHomes reports whether the record has a location at another home than this one, or a
	// DID whose steps another home sent.
	KnowsHomes(ctx context.Context, self federation.HomeID) (bool, error)
	// View returns the view of a handoff, the zero value for one without a log.
	View(ctx context.Context, id federation.HandoffID) (federation.View, error)
	// Waiting returns how many entries of an inbox are unread, and their size.
	Waiting(ctx context.Context, to federation.DID) (entries int, sizeBytes int64, err error)
	// Lease reserves up to limit unread entries of an inbox for a device, oldest first.
	Lease(ctx context.Context, to federation.DID, device, session string, now, until time.Time, limit int) ([]federation.Lease, error)
	// Ack marks a leased entry as read. It returns [federation.ErrLeaseLost] where another
	// device was given the entry meanwhile.
	Ack(ctx context.Context, to federation.DID, hold federation.Hold, now time.Time) error
}

// Peer is another home that this gateway exchanges steps with.
type Peer struct {
	Home    federation.HomeID
	URL     string // without a path
	Blocked bool   // nothing is sent to it
}

// Peers is the set of other homes. The methods that block on the network return an error
// wrapping [*federation.UnavailableError] while a home is not reached, and for a home that
// is no peer any more.
type Peers interface {
	// All returns the peers, in the order of the configuration.
	All() iter.Seq[Peer]
	// Peer returns the peer with a name, and whether there is one.
	Peer(home federation.HomeID) (Peer, bool)
	// Houses asks a home whether it has the mailbox of a DID. It blocks on the network.
	Houses(ctx context.Context, home federation.HomeID, did federation.DID) (bool, error)
	// Give asks a home to take over the mailbox of a DID. It blocks on the network. A
	// [*federation.RefusalError] says why the home does not take it.
	Give(ctx context.Context, home federation.HomeID, did federation.DID) error
	// Deliver sends a step to a home. It blocks until the home has receipted it. A
	// [*federation.RefusalError] is final.
	Deliver(ctx context.Context, home federation.HomeID, d federation.Delivery) error
	// DeliverText sends private text to a home, as Deliver sends a step.
	DeliverText(ctx context.Context, home federation.HomeID, t federation.Text) error
	// ReportOffence notes that a home signed a claim that this gateway does not believe.
	ReportOffence(ctx context.Context, home federation.HomeID, kind federation.OffenceKind, why string)
}

// Documents reads what is published about DIDs. Its methods block on the network.
type Documents interface {
	// MailboxURL returns the address of the mailbox home that the document of a DID names,
	// "" where it names none.
	MailboxURL(ctx context.Context, did federation.DID) (string, error)
	// HostHome returns the home that the well-known document of a host names, "" for a host
	// without such a document.
	HostHome(ctx context.Context, host string) (federation.HomeID, error)
}

// Config is what a [Locator] is made of.
type Config struct {
	Home      federation.HomeID // this home
	Record    Record
	Owners    Owners
	Outboxes  Outboxes
	Peers     Peers
	Documents Documents
	// LoggedInto returns the link of this home on which a user is logged in as a DID, "" for none. It
	// blocks on the owners of links. Nil if users log in nowhere.
	LoggedInto func(ctx context.Context, did federation.DID) string
	// Routed is called with a DID whose location became known, or with "" when any DID may have
	// a route; nil for no call. It may block on the disk.
	Routed func(ctx context.Context, did federation.DID)
	Log    *slog.Logger
}

// Locator locates mailboxes, and moves them.
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
	asked  map[federation.DID]time.Time // when the peers were asked last
	linked bool                         // this home has, or had, peers
	read   bool                         // the record was read for other homes
}

// New returns a locator. It reads nothing yet.
func New(cfg Config) *Locator {
	l := &Locator{
		home: cfg.Home, record: cfg.Record, owners: cfg.Owners, outboxes: cfg.Outboxes, peers: cfg.Peers, documents: cfg.Documents, routed: cfg.Routed, loggedInto: cfg.LoggedInto, log: cfg.Log,
		asked: map[federation.DID]time.Time{},
	}
	if l.routed == nil {
		l.routed = func(context.Context, federation.DID) {}
	}
	return l
}
