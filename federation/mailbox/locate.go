package mailbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"baton/federation"
)

// Locate returns the location of the mailbox of a DID and its source. If none is known, the
// location names no home. For the DID of a key that this gateway keeps, it is the mailbox of the
// owner. It returns the errors of the record.
func (l *Locator) Locate(ctx context.Context, did federation.DID) (federation.MailboxLocation, error) {
	did, err := l.owners.Owner(ctx, did)
	if err != nil {
		return federation.MailboxLocation{DID: did}, err
	}
	kept, err := l.record.MailboxLocation(ctx, did)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return federation.MailboxLocation{DID: did}, err
	}
	if kept.Source == federation.LocatedByMove {
		return kept, nil
	}
	seen, err := l.seen(ctx, did)
	newer := l.lost(seen.Home) && kept.Home != "" && kept.Since.After(seen.Since)
	if err != nil || seen.Home != "" && !newer {
		return seen, err
	}
	if below, ok := strings.CutPrefix(string(did), "did:web:"); ok {
		host, _, _ := strings.Cut(below, ":")
		if peer, ok := l.peers.Peer(federation.HomeID(host)); ok {
			return federation.MailboxLocation{DID: did, Home: peer.Home, Source: federation.LocatedByName}, nil
		}
	}
	kept.DID = did
	return kept, nil
}

// lost reports whether a location is at a home that is no peer now.
func (l *Locator) lost(home federation.HomeID) bool {
	if home == "" || home == l.home {
		return false
	}
	_, linked := l.peers.Peer(home)
	return !linked
}

// seen returns where a DID was seen: here, for this home, an agent or a user of a network here, or at
// the home that sent its steps or to which an operator bound it. The location names no home for a
// DID that was not seen.
func (l *Locator) seen(ctx context.Context, did federation.DID) (federation.MailboxLocation, error) {
	unseen := federation.MailboxLocation{DID: did}
	here := federation.MailboxLocation{DID: did, Home: l.home, Source: federation.LocatedHere}
	if did == l.home.DID() {
		return here, nil
	}
	agent, err := l.record.IsAgent(ctx, did)
	if err != nil {
		return unseen, fmt.Errorf("look up agent %s: %w", did, err)
	}
	if agent {
		return here, nil
	}
	b, err := l.record.Binding(ctx, did)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return unseen, nil
	case err != nil:
		return unseen, fmt.Errorf("look up %s: %w", did, err)
	}
	here.Since = b.Seen
	if _, ok := l.peers.Peer(federation.HomeID(b.Link)); !ok && b.Network != homeNetwork {
		return here, nil
	}
	there := federation.MailboxLocation{DID: did, Home: federation.HomeID(b.Link), Since: b.Seen, Source: federation.LocatedByStep}
	if b.Seen.IsZero() {
		there.Source = federation.LocatedByBinding
	}
	return there, nil
}

// Here reports whether the mailbox of a DID is at this home.
func (l *Locator) Here(ctx context.Context, did federation.DID) (bool, error) {
	at, err := l.Locate(ctx, did)
	return at.Home == l.home, err
}

// MaySpeakFor reports whether this gateway believes what a home says of a DID: the mailbox is there, or
// the only known location is the claim of a home. The answer is no while the record cannot be
// read.
func (l *Locator) MaySpeakFor(ctx context.Context, did federation.DID, home federation.HomeID) bool {
	at, err := l.Locate(ctx, did)
	return err == nil && (at.Home == home || at.Home == "" || at.Source == federation.LocatedByAnswer)
}

// OfParties returns the locations of the mailboxes of the parties of a handoff, and nothing at a home
// that never had peers.
func (l *Locator) OfParties(ctx context.Context, v federation.View) ([]federation.MailboxLocation, error) {
	if knows, err := l.KnowsHomes(ctx); err != nil || !knows {
		return nil, err
	}
	var all []federation.MailboxLocation
	for _, did := range v.Others("") {
		at, err := l.Locate(ctx, did)
		if err != nil {
			return nil, fmt.Errorf("look up the home of %s: %w", did, err)
		}
		all = append(all, at)
	}
	return all, nil
}

// KnowsHomes reports whether this home has peers, or its record names other homes.
func (l *Locator) KnowsHomes(ctx context.Context) (bool, error) {
	l.mu.Lock()
	known := l.linked
	l.mu.Unlock()
	if known {
		return true, nil
	}
	known = !l.alone()
	if !known && !l.looked() {
		var err error
		if known, err = l.record.KnowsHomes(ctx, l.home); err != nil {
			return false, fmt.Errorf("look for other homes: %w", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.linked, l.read = l.linked || known, true
	return l.linked, nil
}

// looked reports whether the record was read for other homes. It learns of homes from peers alone, so
// one read is enough.
func (l *Locator) looked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read
}

// alone reports whether this home has no peers.
func (l *Locator) alone() bool {
	for range l.peers.All() {
		return false
	}
	return true
}

// LocalName returns a step of another home with the name of its signer there. It drops that name for
// a signer that was seen here, which keeps its local name.
func (l *Locator) LocalName(ctx context.Context, ev federation.Event) (federation.Event, error) {
	at, err := l.seen(ctx, ev.Actor())
	if at.Home == l.home {
		ev.Arrival.Name = ""
	}
	return ev, err
}
