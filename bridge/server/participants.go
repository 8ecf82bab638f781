package server

import (
	"context"
	"slices"

	"baton/federation"
	"baton/federation/agents"
)

// AgentRecord keeps the agents that registered, and where DIDs signed last.
type AgentRecord interface {
	// Agent returns [federation.ErrNotFound] for a handle that no agent registered.
	Agent(ctx context.Context, handle string) (agents.Agent, error)
	// AgentOf returns [federation.ErrNotFound] for a DID that no agent has.
	AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error)
	// Binding returns where a DID last signed a step, or [federation.ErrNotFound].
	Binding(ctx context.Context, did federation.DID) (federation.Binding, error)
}

// Agents implements [Participants] with the agents that registered.
type Agents struct{ AgentRecord }

// WithHandle implements [Participants].
func (a Agents) WithHandle(ctx context.Context, handle string) (Participant, error) {
	return participantOf(a.Agent(ctx, handle))
}

// WithDID implements [Participants].
func (a Agents) WithDID(ctx context.Context, did federation.DID) (Participant, error) {
	return participantOf(a.AgentOf(ctx, did))
}

// participantOf returns an agent as a participant.
func participantOf(agent agents.Agent, err error) (Participant, error) {
	if err != nil {
		return Participant{}, err
	}
	all := []federation.DID{agent.DID, agent.OwnDID}
	if agent.Bound.Vouch {
		all = append(all, agent.Bound.DID)
	}
	for _, key := range agent.Keys {
		all = append(all, key.DID)
	}
	all = slices.DeleteFunc(all, func(did federation.DID) bool { return did == "" })
	return Participant{Handle: agent.Handle, DIDs: all, Bound: agent.Bound.DID}, nil
}

// Bindings implements [bridge.Bindings].
type Bindings struct {
	BoundNames

	Signers Signers
	Agents  AgentRecord
}

// Signers knows where DIDs signed.
type Signers interface {
	// Binding returns where a DID last signed a step, or [federation.ErrNotFound].
	Binding(ctx context.Context, did federation.DID) (federation.Binding, error)
}

// Seen implements [bridge.Bindings].
func (b Bindings) Seen(ctx context.Context, did federation.DID) (federation.Binding, error) {
	return b.Signers.Binding(ctx, did)
}

// Participant implements [bridge.Bindings].
func (b Bindings) Participant(ctx context.Context, handle string) (federation.DID, error) {
	agent, err := b.Agents.Agent(ctx, handle)
	return agent.DID, err
}
