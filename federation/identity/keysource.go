package identity

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// KeyRecord is the required part of the record.
type KeyRecord interface {
	federation.Keys
	// KeyOwner returns [federation.ErrNotFound] for an unknown key.
	KeyOwner(ctx context.Context, keyID string) (federation.DID, error)
}

// Refresher is a directory with a cache, such as a [*Directory].
type Refresher interface {
	federation.Directory
	// Refresh bypasses the cache of Resolve, as often as the directory allows.
	Refresh(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error)
	// Offline returns the cached part. Its methods return an error wrapping [ErrNotCached] instead of
	// sending a request.
	Offline() Refresher
}

// KeySourceConfig configures a [KeySource].
type KeySourceConfig struct {
	Negative time.Duration // minimum interval of requests for an unknown key ID
	Stale    time.Duration // lifetime of a key while its document is unavailable
	// Peer returns the address of a link's key server without a path. It may be nil.
	Peer func(link string) (address string, ok bool)
	// Learned is called if a source listed a new key for a DID. It must not block, and may be nil.
	Learned func(did federation.DID)
	// Ours reports whether this gateway keeps a DID's key. Other keys of the DID are not requested from
	// peers. It may be nil.
	Ours func(ctx context.Context, did federation.DID) bool
	// Shared is true if other replicas change the recorded keys.
	Shared bool
}

// KeySource implements [federation.KeySource]. It joins the keys in a DID document with keys registered
// by the owner, stored by an AIRC registry, or served by the server behind a link. It records their
// times and sources.
//
// Histories are cached unless the record is shared. After any other change of a recorded key, call
// [KeySource.Forget].
type KeySource struct {
	cfg       KeySourceConfig
	directory Refresher
	fetcher   Fetcher
	record    KeyRecord
	histories *histories
	misses    *misses
	offline   bool // see [KeySource.Cached]
}

// NewKeySource returns a key source for a directory and a record.
func NewKeySource(cfg KeySourceConfig, directory Refresher, fetcher Fetcher, record KeyRecord) *KeySource {
	return &KeySource{
		cfg: cfg, directory: directory, fetcher: fetcher, record: record,
		histories: newHistories(record, cfg.Shared), misses: newMisses(cfg.Negative),
	}
}

// KeyOwner implements [federation.KeySource].
func (s *KeySource) KeyOwner(ctx context.Context, keyID string) (federation.DID, error) {
	return s.record.KeyOwner(ctx, keyID)
}

// Keys implements [federation.KeySource]. For an unknown key ID, it fetches the document again and
// queries the server behind the link. An invalid signature of a known key causes no request.
func (s *KeySource) Keys(ctx context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	now := time.Now()
	document, err := s.directory.Resolve(ctx, q.DID, now)
	if errors.Is(err, ErrNotCached) {
		return nil, err
	}
	found, recordErr := s.weigh(ctx, q, document, err)
	if recordErr != nil {
		return nil, recordErr
	}
	if q.KeyID == "" || found.standing != federation.KeyUnknown || s.misses.has(q, now) {
		return found.result()
	}
	if err != nil || document.Fetched.Before(now) { // cached
		document, err = s.directory.Refresh(ctx, q.DID, now)
	}
	if errors.Is(err, ErrNotCached) {
		return nil, err
	}
	peerErr := s.askPeer(ctx, q, document, now)
	if errors.Is(peerErr, ErrNotCached) {
		return nil, peerErr
	}
	if found, recordErr = s.weigh(ctx, q, document, err); recordErr != nil {
		return nil, recordErr
	}
	found.err = cmp.Or(found.err, peerErr)
	asked := err != nil || !document.Fetched.Before(now) // fetched for this query
	if _, away := errors.AsType[*federation.UnavailableError](found.err); found.standing == federation.KeyUnknown && !away && asked {
		s.misses.add(q, now)
	}
	return found.result()
}

// Learn records a report, with the errors of [federation.Keys.Learn].
func (s *KeySource) Learn(ctx context.Context, report federation.KeyReport) error {
	history, err := s.histories.of(ctx, report.DID)
	if err != nil {
		return err
	}
	if err := s.histories.change(report.DID, func() error { return s.record.Learn(ctx, report) }); err != nil {
		return err
	}
	if s.cfg.Learned != nil && bringsKey(report, history) {
		s.cfg.Learned(report.DID)
	}
	return nil
}

// The key is new if no other source listed it at that time.
func bringsKey(report federation.KeyReport, history federation.KeyHistory) bool {
	return slices.ContainsFunc(report.Keys, func(key federation.ReportedKey) bool {
		id := federation.KeyID(key.Public)
		return !slices.ContainsFunc(history, func(w federation.KeyWindow) bool { return w.KeyID == id && w.Good(report.At) })
	})
}

