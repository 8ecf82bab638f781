package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/bridge/gateway"
	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store/registry"
)

// boundRecord is the record with the names that stand for DIDs: an agent has the DIDs
// that its handle is bound to, and who has an account is known before they signed
// anything.
type boundRecord struct {
	*registry.Record
	names gateway.BoundNames
	// forget is called with the DID of each key of an agent whose keys changed.
	forget func(federation.DID)
}

// RotateKey implements [airc.Keys].
func (r boundRecord) RotateKey(ctx context.Context, handle, by string, key agents.Key, now, until time.Time) (agents.Agent, error) {
	agent, err := r.Record.RotateKey(ctx, handle, by, key, now, until)
	r.changed(agent)
	return agent, err
}

// RevokeKey implements [airc.Keys].
func (r boundRecord) RevokeKey(ctx context.Context, handle, by, kid, reason string, now time.Time) (agents.Agent, error) {
	agent, err := r.Record.RevokeKey(ctx, handle, by, kid, reason, now)
	r.changed(agent)
	return agent, err
}

// ProveKey implements [airc.Keys].
func (r boundRecord) ProveKey(ctx context.Context, handle, kid string, did federation.DID, now time.Time) (agents.Agent, error) {
	if _, err := r.Record.ProveKey(ctx, handle, kid, did, now); err != nil {
		return agents.Agent{}, err
	}
	r.forget(did)
	return r.bound(ctx, handle)
}

func (r boundRecord) changed(agent agents.Agent) {
	for _, key := range agent.Keys {
		if key.Proved() {
			r.forget(key.DID)
		}
	}
}

// Agent implements [airc.Agents].
func (r boundRecord) Agent(ctx context.Context, handle string) (agents.Agent, error) {
	return r.bound(ctx, handle)
}

// AgentOf implements [airc.Agents].
func (r boundRecord) AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error) {
	agent, err := r.Record.AgentOf(ctx, did)
	if err == nil {
		return r.bound(ctx, agent.Handle)
	}
	if !errors.Is(err, federation.ErrNotFound) {
		return agent, err
	}
	bound, err := r.names.Of(ctx, did)
	if err != nil {
		return agents.Agent{}, err
	}
	for _, b := range bound {
		if b.Network == agents.Link {
			return r.bound(ctx, b.Name)
		}
	}
	return agents.Agent{}, fmt.Errorf("look up agent of %s: %w", did, federation.ErrNotFound)
}

// bound returns an agent with the DID that its handle stands for.
func (r boundRecord) bound(ctx context.Context, handle string) (agents.Agent, error) {
	agent, err := r.Record.Agent(ctx, handle)
	if err != nil {
		return agent, err
	}
	b, err := r.names.Bound(ctx, agents.Link, handle)
	if errors.Is(err, federation.ErrNotFound) {
		return agent, nil
	}
	agent.Bound = b
	return agent, err
}

// Binding implements [federationtest.Bindings].
func (r boundRecord) Binding(ctx context.Context, did federation.DID) (federation.Binding, error) {
	b, err := r.Record.Binding(ctx, did)
	if !errors.Is(err, federation.ErrNotFound) {
		return b, err
	}
	bound, ofErr := r.names.Of(ctx, did)
	if ofErr != nil {
		return b, ofErr
	}
	for _, name := range bound {
		if name.Network != agents.Link {
			return federation.Binding{DID: did, Link: name.Network, Name: name.Name, First: name.Name}, nil
		}
	}
	return b, err
}

// BindingByHash implements [federationtest.Bindings].
func (r boundRecord) BindingByHash(ctx context.Context, prefix string) (federation.Binding, error) {
	b, err := r.Record.BindingByHash(ctx, prefix)
	if !errors.Is(err, federation.ErrNotFound) {
		return b, err
	}
	did, ofErr := r.names.ByHash(ctx, prefix)
	switch {
	case ofErr != nil:
		return b, ofErr
	case did == "":
		return b, err
	}
	if b, err = r.Binding(ctx, did); errors.Is(err, federation.ErrNotFound) {
		return federation.Binding{DID: did}, nil // it has an agent here
	}
	return b, err
}

// participants implements [gateway.Participants] with the agents of the registry.
type participants struct{ boundRecord }

// WithHandle implements [gateway.Participants].
func (r participants) WithHandle(ctx context.Context, handle string) (gateway.Participant, error) {
	return participant(r.Agent(ctx, handle))
}

// WithDID implements [gateway.Participants].
func (r participants) WithDID(ctx context.Context, did federation.DID) (gateway.Participant, error) {
	return participant(r.AgentOf(ctx, did))
}

// participant returns an agent as the gateway knows it.
func participant(agent agents.Agent, err error) (gateway.Participant, error) {
	if err != nil {
		return gateway.Participant{}, err
	}
	all := []federation.DID{agent.DID, agent.OwnDID}
	if agent.Bound.Vouch {
		all = append(all, agent.Bound.DID)
	}
	for _, key := range agent.Keys {
		all = append(all, key.DID)
	}
	all = slices.DeleteFunc(all, func(did federation.DID) bool { return did == "" })
	return gateway.Participant{Handle: agent.Handle, DIDs: all, Bound: agent.Bound.DID}, nil
}
