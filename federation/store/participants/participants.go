// Package participants stores the data of the people and agents behind links in the record:
// bindings of DIDs to names, key histories, sessions, declared capabilities and answers to repeated
// requests.
package participants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// Participants are the participants of one record, safe for concurrent use.
type Participants struct {
	db       *engine.DB
	bound    engine.Cache[boundKey, federation.BoundName]
	boundTo  engine.Cache[federation.DID, []federation.BoundName]
	bindings engine.Cache[federation.DID, federation.Binding]
	declared engine.Cache[federation.DID, federation.Declaration]
}

// New returns the participants in a database.
func New(db *engine.DB) *Participants {
	s := &Participants{db: db}
	s.bound.Attach(db)
	s.boundTo.Attach(db)
	s.bindings.Attach(db)
	s.declared.Attach(db)
	return s
}

const answerColumns = `did, key, digest, event, status, body, at`

func scanAnswer(row engine.Scanner) (a federation.Answer, err error) {
	var digest []byte
	var event string
	var at int64
	if err := row.Scan(&a.DID, &a.Key, &digest, &event, &a.Status, &a.Body, &at); err != nil {
		return federation.Answer{}, err
	}
	copy(a.Digest[:], digest)
	a.At = engine.Moment(at)
	return a, a.Event.UnmarshalText([]byte(event))
}

// Reserve stores an answer unless there is one with its key, and returns the stored answer.
func (s *Participants) Reserve(ctx context.Context, a federation.Answer) (federation.Answer, error) {
	found, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) ([]federation.Answer, error) {
		err := q.Put(ctx, `INSERT INTO answer (`+answerColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (did, key) DO NOTHING`,
			a.DID, a.Key, a.Digest[:], a.Event.String(), a.Status, a.Body, engine.Stamp(a.At))
		if err != nil {
			return nil, err
		}
		return engine.Rows(ctx, q, scanAnswer, `SELECT `+answerColumns+` FROM answer WHERE did = ? AND key = ?`, a.DID, a.Key)
	})
	if err == nil && len(found) != 1 {
		err = errors.New("it is not there")
	}
	if err != nil {
		return federation.Answer{}, fmt.Errorf("reserve answer: %w", err)
	}
	return found[0], nil
}

// Answered stores an answer, and replaces an earlier one with the same DID and key.
func (s *Participants) Answered(ctx context.Context, a federation.Answer) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO answer (`+answerColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (did, key) DO UPDATE SET digest = excluded.digest, event = excluded.event, status = excluded.status, body = excluded.body, at = excluded.at`,
			a.DID, a.Key, a.Digest[:], a.Event.String(), a.Status, a.Body, engine.Stamp(a.At))
	})
	if err != nil {
		return fmt.Errorf("file answer: %w", err)
	}
	return nil
}

// PruneAnswers deletes up to limit answers stored at or before a given time.
func (s *Participants) PruneAnswers(ctx context.Context, before time.Time, limit int) (int, error) {
	gone, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int64, error) {
		return q.Exec(ctx, `DELETE FROM answer WHERE (did, key) IN (SELECT did, key FROM answer WHERE at <= ? ORDER BY at`+engine.AtMost+`)`, engine.Stamp(before), max(limit, 0))
	})
	if err != nil {
		return 0, fmt.Errorf("prune answers: %w", err)
	}
	return int(gone), nil
}

const declarationColumns = `did, name, description, caps, at`

func scanDeclaration(row engine.Scanner) (d federation.Declaration, err error) {
	var caps string
	var at int64
	if err := row.Scan(&d.DID, &d.Name, &d.Description, &caps, &at); err != nil {
		return federation.Declaration{}, err
	}
	d.At = engine.Moment(at)
	return d, federation.DecodeJSON([]byte(caps), &d.Caps)
}

// Declare replaces the declaration of a DID. It returns [federation.ErrTaken] for a name used by
// another DID, or as the handle of another agent.
func (s *Participants) Declare(ctx context.Context, d federation.Declaration) error {
	caps, err := json.Marshal(d.Caps)
	if err == nil {
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
			q.Then(s.declared.ForgetAll)
			if err := claimName(ctx, q, d); err != nil {
				return err
			}
			return q.Put(ctx, `INSERT INTO declaration (`+declarationColumns+`) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT (did) DO UPDATE SET name = excluded.name, description = excluded.description, caps = excluded.caps, at = excluded.at`,
				d.DID, d.Name, d.Description, string(caps), engine.Stamp(d.At))
		})
	}
	if err != nil {
		return fmt.Errorf("declare for %s: %w", d.DID, err)
	}
	return nil
}

func claimName(ctx context.Context, q engine.Tx, d federation.Declaration) error {
	if d.Name == "" {
		return nil
	}
	var registered bool
	err := q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM agent WHERE handle = ?1 AND released = 0 AND did <> ?2 AND own_did <> ?2
		AND handle NOT IN (SELECT handle FROM agent_key WHERE did = ?2))`, []any{d.Name, d.DID}, &registered)
	if err == nil && registered {
		err = federation.ErrTaken
	}
	if err != nil {
		return err
	}
	holder, err := HolderOf(ctx, q, d.Name, d.At)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return q.Put(ctx, `UPDATE declaration SET name = '' WHERE name = ? AND name <> ''`, d.Name)
	case err == nil && holder != d.DID:
		return federation.ErrTaken
	}
	return err
}

