package store

import (
	"context"
	"fmt"

	"baton/federation"
)

// AddBlock implements [federationtest.BlockList].
func (s *Record) AddBlock(ctx context.Context, b federation.Block) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		if _, err := q.exec(ctx, `DELETE FROM block WHERE expires <> 0 AND expires <= ?`, stamp(b.Since)); err != nil {
			return err
		}
		_, err := q.exec(ctx, `INSERT INTO block (what, kind, reason, since, expires) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (what) DO UPDATE SET reason = excluded.reason, since = excluded.since, expires = excluded.expires`,
			b.What, string(b.Kind), b.Reason, stamp(b.Since), stamp(b.Expires))
		return err
	})
	if err != nil {
		return fmt.Errorf("block %s: %w", b.What, err)
	}
	return nil
}

// RemoveBlock implements [federationtest.BlockList].
func (s *Record) RemoveBlock(ctx context.Context, what string) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		n, err := q.exec(ctx, `DELETE FROM block WHERE what = ?`, what)
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

// BlocksAfter implements [federationtest.BlockList].
func (s *Record) BlocksAfter(ctx context.Context, what string, limit int) ([]federation.Block, error) {
	scan := func(row scanner) (b federation.Block, err error) {
		var since, expires int64
		err = row.Scan(&b.What, &b.Kind, &b.Reason, &since, &expires)
		b.Since, b.Expires = moment(since), moment(expires)
		return b, err
	}
	found, err := rows(ctx, s.reads, scan, `SELECT what, kind, reason, since, expires FROM block WHERE what > ? ORDER BY what`+atMost,
		what, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read blocks: %w", err)
	}
	return found, nil
}
