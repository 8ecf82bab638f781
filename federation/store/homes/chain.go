package homes

import (
	"context"
	"fmt"

	"baton/federation"
)

// RulingOn returns the document and the signature of the ruling by which a step was filed (see
// [federation.Filing]), or [federation.ErrNotFound].
func (s *Homes) RulingOn(ctx context.Context, id federation.HandoffID, version federation.Version) (document, signature string, err error) {
	err = s.db.Reads().Row(ctx, `SELECT document, signature FROM ruling WHERE handoff = ? AND version = ?`,
		[]any{id.String(), version}, &document, &signature)
	if err != nil {
		return "", "", fmt.Errorf("read ruling %d of %s: %w", version, id, err)
	}
	return document, signature, nil
}

// Chain returns the [federation.Link] after a step of a log, or [federation.ErrNotFound] for a
// step that the log does not have. An event has the chain before it.
func (s *Homes) Chain(ctx context.Context, id federation.HandoffID, version federation.Version) (link [32]byte, err error) {
	var found []byte
	err = s.db.Reads().Row(ctx, `SELECT coalesce(
			(SELECT prev FROM event WHERE handoff = ?1 AND version = ?2 + 1),
			(SELECT head FROM handoff WHERE id = ?1 AND version = ?2))`, []any{id.String(), version}, &found)
	if err == nil && len(found) != len(link) {
		err = federation.ErrNotFound
	}
	if err != nil {
		return link, fmt.Errorf("read chain of %s: %w", id, err)
	}
	copy(link[:], found)
	return link, nil
}
