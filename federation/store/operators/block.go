package operators

import (
	"context"
	"fmt"

	"baton/federation"
	"baton/federation/store/engine"
)

// AddBlock keeps a block, in the place of one that names the same. It forgets blocks that are
// over at the time that the new one begins.
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

// RemoveBlock ends a block. It returns [federation.ErrNotFound] for a text that none has.
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

// BlocksAfter returns up to limit blocks after a text, in the order of their texts. Expired
// blocks may be among them.
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
