package routing_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/routing"
)

const (
	self = federation.HomeID("a.test")
	bob  = federation.DID("did:key:z6Mkbob")
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// world is a gateway at a.test with the peers b.test and c.test, all of it in memory. It
// implements the three ports of a [routing.Locator].
type world struct {
	locations map[federation.DID]federation.MailboxLocation
	agents    map[federation.DID]bool
	loggedIn  map[federation.DID]string // links on which DIDs are logged in
	bindings  map[federation.DID]federation.Binding
	views     map[federation.HandoffID]federation.View
	inbox     []federation.Lease // unread entries of bob
	broken    error              // the error of the record, if it is not nil

	peers    []routing.Peer
	housed   map[federation.HomeID]bool // the homes that say that they have a mailbox
	away     map[federation.HomeID]error
	asked    int
	given    []federation.HomeID
	sent     []federation.HomeID
	refusing map[federation.EventID]bool
	offences []federation.HomeID

	named  map[federation.DID]string
	hosts  map[string]federation.HomeID
	noDocs error
}

func newWorld() *world {
	return &world{
		locations: map[federation.DID]federation.MailboxLocation{}, agents: map[federation.DID]bool{}, loggedIn: map[federation.DID]string{}, bindings: map[federation.DID]federation.Binding{},
		views: map[federation.HandoffID]federation.View{}, housed: map[federation.HomeID]bool{}, away: map[federation.HomeID]error{},
		refusing: map[federation.EventID]bool{}, named: map[federation.DID]string{}, hosts: map[string]federation.HomeID{},
		peers: []routing.Peer{{Home: "b.test", URL: "https://b.test"}, {Home: "c.test", URL: "https://c.test"}},
	}
}

func (w *world) locator() *routing.Locator {
	return routing.New(routing.Config{
		Home: self, Record: w, Peers: w, Documents: w, Log: slog.New(slog.DiscardHandler),
		LoggedInto: func(_ context.Context, did federation.DID) string { return w.loggedIn[did] },
	})
}

func (w *world) KnowsHomes(context.Context, federation.HomeID) (bool, error) {
	return len(w.locations)+len(w.bindings) > 0, nil
}

func (w *world) MailboxLocation(_ context.Context, did federation.DID) (federation.MailboxLocation, error) {
	if w.broken != nil {
		return federation.MailboxLocation{}, w.broken
	}
	at, ok := w.locations[did]
	if !ok {
		return at, federation.ErrNotFound
	}
	return at, nil
}

func (w *world) HasMoved(_ context.Context, from, to federation.HomeID) (bool, error) {
	for _, at := range w.locations {
		if at.Source == federation.LocatedByMove && slices.Contains(at.Former, from) && at.Home == to {
			return true, w.broken
		}
	}
	return false, w.broken
}

func (w *world) KeepMailboxLocation(_ context.Context, at federation.MailboxLocation) error {
	w.locations[at.DID] = at
	return w.broken
}

func (w *world) IsAgent(_ context.Context, did federation.DID) (bool, error) {
	return w.agents[did], nil
}

func (w *world) Binding(_ context.Context, did federation.DID) (federation.Binding, error) {
	b, ok := w.bindings[did]
	if !ok {
		return b, federation.ErrNotFound
	}
	return b, nil
}

func (w *world) View(_ context.Context, id federation.HandoffID) (federation.View, error) {
	return w.views[id], nil
}

func (w *world) Waiting(context.Context, federation.DID) (entries int, sizeBytes int64, err error) {
	return len(w.inbox), 0, nil
}

// Lease gives each entry out once: no lease ends within a test.
func (w *world) Lease(_ context.Context, _ federation.DID, device, _ string, _, until time.Time, limit int) ([]federation.Lease, error) {
	var leased []federation.Lease
	for i := range w.inbox {
		if w.inbox[i].Device == "" && len(leased) < limit {
			w.inbox[i].Device, w.inbox[i].Until = device, until
			leased = append(leased, w.inbox[i])
		}
	}
	return leased, nil
}

func (w *world) Ack(_ context.Context, _ federation.DID, hold federation.LeaseToken, _ time.Time) error {
	w.inbox = slices.DeleteFunc(w.inbox, func(l federation.Lease) bool { return l.Cursor == hold.Cursor })
	return nil
}

func (w *world) Nack(_ context.Context, _ federation.DID, hold federation.LeaseToken, _ time.Time) error {
	for i := range w.inbox {
		if w.inbox[i].Cursor == hold.Cursor {
			w.inbox[i].Device = ""
		}
	}
	return nil
}

func (w *world) All() iter.Seq[routing.Peer] { return slices.Values(w.peers) }

func (w *world) Peer(home federation.HomeID) (routing.Peer, bool) {
	i := slices.IndexFunc(w.peers, func(p routing.Peer) bool { return p.Home == home })
	if i < 0 {
		return routing.Peer{}, false
	}
	return w.peers[i], true
}

// Houses is called by several goroutines at a time, and only reads but for the count.
func (w *world) Houses(_ context.Context, home federation.HomeID, _ federation.DID) (bool, error) {
	if home == "b.test" {
		w.asked++
	}
	return w.housed[home], w.away[home]
}

func (w *world) Give(_ context.Context, home federation.HomeID, _ federation.DID) error {
	w.given = append(w.given, home)
	return w.away[home]
}

func (w *world) Deliver(_ context.Context, home federation.HomeID, d federation.Delivery) error {
	if w.refusing[d.Entry.Event.ID] {
		return federation.Refuse(d.Entry.Event, federation.InboxFull, "")
	}
	if w.away[home] != nil {
		return w.away[home]
	}
	w.sent = append(w.sent, home)
	return nil
}

func (w *world) DeliverText(_ context.Context, home federation.HomeID, _ federation.Text) error {
	w.sent = append(w.sent, home)
	return nil
}

func (w *world) ReportMisbehavior(_ context.Context, home federation.HomeID, kind federation.MisbehaviorKind, _ string) {
	if kind == federation.MisbehaviorMailbox {
		w.offences = append(w.offences, home)
	}
}

func (w *world) MailboxURL(_ context.Context, did federation.DID) (string, error) {
	return w.named[did], w.noDocs
}

func (w *world) HostHome(_ context.Context, host string) (federation.HomeID, error) {
	return w.hosts[host], w.noDocs
}

func (w *world) at(t *testing.T, did federation.DID, home federation.HomeID, source federation.LocationSource) {
	t.Helper()
	at, err := w.locator().Locate(t.Context(), did)
	if err != nil || at.DID != did || at.Home != home || at.Source != source {
		t.Errorf("%s is at %q by %q (%v), want %q by %q", did, at.Home, at.Source, err, home, source)
	}
}

func eventID(n byte) federation.EventID {
	var id federation.EventID
	id[len(id)-1] = n
	return id
}

func isUnavailable(err error) bool {
	_, ok := errors.AsType[*federation.UnavailableError](err)
	return ok
}

func isRefused(err error) bool {
	_, ok := errors.AsType[*federation.RefusalError](err)
	return ok
}
