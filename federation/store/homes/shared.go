package homes

import (
	"context"
	"fmt"

	"baton/federation"
	"baton/federation/store/engine"
	"baton/federation/store/handoffs"
)

// Shared returns up to limit handoffs after one, in the order of their ids, with a step
// delivered to a home.
func (s *Homes) Shared(ctx context.Context, home federation.HomeID, after federation.HandoffID, limit int) ([]federation.HandoffID, error) {
	told, err := engine.Rows(ctx, s.db.Reads(), handoffs.ScanHandoffID, `SELECT h.id FROM handoff h WHERE h.id > ? AND EXISTS
		(SELECT 1 FROM event e JOIN settled s ON s.event = e.seq WHERE e.handoff = h.id AND s.link = ? AND s.state = ?)
		ORDER BY h.id`+engine.AtMost, after.String(), string(home), federation.DeliveryDelivered, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what %s was told of: %w", home, err)
	}
	return told, nil
}

// OfHome returns up to limit handoffs of a home after one, in the order of their ids.
func (s *Homes) OfHome(ctx context.Context, home federation.HomeID, after federation.HandoffID, limit int) ([]federation.HandoffID, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), handoffs.ScanHandoffID, `SELECT id FROM handoff WHERE id > ? AND view ->> 'home' = ? ORDER BY id`+engine.AtMost,
		after.String(), string(home), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read handoffs of %s: %w", home, err)
	}
	return found, nil
}
