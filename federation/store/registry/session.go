package registry

import (
	"context"
	"fmt"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store/engine"
	"baton/federation/store/participants"
)

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
