package registry

import (
	"context"
	"crypto/ed25519"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store/engine"
	"baton/federation/store/participants"
)

// RevokeAgent implements the port Keys of bridge/airc. For an agent that never had a key it stores
// the recovery key as a revoked key, so that no caller can register the handle again.
func (s *Registry) RevokeAgent(ctx context.Context, handle, by, reason string, now time.Time) error {
	_, err := s.changeKeys(ctx, handle, by, now, func(ctx context.Context, q engine.Tx, a agents.Agent) error {
		if len(a.Keys) == 0 && a.Recovery != nil {
			a.Keys = []agents.Key{RecoveryKey(a.Recovery, now)}
			if err := addKey(ctx, q, handle, 0, a.Keys[0]); err != nil {
				return err
			}
		}
		for _, key := range a.Keys {
			if !key.Signs(now) {
				continue
			}
			err := q.Put(ctx, `UPDATE agent_key SET revoked = ?, reason = ? WHERE handle = ? AND id = ?`, engine.Stamp(now), reason, handle, key.ID)
			if err != nil {
				return err
			}
			if err := endUse(ctx, q, a, key, now, now); err != nil {
				return err
			}
		}
		if by == "" {
			if err := q.Put(ctx, `UPDATE agent SET recovery = NULL WHERE handle = ?`, handle); err != nil {
				return err
			}
		}
		return participants.EndSessions(ctx, q, handle)
	})
	return err
}

// RecoveryKey returns a recovery key in the form of an agent key.
func RecoveryKey(public ed25519.PublicKey, now time.Time) agents.Key {
	return agents.Key{ID: "recovery_" + federation.KeyID(public), Public: public, Created: now}
}
