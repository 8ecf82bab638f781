package registry

import (
	"context"
	"fmt"
	"time"

	"baton/federation/store/engine"
	"baton/federation/store/outboxes"
	"baton/federation/store/participants"
)

// ReleaseHandle ends the keys, sessions, skills and webhooks of the agent with a handle. Its DID,
// inbox and consent stay. The handle can be registered again. ReleaseHandle is idempotent, and
// returns [federation.ErrNotFound] for an unknown handle.
func (s *Registry) ReleaseHandle(ctx context.Context, handle string, now time.Time) error {
	err := s.change(ctx, func(ctx context.Context, q engine.Tx) error {
		a, err := oneAgent(ctx, q, `handle = ?1`, handle)
		if err != nil || !a.Released.IsZero() {
			return err
		}
		if err := q.Put(ctx, `UPDATE agent SET released = ?, own_did = did, recovery = NULL WHERE handle = ?`, engine.Stamp(now), handle); err != nil {
			return err
		}
		if err := q.Put(ctx, `DELETE FROM agent_key WHERE handle = ?`, handle); err != nil {
			return err
		}
		for _, skill := range skills(a.Capabilities) {
			err := q.Put(ctx, `DELETE FROM agent_skill WHERE skill = ? AND agent = (SELECT n FROM agent WHERE handle = ?)`, skill, handle)
			if err != nil {
				return err
			}
		}
		if err := outboxes.DropWebhooksOf(ctx, q, handle, a.DID); err != nil {
			return err
		}
		return participants.EndSessions(ctx, q, handle)
	})
	if err != nil {
		return fmt.Errorf("release %s: %w", handle, err)
	}
	return nil
}
