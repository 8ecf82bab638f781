package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store/registry"
)

// names are the names that stand for DIDs: those of the configuration, and those of
// the record where the configuration binds the same name to nobody else. So a name
// stands for one DID at any time.
type names struct {
	record     federation.BoundNames
	configured func() []federation.BoundName
}

// Bound returns the binding of a name, or [federation.ErrNotFound].
func (n names) Bound(ctx context.Context, network, name string) (federation.BoundName, error) {
	if b, ok := n.configuredAs(network, name); ok {
		return b, nil
	}
	return n.record.BoundName(ctx, network, name)
}

// Of returns the bindings of a DID, those of the configuration first.
func (n names) Of(ctx context.Context, did federation.DID) ([]federation.BoundName, error) {
	var all []federation.BoundName
	for _, b := range n.configured() {
		if b.DID == did {
			all = append(all, b)
		}
	}
	kept, err := n.record.NamesOf(ctx, did)
	for _, b := range kept {
		if _, overruled := n.configuredAs(b.Network, b.Name); !overruled {
			all = append(all, b)
		}
	}
	return all, err
}

func (n names) configuredAs(network, name string) (federation.BoundName, bool) {
	all := n.configured()
	i := slices.IndexFunc(all, func(b federation.BoundName) bool { return b.Network == network && b.Name == name })
	if i < 0 {
		return federation.BoundName{}, false
	}
	return all[i], true
}

// boundRecord is the record with the names that stand for DIDs: an agent has the DIDs
// that its handle is bound to, and who has an account is known before they signed
// anything.
type boundRecord struct {
	*registry.Record
	names names
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

// Binding implements [federation.Bindings].
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

// BindingByHash implements [federation.Bindings].
func (r boundRecord) BindingByHash(ctx context.Context, prefix string) (federation.Binding, error) {
	b, err := r.Record.BindingByHash(ctx, prefix)
	if !errors.Is(err, federation.ErrNotFound) {
		return b, err
	}
	did, ofErr := r.names.byHash(ctx, prefix)
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

// namesPage is how many bindings are read at a time.
const namesPage = 500

// byHash returns the one DID of all bindings whose hash begins like that, "" where
// none or several do. Bindings are made by hand, and so never many.
func (n names) byHash(ctx context.Context, prefix string) (federation.DID, error) {
	all, last := slices.Clone(n.configured()), federation.BoundName{}
	for more := true; more; {
		page, err := n.record.BoundNames(ctx, last.Network, last.Name, namesPage)
		if err != nil {
			return "", err
		}
		if more = len(page) == namesPage; more {
			last = page[namesPage-1]
		}
		all = append(all, page...)
	}
	var found federation.DID
	for _, b := range all {
		switch {
		case !strings.HasPrefix(b.DID.Hash(), prefix) || b.DID == found:
		case found != "":
			return "", nil
		default:
			found = b.DID
		}
	}
	return found, nil
}
