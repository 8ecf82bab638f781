// Package operators stores what operators decide and what they view: changes and their authors,
// tokens, blocks, peer modes, newcomers, and the growth of the record.
package operators

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// Operators are the decisions of operators in one record, safe for concurrent use.
type Operators struct{ db *engine.DB }

// New returns the operators in a database.
func New(db *engine.DB) *Operators { return &Operators{db} }

// Note stores a change, and sets its ID.
func (s *Operators) Note(ctx context.Context, c federation.Change) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO audit (at, actor, what, subject, reason) VALUES (?, ?, ?, ?, ?)`,
			engine.Stamp(c.At), c.Actor, c.What, c.Subject, c.Reason)
	})
	if err != nil {
		return fmt.Errorf("record change: %w", err)
	}
	return nil
}

// Changes returns up to limit changes, newest first, before an ID (0: the start).
func (s *Operators) Changes(ctx context.Context, f federation.ChangeFilter, before int64, limit int) ([]federation.Change, error) {
	scan := func(row engine.Scanner) (c federation.Change, err error) {
		var at int64
		err = row.Scan(&c.ID, &at, &c.Actor, &c.What, &c.Subject, &c.Reason)
		c.At = engine.Moment(at)
		return c, err
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT n, at, actor, what, subject, reason FROM audit
		WHERE n > 0 AND (CAST(?1 AS bigint) = 0 OR n < ?1) AND at >= ?2 AND (?3 = '' OR actor = ?3) ORDER BY n DESC LIMIT 0 + ?4`,
		before, engine.Stamp(f.Since), f.Actor, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read changes: %w", err)
	}
	return found, nil
}

// SetPeerMode sets the mode of a peer.
func (s *Operators) SetPeerMode(ctx context.Context, m federation.PeerMode) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO peer_mode (domain, mode, since) VALUES (?, ?, ?)
			ON CONFLICT (domain) DO UPDATE SET mode = excluded.mode, since = excluded.since`, m.Domain, m.Mode, engine.Stamp(m.Since))
	})
	if err != nil {
		return fmt.Errorf("set mode of %s: %w", m.Domain, err)
	}
	return nil
}

// PeerModes returns the modes of all peers, ordered by domain.
func (s *Operators) PeerModes(ctx context.Context) ([]federation.PeerMode, error) {
	scan := func(row engine.Scanner) (m federation.PeerMode, err error) {
		var since int64
		err = row.Scan(&m.Domain, &m.Mode, &since)
		m.Since = engine.Moment(since)
		return m, err
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT domain, mode, since FROM peer_mode WHERE domain > '' ORDER BY domain`)
	if err != nil {
		return nil, fmt.Errorf("read modes of peers: %w", err)
	}
	return found, nil
}

// AddBlock stores a block, replacing one with the same subject. It deletes blocks that have ended
// when the new one begins.
func (s *Operators) AddBlock(ctx context.Context, b federation.Block) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		if err := q.Put(ctx, `DELETE FROM block WHERE expires <> 0 AND expires <= ?`, engine.Stamp(b.Since)); err != nil {
			return err
		}
		return q.Put(ctx, `INSERT INTO block (what, kind, reason, since, expires) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (what) DO UPDATE SET reason = excluded.reason, since = excluded.since, expires = excluded.expires`,
			b.What, string(b.Kind), b.Reason, engine.Stamp(b.Since), engine.Stamp(b.Expires))
	})
	if err != nil {
		return fmt.Errorf("block %s: %w", b.What, err)
	}
	return nil
}

// RemoveBlock deletes a block, or returns [federation.ErrNotFound].
func (s *Operators) RemoveBlock(ctx context.Context, what string) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		n, err := q.Exec(ctx, `DELETE FROM block WHERE what = ?`, what)
		if err == nil && n == 0 {
			return federation.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("end block of %s: %w", what, err)
	}
	return nil
}

