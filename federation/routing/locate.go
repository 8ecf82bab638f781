package routing

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Address is the location of a DID.
type Address struct {
	// MailboxLocation has no home if none is known. For a kept key, it has the owner's DID.
	federation.MailboxLocation
	Agent   bool
	Binding federation.Binding // of its last signature or an operator; may be zero
	// Link is the local link on which it last signed, otherwise the link of its login, or "".
	Link string
}

// Resolve returns the address of a DID, with the precedence in the package comment. It blocks on the
// record and on the owners of links, and returns record errors.
func (l *Locator) Resolve(ctx context.Context, did federation.DID) (Address, error) {
	a, err := l.Recorded(ctx, did)
	if err == nil && a.Binding.Link == "" && !a.Agent && l.loggedInto != nil {
		a.Link = l.loggedInto(ctx, a.DID)
	}
	return a, err
}

// Locate returns the mailbox location of [Locator.Recorded].
func (l *Locator) Locate(ctx context.Context, did federation.DID) (federation.MailboxLocation, error) {
	a, err := l.Recorded(ctx, did)
	return a.MailboxLocation, err
}

// Recorded is a [Locator.Resolve] without logins. It blocks only on the record.
func (l *Locator) Recorded(ctx context.Context, did federation.DID) (a Address, err error) {
	if a.DID, err = l.owners.Owner(ctx, did); err != nil {
		return a, err
	}
	kept, err := l.record.MailboxLocation(ctx, a.DID)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return a, err
	}
	if err = l.see(ctx, &a); err != nil {
		return a, err
	}
	newer := l.lost(a.Home) && kept.Home != "" && kept.Since.After(a.Since)
	switch {
	case kept.Source == federation.LocatedByMove:
		a.MailboxLocation = kept
	case a.Home != "" && !newer:
	case l.named(a.DID) != "":
		a.MailboxLocation = federation.MailboxLocation{DID: a.DID, Home: l.named(a.DID), Source: federation.LocatedByName}
	default:
		kept.DID = a.DID
		a.MailboxLocation = kept
	}
	return a, nil
}

func (l *Locator) named(did federation.DID) federation.HomeID {
	below, ok := strings.CutPrefix(string(did), "did:web:")
	if !ok {
		return ""
	}
	host, _, _ := strings.Cut(below, ":")
	peer, _ := l.peers.Peer(federation.HomeID(host))
	return peer.Home
}

func (l *Locator) lost(home federation.HomeID) bool {
	if home == "" || home == l.home {
		return false
	}
	_, linked := l.peers.Peer(home)
	return !linked
}

// A DID is seen here if it is the home itself, a local agent or a user of a network. Otherwise, it is
// seen at the home that sent its steps, or to which an operator bound it.
func (l *Locator) see(ctx context.Context, a *Address) (err error) {
	here := federation.MailboxLocation{DID: a.DID, Home: l.home, Source: federation.LocatedHere}
	if a.DID == l.home.DID() {
		a.MailboxLocation = here
		return nil
	}
	if a.Agent, err = l.record.IsAgent(ctx, a.DID); err != nil {
		return fmt.Errorf("look up agent %s: %w", a.DID, err)
	}
	a.Binding, err = l.record.Binding(ctx, a.DID)
	unseen := errors.Is(err, federation.ErrNotFound)
	if err != nil && !unseen {
		return fmt.Errorf("look up %s: %w", a.DID, err)
	}
	_, isPeer := l.peers.Peer(federation.HomeID(a.Binding.Link))
	atHome := isPeer || a.Binding.Network == homeNetwork
	if !unseen && !atHome {
		a.Link = a.Binding.Link
	}
	switch {
	case a.Agent:
		a.MailboxLocation = here
	case unseen:
	case !atHome:
		here.Since = a.Binding.Seen
		a.MailboxLocation = here
	default:
		a.Home, a.Since, a.Source = federation.HomeID(a.Binding.Link), a.Binding.Seen, federation.LocatedByStep
		if a.Binding.Seen.IsZero() {
			a.Source = federation.LocatedByBinding
		}
	}
	return nil
}

// Here reports whether the mailbox of a DID is here.
func (l *Locator) Here(ctx context.Context, did federation.DID) (bool, error) {
	at, err := l.Locate(ctx, did)
	return at.Home == l.home, err
}

// MaySpeakFor reports whether this gateway trusts one of these homes for a DID: the mailbox is there,
// or only a home's claim is known. If another peer has the mailbox, it asks that peer, and blocks on
// the network. It returns record errors, or a [*federation.UnavailableError] if the peer does not
// answer.
func (l *Locator) MaySpeakFor(ctx context.Context, did federation.DID, homes ...federation.HomeID) (bool, error) {
	at, err := l.Locate(ctx, did)
	if err != nil {
		return false, fmt.Errorf("look up the home of %s: %w", did, err)
	}
	if slices.Contains(homes, at.Home) || at.Home == "" || at.Source == federation.LocatedByAnswer {
		return true, nil
	}
	if peer, linked := l.peers.Peer(at.Home); !linked || peer.Blocked {
		return false, nil
	}
	still, err := l.peers.Houses(ctx, at.Home, did)
	return err == nil && !still, err
}

// OfParties returns the mailbox locations of a handoff's parties, or none if this home never had peers.
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
			return false, fmt.Errorf("list other homes: %w", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.linked, l.read = l.linked || known, true
	return l.linked, nil
}