// HolderOf returns the DID that uses a declared name, or [federation.ErrNotFound].
func HolderOf(ctx context.Context, q engine.Tx, name string, now time.Time) (did federation.DID, err error) {
	err = q.Row(ctx, `SELECT d.did FROM declaration d WHERE d.name = ?1 AND d.name <> '' AND (d.at > ?2
		OR EXISTS (SELECT 1 FROM login l WHERE l.did = d.did AND l.at > ?2)
		OR EXISTS (SELECT 1 FROM session s WHERE s.participant = d.did AND s.used > ?2)
		OR EXISTS (SELECT 1 FROM binding b WHERE b.did = d.did AND b.seen > ?2)
		OR EXISTS (SELECT 1 FROM bound_name n WHERE n.did = d.did))`, []any{name, engine.Stamp(now.Add(-federation.NameKept))}, &did)
	return did, err
}

// NameHolder is [HolderOf] outside a transaction.
func (s *Participants) NameHolder(ctx context.Context, name string, now time.Time) (federation.DID, error) {
	did, err := HolderOf(ctx, s.db.Reads(), name, now)
	if err != nil {
		return "", fmt.Errorf("look up name %q: %w", name, err)
	}
	return did, nil
}

// DeclaredNames returns up to limit declarations whose names begin with a prefix, ordered by name.
func (s *Participants) DeclaredNames(ctx context.Context, prefix string, limit int) ([]federation.Declaration, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanDeclaration, `SELECT `+declarationColumns+` FROM declaration
		WHERE name <> '' AND name >= ?1 AND name < ?1 || '~' ORDER BY name`+engine.AtMost, prefix, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("list names: %w", err)
	}
	return found, nil
}

// Declaration returns the declaration of a DID, or the zero Declaration.
func (s *Participants) Declaration(ctx context.Context, did federation.DID) (federation.Declaration, error) {
	return s.declared.Find(did, func() (federation.Declaration, error) {
		found, err := engine.Rows(ctx, s.db.Reads(), scanDeclaration, `SELECT `+declarationColumns+` FROM declaration WHERE did = ?`, did)
		if err != nil {
			return federation.Declaration{}, fmt.Errorf("read declaration of %s: %w", did, err)
		}
		return append(found, federation.Declaration{})[0], nil
	})
}

// ForgetDeclarations clears the cache of declarations after a change of the table.
func (s *Participants) ForgetDeclarations() { s.declared.ForgetAll() }

// A prefix of this length has 50 bits, so that two DIDs do not share it by chance. A shared prefix
// names neither DID.
const minHashPrefix = 10

const bindingColumns = `did, network, link, name, first, key, seen`

func scanBinding(row engine.Scanner) (federation.Binding, error) {
	var b federation.Binding
	var seen int64
	err := row.Scan(&b.DID, &b.Network, &b.Link, &b.Name, &b.First, &b.Key, &seen)
	b.Seen = engine.Moment(seen)
	return b, err
}

// Binding returns [federation.ErrNotFound] for a DID without a filed step.
func (s *Participants) Binding(ctx context.Context, did federation.DID) (federation.Binding, error) {
	return s.bindings.Find(did, func() (federation.Binding, error) {
		return s.oneBinding(ctx, `SELECT `+bindingColumns+` FROM binding WHERE did = ?`, string(did))
	})
}

