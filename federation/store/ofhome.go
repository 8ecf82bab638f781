package store

import (
	"context"
	"fmt"

	"baton/federation"
)

// OfHome implements [federationtest.Homes].
func (s *Record) OfHome(ctx context.Context, home federation.HomeID, after federation.HandoffID, limit int) ([]federation.HandoffID, error) {
	found, err := rows(ctx, s.reads, scanHandoffID, `SELECT id FROM handoff WHERE id > ? AND view ->> 'home' = ? ORDER BY id`+atMost,
		after.String(), string(home), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read handoffs of %s: %w", home, err)
	}
	return found, nil
}
