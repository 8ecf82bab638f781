package federation

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"time"
)

// KeyOrigin is the kind of source that named a key of a DID.
type KeyOrigin string

// The origins, each with the party that a reader trusts.
const (
	DocumentKey KeyOrigin = "document" // the DID's document: its owner
	ClientKey   KeyOrigin = "msgsig"   // its owner, over a connection that was authenticated as the DID
	PeerKey     KeyOrigin = "peer"     // the key server of a peer: good for what comes from that peer
	NetworkKey  KeyOrigin = "network"  // the registry of agents that the DID's agent belongs to
	// RevokedKey is not a source. The key does not sign for the DID from then on, and no
	// source can change that.
	RevokedKey KeyOrigin = "revoked"
)

// KeyWindow is a stretch of time for which one source said that a key signs for a
// DID. A source that names a key again after its window ended begins another.
type KeyWindow struct {
	DID    DID               `json:"did"`
	Public ed25519.PublicKey `json:"public"` // empty for a [RevokedKey] of which only the id is known
	KeyID  string            `json:"key_id"`
	Origin KeyOrigin         `json:"origin"`
	Via    string            `json:"via"` // which source: an address, or the name of a link
	Since  time.Time         `json:"since"`
	Seen   time.Time         `json:"seen"`           // when the source said so last
	Until  time.Time         `json:"until,omitzero"` // from when it did not sign any more; zero for no end
}

// Good reports whether the window is open at a time. [KeyHistory.Standing] decides about
// times before the window.
func (w KeyWindow) Good(at time.Time) bool { return w.Until.IsZero() || at.Before(w.Until) }

// KeyReport is what one source says at one time about the keys of a DID.
type KeyReport struct {
	DID    DID
	Origin KeyOrigin
	Via    string
	Keys   []ReportedKey
	// Whole says that the source named every key that signs for the DID. Keys that it named
	// before and does not name now end at this time.
	Whole bool
	At    time.Time
}

// ReportedKey is one key of a report.
type ReportedKey struct {
	Public ed25519.PublicKey
	Until  time.Time // from when it does not sign any more, as the source says; zero for no end
}

// maxKeyWindows bounds the windows that one source can have for one DID. A signer that
// rotates a key each day stays below it for most of a year.
const maxKeyWindows = 256

// ErrTooManyKeys is returned by [Keys.Learn] for a report that would go beyond what
// is kept about one DID from one source.
var ErrTooManyKeys = errors.New("federation: too many keys from one source")

// Apply returns the windows that a report changes or adds, given the stored history of its
// DID. It returns [ErrTooManyKeys] for a report that would exceed the bound.
//
// Apply never deletes a window and never moves an end back. A report that is older than the
// last one of the same source ends no window.
func (r KeyReport) Apply(kept KeyHistory) (changed KeyHistory, err error) {
	var known KeyHistory // of the same source
	for _, w := range kept {
		if w.Origin == r.Origin && w.Via == r.Via {
			known = append(known, w)
		}
	}
	named, added := map[string]bool{}, 0
	for _, key := range r.Keys {
		id := KeyID(key.Public)
		if named[id] {
			continue
		}
		named[id] = true
		w, ok := r.window(known, id, key)
		if !ok {
			continue
		}
		changed = append(changed, w)
		if !slices.ContainsFunc(known, func(k KeyWindow) bool { return k.KeyID == id && k.Since.Equal(w.Since) }) {
			added++
		}
	}
	for _, w := range known {
		if r.Whole && !named[w.KeyID] && w.Good(r.At) && w.Seen.Before(r.At) {
			w.Until = r.At
			changed = append(changed, w)
		}
	}
	if added > 0 && len(known)+added > maxKeyWindows {
		return nil, ErrTooManyKeys
	}
	return changed, nil
}

// window returns the window of one reported key as it is after the report, and
// whether that is new.
func (r KeyReport) window(known KeyHistory, id string, key ReportedKey) (KeyWindow, bool) {
	var last KeyWindow
	for _, w := range known {
		if w.KeyID == id && !w.Since.Before(last.Since) {
			last = w
		}
	}
	over := !key.Until.IsZero() && !r.At.Before(key.Until)
	switch {
	case last.KeyID != "" && (r.At.Before(last.Seen) || !last.Good(r.At) && over):
		return KeyWindow{}, false // nothing that was not known
	case last.KeyID != "" && last.Good(r.At):
		last.Seen = r.At
		if !key.Until.IsZero() && (last.Until.IsZero() || key.Until.Before(last.Until)) {
			last.Until = key.Until
		}
		return last, true
	}
	return KeyWindow{
		DID: r.DID, Public: bytes.Clone(key.Public), KeyID: id, Origin: r.Origin, Via: r.Via,
		Since: r.At, Seen: r.At, Until: key.Until,
	}, true
}

// KeyHistory is the windows of one DID, oldest first.
type KeyHistory []KeyWindow

// Source returns which source named a key of the DID: "did:" and the method for its own
// document, else the origin and the source's name. It is "" for an unknown key.
func (h KeyHistory) Source(keyID string) string {
	i := slices.IndexFunc(h, func(w KeyWindow) bool { return w.KeyID == keyID && w.Origin != RevokedKey })
	switch {
	case i < 0:
		return ""
	case h[i].Origin == DocumentKey:
		return "did:" + h[i].DID.Method()
	}
	return string(h[i].Origin) + " " + h[i].Via
}

// KeyStanding is what a history says about one key at one time.
type KeyStanding int

// The standings.
const (
	KeyUnknown KeyStanding = iota // no source named it
	KeyGood                       // it signed for the DID
	KeyEnded                      // it had, and did not any more
)

// Standing returns how a key stood when a step was received. The caller says which windows
// count: the history does not decide which sources to trust.
//
// The first window of a source has no beginning, because a step may arrive before its key. A
// later window has one: between two windows the key had ended.
func (h KeyHistory) Standing(keyID string, received time.Time, counts func(KeyWindow) bool) KeyStanding {
	type source struct {
		origin KeyOrigin
		via    string
	}
	standing, begun := KeyUnknown, map[source]bool{}
	for _, w := range h {
		switch {
		case w.KeyID != keyID:
			continue
		case w.Origin == RevokedKey:
			if !received.Before(w.Since) {
				return KeyEnded
			}
			continue
		case !counts(w):
			continue
		}
		from := source{w.Origin, w.Via}
		first := !begun[from]
		begun[from] = true
		switch {
		case w.Good(received) && (first || !received.Before(w.Since)):
			standing = KeyGood
		case standing == KeyUnknown:
			standing = KeyEnded
		}
	}
	return standing
}

// Keys remembers which keys signed for which DID, in which time, and from which source, so
// that a step is always judged by the keys of its time. Nothing is deleted, except the future
// ends of a network's own keys. [store.Record] documents the methods.
type Keys interface {
	// Learn keeps what a source said (see [KeyReport.Apply]). A report that brings
	// nothing new changes nothing. It returns [ErrTooManyKeys] and keeps nothing of a
	// report that brings too much.
	Learn(ctx context.Context, report KeyReport) error
	// Revoke ends a key of a DID for good. The key signs for the DID no more from then on. Of
	// two times the earlier counts.
	Revoke(ctx context.Context, did DID, keyID string, at time.Time) error
	// History returns all that is kept of a DID, by the beginning of the windows;
	// nothing for a DID of which nothing is.
	History(ctx context.Context, did DID) (KeyHistory, error)
}
