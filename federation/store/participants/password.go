package participants

import (
	"context"
	"fmt"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// KeepPassword sets the password of a DID.
func (s *Participants) KeepPassword(ctx context.Context, p federation.Password) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO password (did, salt, iterations, stored_key, server_key, since) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (did) DO UPDATE SET salt = excluded.salt, iterations = excluded.iterations, stored_key = excluded.stored_key,
				server_key = excluded.server_key, since = excluded.since`,
			p.DID, p.Salt, p.Iterations, p.StoredKey, p.ServerKey, engine.Stamp(p.Since))
	})
	if err != nil {
		return fmt.Errorf("keep password of %s: %w", p.DID, err)
	}
	return nil
}

// DropPassword deletes the password of a DID, if it has one.
func (s *Participants) DropPassword(ctx context.Context, did federation.DID) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `DELETE FROM password WHERE did = ?`, did)
	})
	if err != nil {
		return fmt.Errorf("delete password of %s: %w", did, err)
	}
	return nil
}

// Password returns the password of a DID, or [federation.ErrNotFound].
func (s *Participants) Password(ctx context.Context, did federation.DID) (federation.Password, error) {
	p := federation.Password{DID: did}
	var since int64
	err := s.db.Reads().Row(ctx, `SELECT salt, iterations, stored_key, server_key, since FROM password WHERE did = ?`, []any{did},
		&p.Salt, &p.Iterations, &p.StoredKey, &p.ServerKey, &since)
	if err != nil {
		return federation.Password{}, fmt.Errorf("read password of %s: %w", did, err)
	}
	p.Since = engine.Moment(since)
	return p, nil
}
