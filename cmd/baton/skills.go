package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/federation"
)

// skills implements home.Capabilities with what agents registered, and what DIDs
// declared.
type skills struct{ record federation.Record }

// Declare implements [agentapi.Skills].
func (s skills) Declare(ctx context.Context, did federation.DID, caps []string, now time.Time) error {
	return s.record.Declare(ctx, did, caps, now)
}

// Declared returns what a DID can do, each once.
func (s skills) Declared(ctx context.Context, did federation.DID) ([]string, error) {
	said, err := s.record.Declaration(ctx, did)
	if err != nil {
		return nil, err
	}
	registered, err := s.registered(ctx, did)
	return slices.Compact(slices.Sorted(slices.Values(append(said, registered...)))), err
}

// registered returns the skills of an agent, none for anybody else.
func (s skills) registered(ctx context.Context, did federation.DID) ([]string, error) {
	agent, err := s.record.AgentOf(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read agent: %w", err)
	}
	var declared struct {
		Skills []string `json:"skills"`
	}
	if len(agent.Capabilities) > 0 {
		if err := json.Unmarshal(agent.Capabilities, &declared); err != nil {
			return nil, fmt.Errorf("read capabilities of %s: %w", agent.Handle, err)
		}
	}
	return declared.Skills, nil
}
