package store

import (
	"context"
	"fmt"

	"baton/federation"
)

// Evidence implements [federation.Store].
func (s *Record) Evidence(ctx context.Context, digest [32]byte) ([]byte, error) {
	var bytes []byte
	if err := s.reads.row(ctx, `SELECT bytes FROM evidence WHERE digest = ?`, []any{digest[:]}, &bytes); err != nil {
		return nil, fmt.Errorf("read evidence %x: %w", digest, err)
	}
	return bytes, nil
}

// Keep implements [federation.Store].
func (s *Record) Keep(ctx context.Context, id federation.HandoffID, evidence federation.Evidence) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error { return keep(ctx, q, id, evidence) })
	if err != nil {
		return fmt.Errorf("keep evidence %x: %w", evidence.Digest, err)
	}
	return nil
}

// keep files evidence with the handoff that it will leave the record with: the
// first that names it.
func keep(ctx context.Context, q *statements, id federation.HandoffID, evidence federation.Evidence) error {
	err := q.add(ctx, `INSERT INTO evidence (digest, bytes, handoff) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
		evidence.Digest[:], evidence.Bytes, id.String())
	if err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	return nil
}