// BlocksAfter returns up to limit blocks after a text, ordered by text, including expired ones.
func (s *Operators) BlocksAfter(ctx context.Context, what string, limit int) ([]federation.Block, error) {
	scan := func(row engine.Scanner) (b federation.Block, err error) {
		var since, expires int64
		err = row.Scan(&b.What, &b.Kind, &b.Reason, &since, &expires)
		b.Since, b.Expires = engine.Moment(since), engine.Moment(expires)
		return b, err
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT what, kind, reason, since, expires FROM block WHERE what > ? ORDER BY what`+engine.AtMost,
		what, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read blocks: %w", err)
	}
	return found, nil
}

// Meet records that a DID is known from now on; "" has no effect.
func Meet(ctx context.Context, q engine.Tx, did federation.DID, now time.Time) error {
	if did == "" {
		return nil
	}
	if err := q.Put(ctx, `INSERT INTO newcomer (did, met) VALUES (?, ?) ON CONFLICT (did) DO NOTHING`, did, engine.Stamp(now)); err != nil {
		return fmt.Errorf("note newcomer: %w", err)
	}
	return nil
}

// Meet records that a DID is known from now on. Repeated calls change nothing.
func (s *Operators) Meet(ctx context.Context, did federation.DID, now time.Time) error {
	return s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error { return Meet(ctx, q, did, now) })
}

// Acquainted reports whether a DID is in the record: as the signer of a filed step, as an agent, or
// by a name bound to it. Any sender can open an inbox for any DID, so an inbox does not count. The
// time is the first record of the DID, or zero if it is older than [federation.AcquaintanceAge].
func (s *Operators) Acquainted(ctx context.Context, did federation.DID) (met time.Time, known bool, err error) {
	var at int64
	err = s.db.Reads().Row(ctx, `SELECT coalesce((SELECT met FROM newcomer WHERE did = ?1), 0),
		EXISTS (SELECT 1 FROM newcomer WHERE did = ?1)
			OR EXISTS (SELECT 1 FROM binding WHERE did = ?1)
			OR EXISTS (SELECT 1 FROM actor WHERE did = ?1 AND signed = 1)
			OR EXISTS (SELECT 1 FROM bound_name WHERE did = ?1)
			OR `+s.db.Parts.Known, []any{did}, &at, &known)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("look up newcomer %s: %w", did, err)
	}
	return engine.Moment(at), known, nil
}

// MetSince returns up to limit DIDs first recorded after a given time, oldest first.
func (s *Operators) MetSince(ctx context.Context, since time.Time, limit int) ([]federation.Newcomer, error) {
	scan := func(row engine.Scanner) (n federation.Newcomer, err error) {
		var at int64
		err = row.Scan(&n.DID, &at)
		n.Met = engine.Moment(at)
		return n, err
	}
	met, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT did, met FROM newcomer WHERE met > ? ORDER BY met, did`+engine.AtMost, engine.Stamp(since), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read newcomers: %w", err)
	}
	return met, nil
}