// Revoke ends a key permanently, see [federation.Keys.Revoke].
func (s *KeySource) Revoke(ctx context.Context, did federation.DID, keyID string, at time.Time) error {
	return s.histories.change(did, func() error { return s.record.Revoke(ctx, did, keyID, at) })
}

// Forget drops the cached history of a DID, after a change of the record by another program.
func (s *KeySource) Forget(did federation.DID) {
	_ = s.histories.change(did, func() error { return nil })
}

type evidence struct {
	keys     []ed25519.PublicKey
	standing federation.KeyStanding
	err      error // of an unresponsive source
}

// A key is unknown only after all sources have answered.
func (e evidence) result() ([]ed25519.PublicKey, error) {
	switch {
	case e.standing == federation.KeyEnded:
		return nil, federation.ErrKeyEnded
	case e.standing == federation.KeyUnknown && e.err != nil:
		return nil, e.err
	}
	return e.keys, nil
}

// weigh returns record errors.
func (s *KeySource) weigh(ctx context.Context, q federation.KeyQuery, document federation.Document, absent error) (evidence, error) {
	history, err := s.histories.of(ctx, q.DID)
	if err != nil {
		return evidence{}, fmt.Errorf("read keys of %s: %w", q.DID, err)
	}
	switch {
	case absent != nil:
	case document.Source == "" && len(history) == 0:
		return plain(q, document), nil
	case document.Source != "":
		if history, err = s.learn(ctx, q, document, history); err != nil {
			return evidence{}, fmt.Errorf("keep keys of %s: %w", q.DID, err)
		}
	}
	if absent == nil {
		history = append(slices.Clip(history), unrecorded(document, history)...)
	}
	return s.evaluate(q, history, absent), nil
}

// Statements are recorded about known keys, and about keys that can have made the signature. From a
// large document, only the signing keys are thus recorded.
func (s *KeySource) learn(ctx context.Context, q federation.KeyQuery, document federation.Document, history federation.KeyHistory) (federation.KeyHistory, error) {
	listed := document.Keys
	document.Keys = slices.DeleteFunc(slices.Clone(listed), func(key ed25519.PublicKey) bool {
		id := federation.KeyID(key)
		return q.KeyID != "" && q.KeyID != id && !slices.ContainsFunc(history, from(document, id))
	})
	if !news(document, history) {
		return history, nil
	}
	if err := s.Learn(ctx, reported(document)); err != nil {
		return nil, err
	}
	return s.histories.of(ctx, q.DID)
}

func from(document federation.Document, keyID string) func(federation.KeyWindow) bool {
	return func(w federation.KeyWindow) bool {
		return w.KeyID == keyID && w.Origin == federation.DocumentKey && w.Via == document.Source
	}
}

// plain applies in the usual case that no other source has keys.
func plain(q federation.KeyQuery, document federation.Document) evidence {
	found := evidence{keys: document.Keys}
	for _, key := range document.Keys {
		if q.KeyID == "" || q.KeyID == federation.KeyID(key) {
			found.standing = federation.KeyGood
		}
	}
	return found
}

func (s *KeySource) evaluate(q federation.KeyQuery, history federation.KeyHistory, absent error) evidence {
	_, away := errors.AsType[*federation.UnavailableError](absent)
	counts := func(w federation.KeyWindow) bool {
		switch w.Origin {
		case federation.PeerKey:
			return w.Via == q.Link
		case federation.DocumentKey:
			trusted := w.Seen
			if away {
				trusted = trusted.Add(s.cfg.Stale)
			}
			return absent == nil || !w.Until.IsZero() || !q.Received.After(trusted)
		case federation.ClientKey, federation.NetworkKey:
			return true
		case federation.RevokedKey:
		}
		return false
	}
	found, asked := evidence{err: absent}, map[string]bool{}
	for _, w := range history {
		if asked[w.KeyID] || len(w.Public) == 0 {
			continue
		}
		asked[w.KeyID] = true
		standing := history.Standing(w.KeyID, q.Received, counts)
		if standing == federation.KeyGood {
			found.keys = append(found.keys, w.Public)
			found.standing = standing
		}
	}
	if q.KeyID != "" {
		found.standing = history.Standing(q.KeyID, q.Received, counts)
	}
	return found
}

func news(document federation.Document, history federation.KeyHistory) bool {
	listed := map[string]bool{}
	for _, key := range document.Keys {
		listed[federation.KeyID(key)] = true
	}
	for _, w := range history {
		if w.Origin != federation.DocumentKey || w.Via != document.Source || !w.Good(document.Fetched) {
			continue
		}
		if w.Seen.Before(document.Fetched) {
			return true
		}
		delete(listed, w.KeyID)
	}
	return len(listed) > 0
}

