package handoffs

import (
	"context"
	"fmt"

	"baton/federation"
	"baton/federation/store/engine"
)

// Evidence returns the bytes that a filed step or a kept rendition named by their SHA-256, or
// [federation.ErrNotFound].
func (s *Logs) Evidence(ctx context.Context, digest [32]byte) ([]byte, error) {
	var bytes []byte
	if err := s.db.Reads().Row(ctx, `SELECT bytes FROM evidence WHERE digest = ?`, []any{digest[:]}, &bytes); err != nil {
		return nil, fmt.Errorf("read evidence %x: %w", digest, err)
	}
	return bytes, nil
}

// EvidenceOf returns the view of the handoff that named evidence first, or
// [federation.ErrNotFound] for bytes that none named.
func (s *Logs) EvidenceOf(ctx context.Context, digest [32]byte) (federation.View, error) {
	var text string // "" for evidence from before that was noted
	if err := s.db.Reads().Row(ctx, `SELECT coalesce(handoff, '') FROM evidence WHERE digest = ?`, []any{digest[:]}, &text); err != nil {
		return federation.View{}, fmt.Errorf("read handoff of evidence %x: %w", digest, err)
	}
	if text == "" {
		return federation.View{}, nil
	}
	id, err := federation.ParseEventID(text)
	if err != nil {
		return federation.View{}, fmt.Errorf("read handoff of evidence %x: %w", digest, err)
	}
	return s.View(ctx, id)
}

// Keep files the evidence behind a rendition of a step of a handoff. Keeping it again changes
// nothing.
func (s *Logs) Keep(ctx context.Context, id federation.HandoffID, evidence federation.Evidence) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error { return KeepEvidence(ctx, q, id, evidence) })
	if err != nil {
		return fmt.Errorf("keep evidence %x: %w", evidence.Digest, err)
	}
	return nil
}

// KeepEvidence files evidence with the handoff that it will leave the record with: the
// first that names it.
func KeepEvidence(ctx context.Context, q engine.Tx, id federation.HandoffID, evidence federation.Evidence) error {
	err := q.Put(ctx, `INSERT INTO evidence (digest, bytes, handoff) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
		evidence.Digest[:], evidence.Bytes, id.String())
	if err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	return nil
}
