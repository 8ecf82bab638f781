package handoffs

import (
	"context"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

const blobColumns = `b.capability, b.digest, b.owner, b.stored, b.expires, b.content`

func scanBlob(row engine.Scanner) (federation.Blob, error) {
	var b federation.Blob
	var digest []byte
	var stored, expires int64
	err := row.Scan(&b.Capability, &digest, &b.Owner, &stored, &expires, &b.Content)
	copy(b.Digest[:], digest)
	b.Stored, b.Expires = engine.Moment(stored), engine.Moment(expires)
	return b, err
}

// KeepBlob implements [federation.Blobs].
func (s *Logs) KeepBlob(ctx context.Context, b federation.Blob, of federation.HandoffID, limit int64) (federation.Blob, error) {
	kept, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (federation.Blob, error) {
		return keepBlob(ctx, q, b, of.String(), limit)
	})
	if err != nil {
		return federation.Blob{}, fmt.Errorf("keep blob: %w", err)
	}
	return kept, nil
}

func keepBlob(ctx context.Context, q engine.Tx, b federation.Blob, of string, limit int64) (federation.Blob, error) {
	on, err := engine.Rows(ctx, q, scanBlob, `SELECT `+blobColumns+` FROM blob_claim c JOIN blob b ON b.capability = c.capability
		WHERE c.handoff = ? AND b.digest = ? AND b.owner = ? LIMIT 1`, of, b.Digest[:], b.Owner)
	if err != nil || len(on) > 0 {
		return append(on, b)[0], err
	}
	var stored int64
	if err := q.Row(ctx, `SELECT coalesce(sum(size), 0) FROM blob WHERE owner = ?`, []any{b.Owner}, &stored); err != nil {
		return b, err
	}
	if limit > 0 && stored+int64(len(b.Content)) > limit {
		return b, federation.ErrBlobQuota
	}
	err = q.Put(ctx, `INSERT INTO blob (capability, digest, owner, size, stored, expires, content) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		string(b.Capability), b.Digest[:], b.Owner, len(b.Content), engine.Stamp(b.Stored), engine.Stamp(b.Expires), engine.NotNull(b.Content))
	if err != nil {
		return b, err
	}
	var exists bool
	if err := q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM handoff WHERE id = ?)`, []any{of}, &exists); err != nil {
		return b, err
	}
	if exists {
		b.Expires = time.Time{}
		err = ClaimBlob(ctx, q, of, b.Capability)
	}
	b.Stored, b.Expires = engine.Moment(engine.Stamp(b.Stored)), engine.Moment(engine.Stamp(b.Expires))
	return b, err
}

// ClaimBlob keeps a blob as long as a handoff. A capability without a local blob is not an error:
// the blob may be on another gateway, or have expired.
func ClaimBlob(ctx context.Context, q engine.Tx, handoff string, capability federation.Capability) error {
	if capability == "" {
		return nil
	}
	changed, err := q.Exec(ctx, `UPDATE blob SET expires = 0 WHERE capability = ?`, string(capability))
	if err != nil || changed == 0 {
		return err
	}
	return q.Put(ctx, `INSERT INTO blob_claim (handoff, capability) VALUES (?, ?) ON CONFLICT DO NOTHING`, handoff, string(capability))
}

// UnclaimBlobs releases the blobs of a handoff.
func UnclaimBlobs(ctx context.Context, q engine.Tx, handoff string) error {
	claimed, err := engine.Rows(ctx, q, engine.ScanOne[string], `SELECT capability FROM blob_claim WHERE handoff = ?`, handoff)
	if err != nil || len(claimed) == 0 {
		return err
	}
	if err := q.Put(ctx, `DELETE FROM blob_claim WHERE handoff = ?`, handoff); err != nil {
		return err
	}
	for _, capability := range claimed {
		err := q.Put(ctx, `DELETE FROM blob WHERE capability = ?1
			AND NOT EXISTS (SELECT 1 FROM blob_claim WHERE capability = ?1)`, capability)
		if err != nil {
			return err
		}
	}
	return nil
}

// Blob implements [federation.Blobs].
func (s *Logs) Blob(ctx context.Context, capability federation.Capability, now time.Time) (federation.Blob, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanBlob, `SELECT `+blobColumns+` FROM blob b WHERE b.capability = ? AND (b.expires = 0 OR b.expires > ?)`,
		string(capability), engine.Stamp(now))
	if err == nil && len(found) == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return federation.Blob{}, fmt.Errorf("read blob: %w", err)
	}
	return found[0], nil
}

// PruneBlobs implements [federation.Blobs].
func (s *Logs) PruneBlobs(ctx context.Context, before time.Time, limit int) (int, error) {
	gone, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int64, error) {
		return q.Exec(ctx, `DELETE FROM blob WHERE n IN (SELECT n FROM blob WHERE expires <> 0 AND expires <= ? ORDER BY expires`+engine.AtMost+`)`,
			engine.Stamp(before), max(limit, 0))
	})
	if err != nil {
		return 0, fmt.Errorf("prune blobs: %w", err)
	}
	return int(gone), nil
}

// Evidence returns the evidence with a SHA-256 of a filed step or a stored rendition, or
// [federation.ErrNotFound].
func (s *Logs) Evidence(ctx context.Context, digest [32]byte) ([]byte, error) {
	var bytes []byte
	if err := s.db.Reads().Row(ctx, `SELECT bytes FROM evidence WHERE digest = ?`, []any{digest[:]}, &bytes); err != nil {
		return nil, fmt.Errorf("read evidence %x: %w", digest, err)
	}
	return bytes, nil
}

// EvidenceOf returns the view of the handoff that first referred to evidence, or
// [federation.ErrNotFound].
func (s *Logs) EvidenceOf(ctx context.Context, digest [32]byte) (federation.View, error) {
	var text string // "" for older evidence
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

// Keep files the evidence for a rendition of a step of a handoff. It is idempotent.
func (s *Logs) Keep(ctx context.Context, id federation.HandoffID, evidence federation.Evidence) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error { return KeepEvidence(ctx, q, id, evidence) })
	if err != nil {
		return fmt.Errorf("keep evidence %x: %w", evidence.Digest, err)
	}
	return nil
}

// KeepEvidence files evidence with the first handoff that refers to it. Both are deleted together.
func KeepEvidence(ctx context.Context, q engine.Tx, id federation.HandoffID, evidence federation.Evidence) error {
	err := q.Put(ctx, `INSERT INTO evidence (digest, bytes, handoff) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
		evidence.Digest[:], evidence.Bytes, id.String())
	if err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	return nil
}
