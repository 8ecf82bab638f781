package routing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Recipients returns the outboxes of other homes for a filed step, given the view after it: the mailbox
// homes of the parties, or all homes for an open offer. [Unrouted] stands for a home that is unknown or
// not a peer. Steps of a remote handoff are only forwarded to moved parties.
func (l *Locator) Recipients(ctx context.Context, ev federation.Event, after federation.View, now time.Time) ([]string, error) {
	knows, err := l.KnowsHomes(ctx)
	switch {
	case err != nil || !knows || ev.Verb == federation.Confirm:
		return nil, err
	case after.Home != l.home:
		return l.forwards(ctx, ev, after, now)
	case after.Offeree == "":
		var names []string
		for peer := range l.peers.All() {
			if name := string(peer.Home); !peer.Blocked && !submittedBy(name, ev) {
				names = append(names, name)
			}
		}
		return names, nil
	}
	var names []string
	for _, did := range after.Others("") {
		if did == ev.Actor() && !ev.Arrival.RemoteVenue {
			continue // the signer submitted the step here
		}
		at, err := l.Locate(ctx, did)
		if err != nil {
			return nil, err
		}
		name := string(at.Home)
		if _, ok := l.peers.Peer(at.Home); !ok && at.Home != l.home {
			name = Unrouted
		}
		served, err := l.servedOnLink(ctx, did, ev, after)
		if err != nil {
			return nil, err
		}
		if at.Home == "" && (l.alone() || served) {
			continue // no other home has the mailbox
		}
		if at.Home != l.home && !submittedBy(name, ev) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// The submitting home receives the step with the answer. A home that returns a lost step receives it
// like the others, because homes compare only handoffs with a delivered step.
func submittedBy(home string, ev federation.Event) bool {
	return ev.Arrival.Link == home && string(ev.Arrival.Home) == home
}

// The link of a private offer names only the offerer; the recipient's login decides.
func (l *Locator) servedOnLink(ctx context.Context, did federation.DID, ev federation.Event, v federation.View) (bool, error) {
	_, home := l.peers.Peer(federation.HomeID(v.Link))
	if did != v.Offeree || v.Link == "" || home || ev.Arrival.Link == v.Link || !federation.Private(v.Venue) {
		return false, nil
	}
	offerer, err := l.record.Binding(ctx, v.Offerer)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return false, fmt.Errorf("look up %s: %w", v.Offerer, err)
	}
	return offerer.Link != v.Link, nil
}

// A step is not sent back on its path.
func (l *Locator) forwards(ctx context.Context, ev federation.Event, after federation.View, now time.Time) ([]string, error) {
	if !after.Numbered { // no ruling proves the step to a third home
		return nil, nil
	}
	var names []string
	for _, did := range after.Others("") {
		next, err := l.movedTo(ctx, did, now)
		if err != nil {
			return nil, err
		}
		_, known := l.peers.Peer(next)
		if known && next != after.Home && !slices.Contains(ev.Arrival.Path, next) && !slices.Contains(names, string(next)) {
			names = append(names, string(next))
		}
	}
	return names, nil
}

// Deliveries or inboxes per write.
const reroutePage = 256

// Outboxes stores pending deliveries. Its methods block on the disk.
type Outboxes interface {
	// OutboxNames returns the sorted names of outboxes with pending deliveries.
	OutboxNames(ctx context.Context) ([]string, error)
	// Outbox returns up to limit deliveries of an outbox after the given one, oldest first. The zero
	// Delivery precedes all.
	Outbox(ctx context.Context, link string, after federation.Delivery, limit int) ([]federation.Delivery, error)
	// Reroute moves deliveries to another outbox. It skips ended deliveries.
	Reroute(ctx context.Context, from, to string, rows []int64) error
	// UnlocatedReaders returns up to limit DIDs, sorted, after a DID. They have waiting inbox entries
	// here and no known mailbox location.
	UnlocatedReaders(ctx context.Context, after federation.DID, limit int) ([]federation.DID, error)
	// RouteUnread files a delivery for each undelivered step in a DID's inbox, and returns their
	// number.
	RouteUnread(ctx context.Context, did federation.DID, to string, now time.Time) (int, error)
}

// Reroute moves two kinds of deliveries to [Unrouted]: those to former peers, and unread steps here for
// DIDs without a known mailbox location. Call it at startup and after each change of the peers. It
// returns the number of moved deliveries. A second call completes an interrupted one.
func (l *Locator) Reroute(ctx context.Context, now time.Time) (moved int, err error) {
	names, err := l.outboxes.OutboxNames(ctx)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if _, linked := l.peers.Peer(federation.HomeID(name)); linked || name == Unrouted {
			continue
		}
		n, err := l.rerouteOutbox(ctx, name)
		if moved += n; err != nil {
			return moved, fmt.Errorf("route deliveries to %s again: %w", name, err)
		}
	}
	if l.alone() {
		return moved, nil
	}
	n, err := l.routeUnread(ctx, now)
	return moved + n, err
}

// An open offer stays, because it has no other recipient.
func (l *Locator) rerouteOutbox(ctx context.Context, name string) (moved int, err error) {
	var last federation.Delivery
	for ours := false; ; {
		page, err := l.outboxes.Outbox(ctx, name, last, reroutePage)
		if err != nil || len(page) == 0 {
			return moved, err
		}
		if !ours {
			if ours, err = l.wasHome(ctx, name, page); err != nil || !ours {
				return moved, err
			}
		}
		last = page[len(page)-1]
		addressed := slices.DeleteFunc(page, func(d federation.Delivery) bool {
			return d.Entry.Text == nil && d.View.Offeree == "" && d.View.Assignee == ""
		})
		if len(addressed) == 0 {
			continue
		}
		rows := make([]int64, len(addressed))
		for i, d := range addressed {
			rows[i] = d.Row
		}
		if err := l.outboxes.Reroute(ctx, name, Unrouted, rows); err != nil {
			return moved, err
		}
		moved += len(rows)
		l.log.LogAttrs(ctx, slog.LevelInfo, "deliveries wait for a route", slog.String("peer", name), slog.Int("rows", len(rows)))
	}
}

// Another home has, or could have, the mailbox of a party.
func (l *Locator) wasHome(ctx context.Context, name string, page []federation.Delivery) (bool, error) {
	for _, d := range page {
		dids := d.View.Others("")
		if text := d.Entry.Text; text != nil {
			dids = []federation.DID{text.Author, text.To}
		}
		for _, did := range dids {
			at, err := l.Locate(ctx, did)
			if err != nil {
				return false, err
			}
			if string(at.Home) == name || strings.HasPrefix(string(did)+":", "did:web:"+name+":") {
				return true, nil
			}
		}
	}
	return false, nil
}

func (l *Locator) routeUnread(ctx context.Context, now time.Time) (routed int, err error) {
	last := federation.DID("")
	for {
		page, err := l.outboxes.UnlocatedReaders(ctx, last, reroutePage)
		if err != nil || len(page) == 0 {
			return routed, err
		}
		for _, did := range page {
			at, err := l.Locate(ctx, did)
			if err != nil || at.Home != "" {
				if err != nil {
					return routed, err
				}
				continue
			}
			n, err := l.outboxes.RouteUnread(ctx, did, Unrouted, now)
			if routed += n; err != nil {
				return routed, err
			}
		}
		last = page[len(page)-1]
	}
}
