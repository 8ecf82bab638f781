package registry

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store/deliveries"
	"baton/federation/store/engine"
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
		if err := deliveries.DropWebhooksOf(ctx, q, handle, a.DID); err != nil {
			return err
		}
		return participants.EndSessions(ctx, q, handle)
	})
	if err != nil {
		return fmt.Errorf("release %s: %w", handle, err)
	}
	return nil
}

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

// AddAgentSession implements the port Agents of bridge/airc.
func (s *Registry) AddAgentSession(ctx context.Context, a agents.Agent, first federation.Session) error {
	err := s.change(ctx, func(ctx context.Context, q engine.Tx) error {
		if err := addAgent(ctx, q, a); err != nil {
			return err
		}
		return participants.StartSession(ctx, q, first)
	})
	if err != nil {
		return fmt.Errorf("add agent %s: %w", a.Handle, err)
	}
	return nil
}

// StartAgentSession implements the port Sessions of bridge/airc.
func (s *Registry) StartAgentSession(ctx context.Context, begins federation.Session) (federation.Session, error) {
	begun, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (federation.Session, error) {
		a, err := oneAgent(ctx, q, `handle = ?1`, begins.Participant)
		if err != nil {
			return begins, err
		}
		begun, err := a.Begin(begins)
		if err != nil {
			return begun, err
		}
		return begun, participants.StartSession(ctx, q, begun)
	})
	if err != nil {
		return begun, fmt.Errorf("start session of %s: %w", begins.Participant, err)
	}
	return begun, nil
}
