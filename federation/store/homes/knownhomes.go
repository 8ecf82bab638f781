package homes

import (
	"context"
	"fmt"

	"baton/federation"
	"baton/federation/store/engine"
)

// KeepHome stores a home, and replaces an earlier row of it.
func (s *Homes) KeepHome(ctx context.Context, h federation.KnownHome) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO known_home (home, url, path, since) VALUES (?, ?, ?, ?)
			ON CONFLICT (home) DO UPDATE SET url = excluded.url, path = excluded.path, since = excluded.since`,
			string(h.Home), h.URL, h.Path, engine.Stamp(h.Since))
	})
	if err != nil {
		return fmt.Errorf("keep home %s: %w", h.Home, err)
	}
	return nil
}

// ForgetHome ends that, or returns [federation.ErrNotFound].
func (s *Homes) ForgetHome(ctx context.Context, home federation.HomeID) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		var gone string
		return q.Row(ctx, `DELETE FROM known_home WHERE home = ? RETURNING home`, []any{string(home)}, &gone)
	})
	if err != nil {
		return fmt.Errorf("forget home %s: %w", home, err)
	}
	return nil
}

// KnownHomes returns all of them, by name.
func (s *Homes) KnownHomes(ctx context.Context) ([]federation.KnownHome, error) {
	scan := func(row engine.Scanner) (h federation.KnownHome, err error) {
		var since int64
		err = row.Scan(&h.Home, &h.URL, &h.Path, &since)
		h.Since = engine.Moment(since)
		return h, err
	}
	known, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT home, url, path, since FROM known_home WHERE home > '' ORDER BY home`)
	if err != nil {
		return nil, fmt.Errorf("read known homes: %w", err)
	}
	return known, nil
}

// KnowsHomes reports whether there is a kept location at another home than one, or a binding of
// a DID that a home brought.
func (s *Homes) KnowsHomes(ctx context.Context, self federation.HomeID) (knows bool, err error) {
	err = s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1 FROM mailbox_location WHERE home < ?1) OR EXISTS (SELECT 1 FROM mailbox_location WHERE home > ?1)
		OR EXISTS (SELECT 1 FROM binding WHERE network = 'home')`, []any{string(self)}, &knows)
	if err != nil {
		return false, fmt.Errorf("look for other homes: %w", err)
	}
	return knows, nil
}
