package mailbox

import (
	"context"
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
		if at.Home == "" && (l.alone() || l.onLink(after)) {
			continue // no other home has the mailbox
		}
		if at.Home != l.home && name != ev.Arrival.Link && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// onLink reports whether a handoff is in private on a network of this home: the link has the party
// that no home is known for.
func (l *Locator) onLink(v federation.View) bool {
	_, home := l.peers.Peer(federation.HomeID(v.Link))
	return v.Link != "" && !home && federation.Private(v.Venue)
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