func reported(document federation.Document) federation.KeyReport {
	report := federation.KeyReport{
		DID: document.DID, Origin: federation.DocumentKey, Via: document.Source, Whole: true, At: document.Fetched,
	}
	for _, key := range document.Keys {
		report.Keys = append(report.Keys, federation.ReportedKey{Public: key})
	}
	return report
}

func unrecorded(document federation.Document, history federation.KeyHistory) federation.KeyHistory {
	document.Keys = slices.DeleteFunc(slices.Clone(document.Keys), func(key ed25519.PublicKey) bool {
		return slices.ContainsFunc(history, from(document, federation.KeyID(key)))
	})
	changed, _ := reported(document).Apply(nil) // one document cannot exceed the limit
	return changed
}

// Proved verifies that a DID signed a message with a key of any kind in its document, and returns the
// key. The signature is Ed25519 over the message, or ECDSA over its SHA-256 as r and s. Both equivalent
// values of s are accepted, because a login is valid only once. A revoked key proves nothing. If the
// document does not list the key, it is fetched again, within the limits of the directory. The error is
// the reason for a verdict other than [federation.Valid].
//
// spec: freeq "SASL ATPROTO-CHALLENGE"
func (s *KeySource) Proved(ctx context.Context, did federation.DID, message, signature []byte, now time.Time) (federation.PublicKey, federation.Verdict, error) {
	document, err := s.directory.Resolve(ctx, did, now)
	key, verdict, why := s.proved(ctx, document, err, message, signature, now)
	if verdict != federation.Invalid || err != nil || !document.Fetched.Before(now) {
		return key, verdict, why
	}
	document, err = s.directory.Refresh(ctx, did, now) // the owner may have replaced the key
	if key, verdict, why = s.proved(ctx, document, err, message, signature, now); verdict != federation.Invalid || err != nil {
		return key, verdict, why
	}
	if document.Fetched.Add(refetchEvery).Before(now) { // its host does not answer now
		return federation.PublicKey{}, federation.Unverifiable, unavailable(string(did), awayFor, errNotRefetched)
	}
	return federation.PublicKey{}, federation.Invalid, why
}

var errNotRefetched = errors.New("its document cannot be fetched again now")

// A missing document has a reason.
func (s *KeySource) proved(
	ctx context.Context, document federation.Document, absent error, message, signature []byte, now time.Time,
) (key federation.PublicKey, verdict federation.Verdict, err error) {
	_, away := errors.AsType[*federation.UnavailableError](absent)
	switch {
	case errors.Is(absent, ErrRedirect): // the redirect may be a temporary mistake
		return key, federation.Invalid, absent
	case away:
		return key, federation.Unverifiable, absent
	case errors.Is(absent, ErrNotAllowed):
		return key, federation.Invalid, ErrNotAllowed // do not reveal addresses in this network
	case absent != nil: // the DID does not exist, or its document is unreadable
		return key, federation.Invalid, absent
	}
	listed := slices.Clone(document.Others)
	for _, key := range document.Keys {
		listed = append(listed, federation.PublicKey{Kind: federation.Ed25519, Bytes: key})
	}
	signer := slices.IndexFunc(listed, func(key federation.PublicKey) bool { return Signed(key, message, signature) })
	if signer < 0 {
		return key, federation.Invalid, skipped(document)
	}
	revoked, err := s.Revoked(ctx, document.DID, federation.KeyID(listed[signer].Bytes), now)
	switch {
	case err != nil:
		return key, federation.Unverifiable, err
	case revoked:
		return key, federation.Invalid, errors.New("this key was revoked")
	}
	return listed[signer], federation.Valid, nil
}

func skipped(document federation.Document) error {
	if len(document.Skipped) == 0 {
		return nil
	}
	first := document.Skipped[0]
	return fmt.Errorf("unusable keys in its document: %d, such as %s: %s", len(document.Skipped), cmp.Or(first.ID, "one without an id"), first.Reason)
}

// Revoked reports whether a DID's key was revoked at the given time. It returns record errors.
func (s *KeySource) Revoked(ctx context.Context, did federation.DID, keyID string, at time.Time) (bool, error) {
	history, err := s.histories.of(ctx, did)
	if err != nil {
		return false, fmt.Errorf("read keys of %s: %w", did, err)
	}
	none := func(federation.KeyWindow) bool { return false }
	return history.Standing(keyID, at, none) == federation.KeyEnded, nil
}
