package store

import (
	"context"
	"fmt"

	"baton/federation"
)

// OwnKeys implements [federationtest.OwnKeys].
func (s *Record) OwnKeys(ctx context.Context) ([]federation.KeyMark, error) {
	marks, err := ownKeys(ctx, s.reads)
	if err != nil {
		return nil, fmt.Errorf("read own keys: %w", err)
	}
	return marks, nil
}

func ownKeys(ctx context.Context, q *statements) ([]federation.KeyMark, error) {
	scan := func(row scanner) (m federation.KeyMark, err error) {
		var since int64
		err = row.Scan(&m.Name, &m.Fingerprint, &since)
		m.Since = moment(since)
		return m, err
	}
	return rows(ctx, q, scan, `SELECT name, fingerprint, since FROM own_key WHERE name > '' ORDER BY name`)
}

// MarkOwnKeys implements [federationtest.OwnKeys].
func (s *Record) MarkOwnKeys(ctx context.Context, marks []federation.KeyMark) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		for _, m := range marks {
			_, err := q.exec(ctx, `INSERT INTO own_key (name, fingerprint, since) VALUES (?, ?, ?)
				ON CONFLICT (name) DO UPDATE SET fingerprint = excluded.fingerprint, since = excluded.since
				WHERE own_key.fingerprint <> excluded.fingerprint`, m.Name, m.Fingerprint, stamp(m.Since))
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

// Used implements [federationtest.OwnKeys].
func (s *Record) Used(ctx context.Context) (bool, error) {
	var used bool
	err := s.reads.row(ctx, `SELECT EXISTS (SELECT 1 FROM handoff WHERE id > '') OR `+s.parts.Used, nil, &used)
	if err != nil {
		return false, fmt.Errorf("look for handoffs and participants: %w", err)
	}
	return used, nil
}