// BindingByHash finds a DID by at least ten first characters of its [federation.DID.Hash]. It
// returns [federation.ErrNotFound] if none or more than one DID matches.
func (s *Participants) BindingByHash(ctx context.Context, prefix string) (federation.Binding, error) {
	if len(prefix) < minHashPrefix {
		return federation.Binding{}, fmt.Errorf("look up hash %q: %w", prefix, federation.ErrNotFound)
	}
	// A hash is lower-case base32, and "~" sorts after all its characters.
	return s.oneBinding(ctx, `SELECT `+bindingColumns+` FROM binding
		WHERE hash >= ?1 AND hash < ?1 || '~' LIMIT 2`, prefix)
}

func (s *Participants) oneBinding(ctx context.Context, query, arg string) (federation.Binding, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanBinding, query, arg)
	if err == nil && len(found) != 1 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return federation.Binding{}, fmt.Errorf("read binding %s: %w", arg, err)
	}
	return found[0], nil
}

// KeyOwner returns the DID of the key with this [federation.KeyID], or [federation.ErrNotFound].
// The key belongs to the signer of a filed step, is in the tables of a network, or is kept for the
// DID.
func (s *Participants) KeyOwner(ctx context.Context, keyID string) (federation.DID, error) {
	did, err := s.db.KeyOwners.Find(keyID, func() (did federation.DID, err error) {
		err = s.db.Reads().Row(ctx, `SELECT did FROM key_owner WHERE key_id = ?`, []any{keyID}, &did)
		return did, err
	})
	if err != nil {
		return "", fmt.Errorf("look up key %s: %w", keyID, err)
	}
	return did, nil
}

// The row is written at most once per minute, so the time of a binding may lag behind the newest
// step.
const bindingAge = time.Minute

// HasBinding reports whether the cache has a binding, with a time at most a minute older.
func (s *Participants) HasBinding(b federation.Binding) bool {
	kept, known := s.bindings.Peek(b.DID)
	return known && kept.Network == b.Network && kept.Link == b.Link && kept.Name == b.Name &&
		(len(b.Key) == 0 || bytes.Equal(b.Key, kept.Key)) && b.Seen.Sub(kept.Seen) < bindingAge
}

// KeepBinding stores the newest data except the first name. A step without a key does not change
// the last verified key.
func (s *Participants) KeepBinding(ctx context.Context, q engine.Tx, b federation.Binding) error {
	q.Then(func() { s.bindings.Forget(b.DID) })
	err := q.Put(ctx, `INSERT INTO binding (did, hash, network, link, name, first, key, seen)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (did) DO UPDATE SET network = excluded.network, link = excluded.link, name = excluded.name,
			key = CASE length(excluded.key) WHEN 0 THEN binding.key ELSE excluded.key END, seen = excluded.seen`,
		b.DID, b.DID.Hash(), b.Network, b.Link, b.Name, b.First, engine.NotNull(b.Key), engine.Stamp(b.Seen))
	if err != nil {
		return fmt.Errorf("write binding: %w", err)
	}
	return nil
}

// KeepKey permanently records the owner of a kept key. The owner replaces the key's own DID, which
// an earlier step may have recorded.
func KeepKey(ctx context.Context, q engine.Tx, kept federation.KeptKey) error {
	err := q.Put(ctx, `INSERT INTO key_owner (key_id, did) VALUES (?, ?)
		ON CONFLICT (key_id) DO UPDATE SET did = excluded.did WHERE key_owner.did <> excluded.did`, kept.ID, kept.Owner)
	if err != nil {
		return fmt.Errorf("write key owner: %w", err)
	}
	return nil
}

// OwnKey records the owner of a key. The first owner keeps it, so that no DID becomes the owner by
// listing the key of another DID.
func OwnKey(ctx context.Context, q engine.Tx, key federation.KeptKey) error {
	err := q.Put(ctx, `INSERT INTO key_owner (key_id, did) VALUES (?, ?) ON CONFLICT DO NOTHING`, key.ID, key.Owner)
	if err != nil {
		return fmt.Errorf("write key owner: %w", err)
	}
	return nil
}

const boundNameColumns = `network, name, did, vouch, since`