// New homes come only from peers, so one read is enough.
func (l *Locator) looked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read
}

func (l *Locator) alone() bool {
	for range l.peers.All() {
		return false
	}
	return true
}

// LocalName returns a DID's name at another home, or "" for a DID seen here.
func (l *Locator) LocalName(ctx context.Context, did federation.DID, name string) (string, error) {
	at := Address{MailboxLocation: federation.MailboxLocation{DID: did}}
	err := l.see(ctx, &at)
	if at.Home == l.home {
		name = ""
	}
	return name, err
}

// The owner of a kept key may be the DID of another kept key, so the chain is bounded.
const maxKept = 4

// KeyOwners finds the owners of keys. It blocks on the record.
type KeyOwners interface {
	// KeyOwner returns the owner of a [federation.KeyID], or [federation.ErrNotFound].
	KeyOwner(ctx context.Context, keyID string) (federation.DID, error)
}

// Owners resolves the DIDs of kept keys, because people write to the DID shown as the author of a step.
// The zero Owners keeps no keys.
type Owners struct {
	Record KeyOwners
	// Kept returns the key kept for a name.
	Kept func(name string) federation.SigningKey
	// DIDKey returns the key of a did:key, or an error for any other DID.
	DIDKey func(federation.DID) (ed25519.PublicKey, error)
}

// KeptFor returns the key kept for a DID.
func (o Owners) KeptFor(did federation.DID) federation.KeptKey {
	return federation.KeptKey{ID: federation.KeyID(o.kept(did).Public), Owner: did}
}

// KeptDID returns the DID of the key kept for a DID, or false if no keys are kept.
func (o Owners) KeptDID(did federation.DID) (federation.DID, bool) {
	if o.Kept == nil {
		return "", false
	}
	return o.kept(did).DID, true
}

func (o Owners) kept(did federation.DID) federation.SigningKey {
	return o.Kept("person:" + string(did))
}

// KeepsFor reports whether kept is the DID of a DID's kept key.
func (o Owners) KeepsFor(kept, of federation.DID) bool {
	if kept.Method() != "key" {
		return false
	}
	did, keeps := o.KeptDID(of)
	return keeps && did == kept
}

// Owner returns the owner of a kept did:key, and any other DID unchanged. An owner with a different
// kept key is ignored. It returns record errors.
func (o Owners) Owner(ctx context.Context, did federation.DID) (federation.DID, error) {
	for range maxKept {
		if o.Record == nil || did.Method() != "key" {
			break
		}
		key, err := o.DIDKey(did)
		if err != nil {
			return did, nil //nolint:nilerr // not a key made by a gateway
		}
		owner, err := o.Record.KeyOwner(ctx, federation.KeyID(key))
		switch {
		case errors.Is(err, federation.ErrNotFound):
			return did, nil
		case err != nil:
			return did, fmt.Errorf("look up the owner of %s: %w", did, err)
		case owner == did || !o.KeepsFor(did, owner):
			return did, nil
		}
		did = owner
	}
	return did, nil
}

// LearnFromStep records that a home sent a step or text of a DID, unless another location is known. A
// signed step overrules an earlier login here, and another home's earlier claim. A failed write is only
// logged.
func (l *Locator) LearnFromStep(ctx context.Context, did federation.DID, by federation.Provenance, home federation.HomeID, now time.Time) {
	defer l.routed(ctx, did)
	kept, err := l.record.MailboxLocation(ctx, did)
	weak := kept.Source == federation.LocatedByAnswer || kept.Source == federation.LocatedByLogin
	if err != nil || !weak || kept.Home == home || by != federation.Signed {
		l.learn(ctx, did, home, federation.LocatedByStep, now)
		return
	}
	l.keep(ctx, federation.MailboxLocation{DID: did, Home: home, Source: federation.LocatedByStep, Since: now})
}

// LearnFromLogin records that a DID logged in here. It changes only an unknown location, a lost route,
// or a mere claim of another home. A failed write is only logged.
func (l *Locator) LearnFromLogin(ctx context.Context, did federation.DID, now time.Time) {
	at, err := l.Locate(ctx, did)
	switch {
	case err != nil:
		l.notKept(ctx, did, err)
	case at.Source == federation.LocatedByMove:
	case at.Home == "" || at.Source == federation.LocatedByAnswer || l.lost(at.Home):
		l.keep(ctx, federation.MailboxLocation{DID: did, Home: l.home, Source: federation.LocatedByLogin, Since: now})
		l.routed(ctx, did)
	}
}

func (l *Locator) learn(ctx context.Context, did federation.DID, home federation.HomeID, source federation.LocationSource, now time.Time) {
	at, err := l.Locate(ctx, did)
	if err != nil {
		l.notKept(ctx, did, err)
		return
	}
	if at.Home == "" || at.Source != federation.LocatedByMove && l.lost(at.Home) {
		l.keep(ctx, federation.MailboxLocation{DID: did, Home: home, Source: source, Since: now})
	}
}

func (l *Locator) keep(ctx context.Context, at federation.MailboxLocation) {
	if err := l.record.KeepMailboxLocation(ctx, at); err != nil {
		l.notKept(ctx, at.DID, err)
	}
}

func (l *Locator) notKept(ctx context.Context, did federation.DID, err error) {
	l.log.LogAttrs(ctx, slog.LevelWarn, "home of a DID not stored", slog.String("did", string(did)), slog.Any("err", err))
}
