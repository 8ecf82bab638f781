package store

import (
	"context"
	"fmt"

	"baton/federation"
)

// Evidence implements [federation.Store].
func (s *SQLite) Evidence(ctx context.Context, digest [32]byte) ([]byte, error) {
	var bytes []byte
	if err := s.reads.row(ctx, `SELECT bytes FROM evidence WHERE digest = ?`, []any{digest[:]}, &bytes); err != nil {
		return nil, fmt.Errorf("read evidence %x: %w", digest, err)
	}
	return bytes, nil
}

// Keep implements [federation.Store].
func (s *SQLite) Keep(ctx context.Context, evidence federation.Evidence) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error { return keep(ctx, q, evidence) })
	if err != nil {
		return fmt.Errorf("keep evidence %x: %w", evidence.Digest, err)
	}
	return nil
}

func keep(ctx context.Context, q *statements, evidence federation.Evidence) error {
	_, err := q.exec(ctx, `INSERT INTO evidence (digest, bytes) VALUES (?, ?) ON CONFLICT DO NOTHING`,
		evidence.Digest[:], evidence.Bytes)
	if err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	return nil
}
