package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/federation"
)

// Recipients returns the names of the outboxes of other homes that a filed step goes to, with
// the handoff as it is after the step: the mailbox homes of the parties, and all homes for an
// offer to anyone. [Unrouted] stands for a home that is not known, or is no peer now. The home of a
// remote handoff sends its steps; this home only forwards them to parties that moved away from here.
func (l *Locator) Recipients(ctx context.Context, ev federation.Event, after federation.View, now time.Time) ([]string, error) {
	knows, err := l.KnowsHomes(ctx)
	switch {
	case err != nil || !knows || ev.Verb == federation.Confirm:
		return nil, err
	case after.Home != l.home:
		return l.forwards(ctx, ev, after, now), nil
	case after.Offeree == "":
		return l.everyone(ev), nil
	}
	var names []string
	for _, did := range after.Others("") {
		if did == ev.Actor() && !ev.Arrival.Abroad {
			continue // the signer took the step at this home
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
		if at.Home != l.home && name != ev.Arrival.Link && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// servedOnLink reports whether the gateway wrote a private offer on a network of this home because its
// recipient is logged in there. The link of an offer that a user of that network made names the
// offerer alone, and says nothing of the recipient.
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

// everyone returns the names of all homes but the one that a step came from.
func (l *Locator) everyone(ev federation.Event) []string {
	var names []string
	for peer := range l.peers.All() {
		if name := string(peer.Home); !peer.Blocked && name != ev.Arrival.Link {
			names = append(names, name)
		}
	}
	return names
}

// forwards returns the names of the homes to which a step of another home is forwarded. No step goes
// to a home that it came through.
func (l *Locator) forwards(ctx context.Context, ev federation.Event, after federation.View, now time.Time) []string {
	if !after.Numbered { // no ruling proves the step to a third home
		return nil
	}
	var names []string
	for _, gone := range l.MovedAway(ctx, after, now) {
		name := string(gone.Home)
		_, known := l.peers.Peer(gone.Home)
		if known && gone.Home != after.Home && !slices.Contains(ev.Arrival.Path, gone.Home) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
