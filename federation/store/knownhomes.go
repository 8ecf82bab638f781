package store

import (
	"context"
	"fmt"

	"baton/federation"
)

// KeepHome implements [federationtest.KnownHomes].
func (s *Record) KeepHome(ctx context.Context, h federation.KnownHome) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		_, err := q.exec(ctx, `INSERT INTO known_home (home, url, path, since) VALUES (?, ?, ?, ?)
			ON CONFLICT (home) DO UPDATE SET url = excluded.url, path = excluded.path, since = excluded.since`,
			string(h.Home), h.URL, h.Path, stamp(h.Since))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep home %s: %w", h.Home, err)
	}
	return nil
}

// ForgetHome implements [federationtest.KnownHomes].
func (s *Record) ForgetHome(ctx context.Context, home federation.HomeID) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		var gone string
		return q.row(ctx, `DELETE FROM known_home WHERE home = ? RETURNING home`, []any{string(home)}, &gone)
	})
	if err != nil {
		return fmt.Errorf("forget home %s: %w", home, err)
	}
	return nil
}

// KnownHomes implements [federationtest.KnownHomes].
func (s *Record) KnownHomes(ctx context.Context) ([]federation.KnownHome, error) {
	scan := func(row scanner) (h federation.KnownHome, err error) {
		var since int64
		err = row.Scan(&h.Home, &h.URL, &h.Path, &since)
		h.Since = moment(since)
		return h, err
	}
	known, err := rows(ctx, s.reads, scan, `SELECT home, url, path, since FROM known_home WHERE home > '' ORDER BY home`)
	if err != nil {
		return nil, fmt.Errorf("read known homes: %w", err)
	}
	return known, nil
}