// Growth measures the record and returns its growth in bytes within the last
// [federation.AcquaintanceAge]. It stores a size sample in each minute with a change, and deletes
// outdated newcomers and samples.
func (s *Operators) Growth(ctx context.Context, now time.Time) (int64, error) {
	since := now.Add(-federation.AcquaintanceAge)
	scan := func(row engine.Scanner) (sample federation.SizeSample, err error) {
		var at int64
		err = row.Scan(&at, &sample.Bytes)
		sample.At = engine.Moment(at)
		return sample, err
	}
	samples, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT at, bytes FROM size
		WHERE at >= coalesce((SELECT max(at) FROM size WHERE at <= ?), 0) AND at <= ? ORDER BY at`, engine.Stamp(since), engine.Stamp(now))
	if err != nil {
		return 0, fmt.Errorf("read sizes of the record: %w", err)
	}
	size, err := s.size(ctx)
	if err != nil {
		return 0, fmt.Errorf("measure the record: %w", err)
	}
	measured := federation.SizeSample{At: now, Bytes: size}
	if n := len(samples); n == 0 || samples[n-1].Bytes != size && now.Sub(samples[n-1].At) >= federation.SampleEvery {
		if err := s.keepSample(ctx, measured, since); err != nil {
			return 0, fmt.Errorf("keep size of the record: %w", err)
		}
	}
	return federation.GrowthSince(append(samples, measured), since), nil
}

func (s *Operators) keepSample(ctx context.Context, sample federation.SizeSample, since time.Time) error {
	return s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		err := q.Put(ctx, `DELETE FROM size WHERE at < (SELECT max(at) FROM size WHERE at <= ?) OR at > ?`, engine.Stamp(since), engine.Stamp(sample.At))
		if err == nil {
			err = q.Put(ctx, `DELETE FROM newcomer WHERE met <= ?`, engine.Stamp(since))
		}
		if err == nil {
			err = q.Put(ctx, `INSERT INTO size (at, bytes) VALUES (?, ?) ON CONFLICT (at) DO NOTHING`, engine.Stamp(sample.At), sample.Bytes)
		}
		return err
	})
}

// size returns the size of the record in bytes. For a file, it counts only used pages.
func (s *Operators) size(ctx context.Context) (bytes int64, err error) {
	query := `SELECT (c.page_count - f.freelist_count) * p.page_size FROM pragma_page_count c, pragma_freelist_count f, pragma_page_size p`
	if s.db.Reads().Dialect() == engine.InPostgres {
		query = `SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
			WHERE relkind = 'r' AND relnamespace = to_regnamespace(quote_ident(current_schema()))`
	}
	err = s.db.Reads().Row(ctx, query, nil, &bytes)
	return bytes, err
}

const admittedColumns = `name, scope, digest, created, expires`

func scanToken(row engine.Scanner) (federation.OperatorToken, error) {
	var t federation.OperatorToken
	var digest []byte
	var created, expires int64
	err := row.Scan(&t.Name, &t.Scope, &digest, &created, &expires)
	if err == nil && copy(t.Digest[:], digest) != len(t.Digest) {
		err = errors.New("a digest is cut short")
	}
	t.Created, t.Expires = engine.Moment(created), engine.Moment(expires)
	return t, err
}

// AddToken stores a token, and deletes the tokens expired at its creation. It returns
// [federation.ErrTaken] for a name already in use.
func (s *Operators) AddToken(ctx context.Context, t federation.OperatorToken) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		if err := q.Put(ctx, `DELETE FROM operator_token WHERE expires <= ?`, engine.Stamp(t.Created)); err != nil {
			return err
		}
		n, err := q.Exec(ctx, `INSERT INTO operator_token (`+admittedColumns+`) VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING`,
			t.Name, t.Scope, t.Digest[:], engine.Stamp(t.Created), engine.Stamp(t.Expires))
		if err == nil && n == 0 {
			return federation.ErrTaken
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("add token %s: %w", t.Name, err)
	}
	return nil
}

// RevokeToken deletes a token, or returns [federation.ErrNotFound].
func (s *Operators) RevokeToken(ctx context.Context, name string) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		n, err := q.Exec(ctx, `DELETE FROM operator_token WHERE name = ?`, name)
		if err == nil && n == 0 {
			return federation.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("revoke token %s: %w", name, err)
	}
	return nil
}

// Token finds a token by its digest. It returns [federation.ErrNotFound] for an unknown, revoked or
// expired token.
func (s *Operators) Token(ctx context.Context, digest [32]byte, now time.Time) (federation.OperatorToken, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanToken, `SELECT `+admittedColumns+` FROM operator_token WHERE digest = ? AND expires > ?`,
		digest[:], engine.Stamp(now))
	if err == nil && len(found) == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return federation.OperatorToken{}, fmt.Errorf("look up token: %w", err)
	}
	return found[0], nil
}

// Tokens returns up to limit tokens, including expired ones, ordered by name, after a name or from
// the start with "".
func (s *Operators) Tokens(ctx context.Context, after string, limit int) ([]federation.OperatorToken, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanToken, `SELECT `+admittedColumns+` FROM operator_token WHERE name > ? ORDER BY name`+engine.AtMost,
		after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	return found, nil
}
