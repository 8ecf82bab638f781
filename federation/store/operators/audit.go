package operators

import (
	"context"
	"fmt"

	"baton/federation"
	"baton/federation/store/engine"
)

// Note keeps a change, and gives it its ID.
func (s *Operators) Note(ctx context.Context, c federation.Change) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO audit (at, actor, what, subject, reason) VALUES (?, ?, ?, ?, ?)`,
			engine.Stamp(c.At), c.Actor, c.What, c.Subject, c.Reason)
	})
	if err != nil {
		return fmt.Errorf("note change: %w", err)
	}
	return nil
}

// Changes returns up to limit changes, the newest first, before an ID, or from the start with 0.
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

// SetPeerMode puts a word in the place of the one before.
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

// PeerModes returns all of them, by domain.
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