func scanBoundName(row engine.Scanner) (federation.BoundName, error) {
	var b federation.BoundName
	var since int64
	err := row.Scan(&b.Network, &b.Name, &b.DID, &b.Vouch, &since)
	b.Since = engine.Moment(since)
	return b, err
}

// BindName stores a binding. It returns [federation.ErrTaken] for a name bound to another DID. A
// repeated binding changes only Vouch.
func (s *Participants) BindName(ctx context.Context, b federation.BoundName) error {
	err := s.changeNames(ctx, func(ctx context.Context, q engine.Tx) error {
		var kept int
		err := q.Row(ctx, `INSERT INTO bound_name (`+boundNameColumns+`) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (network, name) DO UPDATE SET vouch = excluded.vouch WHERE bound_name.did = excluded.did RETURNING 1`,
			[]any{b.Network, b.Name, b.DID, b.Vouch, engine.Stamp(b.Since)}, &kept)
		if errors.Is(err, federation.ErrNotFound) {
			return federation.ErrTaken
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("bind %s on %s: %w", b.Name, b.Network, err)
	}
	return nil
}

// UnbindName deletes a binding, or returns [federation.ErrNotFound].
func (s *Participants) UnbindName(ctx context.Context, network, name string) error {
	err := s.changeNames(ctx, func(ctx context.Context, q engine.Tx) error {
		n, err := q.Exec(ctx, `DELETE FROM bound_name WHERE network = ? AND name = ?`, network, name)
		if err == nil && n == 0 {
			return federation.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("unbind %s on %s: %w", name, network, err)
	}
	return nil
}

type boundKey struct{ network, name string }

// BoundName returns a binding, or [federation.ErrNotFound].
func (s *Participants) BoundName(ctx context.Context, network, name string) (federation.BoundName, error) {
	return s.bound.Find(boundKey{network, name}, func() (federation.BoundName, error) {
		found, err := engine.Rows(ctx, s.db.Reads(), scanBoundName, `SELECT `+boundNameColumns+` FROM bound_name
			WHERE network = ? AND name = ?`, network, name)
		if err == nil && len(found) == 0 {
			err = federation.ErrNotFound
		}
		if err != nil {
			return federation.BoundName{}, fmt.Errorf("look up %s on %s: %w", name, network, err)
		}
		return found[0], nil
	})
}

// BoundNames returns up to limit bindings after a name, or from the start, ordered by network and
// name.
func (s *Participants) BoundNames(ctx context.Context, network, name string, limit int) ([]federation.BoundName, error) {
	bound, err := engine.Rows(ctx, s.db.Reads(), scanBoundName, `SELECT `+boundNameColumns+` FROM bound_name
		WHERE (network, name) > (?, ?) ORDER BY network, name`+engine.AtMost, network, name, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read bound names: %w", err)
	}
	return bound, nil
}

// NamesOf returns the bindings of a DID, ordered by network and name.
func (s *Participants) NamesOf(ctx context.Context, did federation.DID) ([]federation.BoundName, error) {
	return s.boundTo.Find(did, func() ([]federation.BoundName, error) {
		bound, err := engine.Rows(ctx, s.db.Reads(), scanBoundName, `SELECT `+boundNameColumns+` FROM bound_name
			WHERE did = ? ORDER BY network, name`, did)
		if err != nil {
			return nil, fmt.Errorf("read names of %s: %w", did, err)
		}
		return bound, nil
	})
}

// Completes even if the caller's context ends. A caller with a cache of names must invalidate it
// after the change, not before.
func (s *Participants) changeNames(ctx context.Context, apply func(context.Context, engine.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.db.Write(context.WithoutCancel(ctx), func(ctx context.Context, q engine.Tx) error {
		q.Then(s.bound.ForgetAll)
		q.Then(s.boundTo.ForgetAll)
		return apply(ctx, q)
	})
}

// Learn implements [federation.Keys].
func (s *Participants) Learn(ctx context.Context, report federation.KeyReport) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		kept, err := history(ctx, q, report.DID)
		if err != nil {
			return err
		}
		changed, err := report.Apply(kept)
		if err != nil {
			return err
		}
		for _, w := range changed {
			if err := PutWindow(ctx, q, w); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("learn keys of %s: %w", report.DID, err)
	}
	return nil
}

// Revoke implements [federation.Keys].
func (s *Participants) Revoke(ctx context.Context, did federation.DID, keyID string, at time.Time) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return PutWindow(ctx, q, federation.KeyWindow{
			DID: did, KeyID: keyID, Origin: federation.RevokedKey, Since: at, Seen: at,
		})
	})
	if err != nil {
		return fmt.Errorf("revoke key %s of %s: %w", keyID, did, err)
	}
	return nil
}

// History implements [federation.Keys].
func (s *Participants) History(ctx context.Context, did federation.DID) (federation.KeyHistory, error) {
	windows, err := history(ctx, s.db.Reads(), did)
	if err != nil {
		return nil, fmt.Errorf("read keys of %s: %w", did, err)
	}
	return windows, nil
}

func history(ctx context.Context, q engine.Tx, did federation.DID) (federation.KeyHistory, error) {
	return engine.Rows(ctx, q, scanWindow, `SELECT did, key_id, origin, via, since, seen, until, public FROM key_window
		WHERE did = ? ORDER BY since, key_id, origin, via`, did)
}

func scanWindow(row engine.Scanner) (federation.KeyWindow, error) {
	var w federation.KeyWindow
	var since, seen, until int64
	var public []byte
	err := row.Scan(&w.DID, &w.KeyID, &w.Origin, &w.Via, &since, &seen, &until, &public)
	w.Since, w.Seen, w.Until, w.Public = engine.Moment(since), engine.Moment(seen), engine.Moment(until), public
	return w, err
}

// PutWindow records the validity period of a key in the history of a DID. If the key is revoked, it
// also ends everything that the DID began with the key.
func PutWindow(ctx context.Context, q engine.Tx, w federation.KeyWindow) error {
	err := q.Put(ctx, `INSERT INTO key_window (did, key_id, origin, via, since, seen, until, public)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (did, key_id, origin, via, since) DO UPDATE SET seen = excluded.seen, until = excluded.until`,
		w.DID, w.KeyID, w.Origin, w.Via, engine.Stamp(w.Since), engine.Stamp(w.Seen), engine.Stamp(w.Until), engine.NotNull(w.Public))
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	if w.Origin != federation.RevokedKey {
		return nil
	}
	if err := EndKey(ctx, q, []string{string(w.DID)}, w.KeyID, w.Since, w.Seen); err != nil {
		return fmt.Errorf("end sessions of the key: %w", err)
	}
	return nil
}

// OwnKeys returns the newest mark of each name, ordered by name.
func (s *Participants) OwnKeys(ctx context.Context) ([]federation.KeyMark, error) {
	marks, err := ReadOwnKeys(ctx, s.db.Reads())
	if err != nil {
		return nil, fmt.Errorf("read own keys: %w", err)
	}
	return marks, nil
}

// ReadOwnKeys returns the keys used to write the record.
func ReadOwnKeys(ctx context.Context, q engine.Tx) ([]federation.KeyMark, error) {
	scan := func(row engine.Scanner) (m federation.KeyMark, err error) {
		var since int64
		err = row.Scan(&m.Name, &m.Fingerprint, &since)
		m.Since = engine.Moment(since)
		return m, err
	}
	return engine.Rows(ctx, q, scan, `SELECT name, fingerprint, since FROM own_key WHERE name > '' ORDER BY name`)
}

// MarkOwnKeys records the keys used to write the record from now on. An unchanged key keeps its
// time.
func (s *Participants) MarkOwnKeys(ctx context.Context, marks []federation.KeyMark) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		for _, m := range marks {
			err := q.Put(ctx, `INSERT INTO own_key (name, fingerprint, since) VALUES (?, ?, ?)
				ON CONFLICT (name) DO UPDATE SET fingerprint = excluded.fingerprint, since = excluded.since
				WHERE own_key.fingerprint <> excluded.fingerprint`, m.Name, m.Fingerprint, engine.Stamp(m.Since))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("mark own keys: %w", err)
	}
	return nil
}

// Used reports whether the record has a handoff or an agent.
func (s *Participants) Used(ctx context.Context) (bool, error) {
	var used bool
	err := s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1 FROM handoff WHERE id > '') OR `+s.db.Parts.Used, nil, &used)
	if err != nil {
		return false, fmt.Errorf("look for handoffs and participants: %w", err)
	}
	return used, nil
}
