package federation

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"time"
)

// ErrKeyEnded is returned by [KeySource.Keys] if the key had ended when the step was received.
var ErrKeyEnded = errors.New("federation: the key was revoked")

// KeyID names a public key: the first 16 bytes of its SHA-256 in base64url without padding.
//
// spec: handofftag "Canonical document"
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Document contains the members of a DID document that Baton uses.
type Document struct {
	DID     DID
	Keys    []ed25519.PublicKey
	Others  []PublicKey // kinds that sign no steps
	Mailbox string      // address of the mailbox home, or ""
	Source  string      // "" if nothing was fetched
	Fetched time.Time
	Skipped []SkippedKey
}

// KeyIDs returns the [KeyID] of each key that may sign or log in.
func (d Document) KeyIDs() []string {
	var ids []string
	for _, key := range d.Keys {
		ids = append(ids, KeyID(key))
	}
	for _, key := range d.Others {
		ids = append(ids, KeyID(key.Bytes))
	}
	return ids
}

// SkippedKey is an unusable key of a document.
type SkippedKey struct{ ID, Reason string }

// KeyKind is the algorithm of a public key.
type KeyKind string

// The kinds of keys in a did:key. Only Ed25519 keys sign steps.
const (
	Ed25519   KeyKind = "ed25519"
	P256      KeyKind = "p256"
	Secp256k1 KeyKind = "secp256k1"
)

// PublicKey is a key of any kind: 32 bytes for Ed25519, otherwise a compressed point (33 bytes).
type PublicKey struct {
	Kind  KeyKind
	Bytes []byte
}

// Directory resolves DIDs.
type Directory interface {
	// Resolve returns an error wrapping [*UnavailableError] if a retry may help, and any other error if
	// the DID has no document. It may block on the network, at most for the fetch timeout.
	Resolve(ctx context.Context, did DID, now time.Time) (Document, error)
}

// KeySource finds signing keys.
type KeySource interface {
	// Keys returns the keys that were valid for the DID when the step was received. It returns
	// [ErrKeyEnded] if the signature names an ended key, otherwise the errors of [Directory.Resolve].
	// It may block like Resolve.
	Keys(ctx context.Context, q KeyQuery) ([]ed25519.PublicKey, error)
	// KeyOwner returns the DID of a [KeyID], or [ErrNotFound].
	KeyOwner(ctx context.Context, keyID string) (DID, error)
}

// KeyQuery selects candidate keys for one signature.
type KeyQuery struct {
	DID      DID
	KeyID    string
	Link     string
	Name     string // of the signer: lookups are limited per link and name
	Received time.Time
}

// SigningKey is a private key of this gateway.
type SigningKey struct {
	Public ed25519.PublicKey
	DID    DID // did:key of the key, or the DID of the home
	// Sign returns 64 bytes of Ed25519.
	Sign func(ctx context.Context, message []byte) ([]byte, error)
}

// KeyOrigin is the kind of source that listed a key.
type KeyOrigin string

// The origins, each with the trusted party.
const (
	DocumentKey KeyOrigin = "document" // the owner, in the DID document
	ClientKey   KeyOrigin = "msgsig"   // the owner, over an authenticated connection
	PeerKey     KeyOrigin = "peer"     // the key server of a peer: only for steps from that peer
	NetworkKey  KeyOrigin = "network"  // the agent registry of the DID
	// RevokedKey marks a permanently revoked key. It is not a source.
	RevokedKey KeyOrigin = "revoked"
)

// KeyWindow is a period in which a key signs for a DID according to one source. If the source lists the
// key again later, it gets a new window.
type KeyWindow struct {
	DID    DID               `json:"did"`
	Public ed25519.PublicKey `json:"public"` // empty for a [RevokedKey] known only by ID
	KeyID  string            `json:"key_id"`
	Origin KeyOrigin         `json:"origin"`
	Via    string            `json:"via"` // address, or name of the link
	Since  time.Time         `json:"since"`
	Seen   time.Time         `json:"seen"`           // last report by the source
	Until  time.Time         `json:"until,omitzero"` // zero for no end
}

// Good reports whether the window has not ended at the given time. See [KeyHistory.Standing] for times
// before it began.
func (w KeyWindow) Good(at time.Time) bool { return w.Until.IsZero() || at.Before(w.Until) }

// KeyReport is one source's statement about the keys of a DID.
type KeyReport struct {
	DID    DID
	Origin KeyOrigin
	Via    string
	Keys   []ReportedKey
	// Whole is true if the source listed all signing keys. Missing keys end at this time.
	Whole bool
	At    time.Time
}

// ReportedKey is a key listed by a source.
type ReportedKey struct {
	Public ed25519.PublicKey
	Until  time.Time
}

// This allows a rotation per day for most of a year.
const maxKeyWindows = 256

// ErrTooManyKeys is returned by [Keys.Learn] if one source reports too many keys for one DID.
var ErrTooManyKeys = errors.New("federation: too many keys from one source")

// Apply returns the windows that a report changes or adds. It returns [ErrTooManyKeys] at the limit. It
// never deletes a window or postpones its end. A report that is older than the last one of its source
// ends no window.
func (r KeyReport) Apply(kept KeyHistory) (changed KeyHistory, err error) {
	var known KeyHistory
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
		return KeyWindow{}, false
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

// KeyHistory contains the windows of one DID, oldest first.
type KeyHistory []KeyWindow

// Source returns the source of a key: "did:" and the method for the document of the DID, otherwise the
// origin and name of the source. It returns "" for an unknown key.
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

// KeyStanding is the standing of a key at one time.
type KeyStanding int

// The standings.
const (
	KeyUnknown KeyStanding = iota
	KeyGood
	KeyEnded
)

// Standing returns the standing of a key when a step was received. The caller selects the trusted
// windows. The first window of a source has no beginning, because a step may arrive before its key. The
// key counts as ended between two windows.
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

// Keys stores the keys of each DID with their times and sources. [store.Record] documents the methods.
type Keys interface {
	// Learn stores a report (see [KeyReport.Apply]), or returns [ErrTooManyKeys] and stores nothing.
	Learn(ctx context.Context, report KeyReport) error
	// Revoke ends a key permanently. The earliest time counts.
	Revoke(ctx context.Context, did DID, keyID string, at time.Time) error
	// History returns the history of a DID, or an empty one for an unknown DID.
	History(ctx context.Context, did DID) (KeyHistory, error)
}

// OwnKey is the public part of a signing key of this gateway.
type OwnKey struct {
	Public  ed25519.PublicKey
	Since   time.Time // zero if kept by an external program
	Retired time.Time // zero while it signs
	Until   time.Time // when signatures of a retired key become invalid
}

// State returns "active", "retiring" until the end of the overlap, or "retired".
func (k OwnKey) State(now time.Time) string {
	switch {
	case k.Retired.IsZero():
		return "active"
	case now.Before(k.Until):
		return "retiring"
	}
	return "retired"
}

// KeyMark identifies a key or secret of this gateway by a fingerprint that reveals nothing about it.
type KeyMark struct {
	Name        string // of its file
	Fingerprint string
	Since       time.Time // first use for the record
}
