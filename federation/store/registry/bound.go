package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// Bound is a record that reads the bindings of operators too: an agent has the DIDs that its
// handle is bound to, and a DID with an account is known before it signed a step.
type Bound struct {
	*Record

	Names BoundNames
	// Forget is called with the DID of each key of an agent whose keys changed.
	Forget func(federation.DID)
}

// RotateKey is [Record.RotateKey].
func (r Bound) RotateKey(ctx context.Context, handle, by string, key agents.Key, now, until time.Time) (agents.Agent, error) {
	agent, err := r.Record.RotateKey(ctx, handle, by, key, now, until)
	r.changed(agent)
	return agent, err
}

// RevokeKey is [Record.RevokeKey].
func (r Bound) RevokeKey(ctx context.Context, handle, by, kid, reason string, now time.Time) (agents.Agent, error) {
	agent, err := r.Record.RevokeKey(ctx, handle, by, kid, reason, now)
	r.changed(agent)
	return agent, err
}

// RevokeAgent is [Record.RevokeAgent].
func (r Bound) RevokeAgent(ctx context.Context, handle, by, reason string, now time.Time) error {
	if err := r.Record.RevokeAgent(ctx, handle, by, reason, now); err != nil {
		return err
	}
	agent, err := r.Record.Agent(ctx, handle)
	r.changed(agent)
	return err
}

// ProveKey is [Record.ProveKey].
func (r Bound) ProveKey(ctx context.Context, handle, kid string, did federation.DID, now time.Time) (agents.Agent, error) {
	if _, err := r.Record.ProveKey(ctx, handle, kid, did, now); err != nil {
		return agents.Agent{}, err
	}
	r.Forget(did)
	return r.Agent(ctx, handle)
}

// ReleaseHandle is [Record.ReleaseHandle].
func (r Bound) ReleaseHandle(ctx context.Context, handle string, now time.Time) error {
	before, err := r.Agent(ctx, handle)
	if err == nil {
		err = r.Record.ReleaseHandle(ctx, handle, now)
	}
	r.changed(before)
	return err
}

func (r Bound) changed(agent agents.Agent) {
	for _, key := range agent.Keys {
		if key.Proved() {
			r.Forget(key.DID)
		}
	}
}

// Agent is [Record.Agent], with the DID that the handle is bound to.
func (r Bound) Agent(ctx context.Context, handle string) (agents.Agent, error) {
	agent, err := r.Record.Agent(ctx, handle)
	if err != nil {
		return agent, err
	}
	b, err := r.Names.Bound(ctx, agents.Link, handle)
	if errors.Is(err, federation.ErrNotFound) {
		return agent, nil
	}
	agent.Bound = b
	return agent, err
}

// IsAgent reports whether a DID is one of an agent. It blocks on the record and returns its error.
func (r Bound) IsAgent(ctx context.Context, did federation.DID) (bool, error) {
	_, err := r.AgentOf(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// AgentOf is [Record.AgentOf], and finds an agent by a DID that its handle is bound to too.
func (r Bound) AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error) {
	agent, err := r.Record.AgentOf(ctx, did)
	if err == nil {
		return r.Agent(ctx, agent.Handle)
	}
	if !errors.Is(err, federation.ErrNotFound) {
		return agent, err
	}
	bound, err := r.Names.Of(ctx, did)
	if err != nil {
		return agents.Agent{}, err
	}
	for _, b := range bound {
		if b.Network == agents.Link {
			return r.Agent(ctx, b.Name)
		}
	}
	return agents.Agent{}, fmt.Errorf("look up agent of %s: %w", did, federation.ErrNotFound)
}

// SessionNames returns the names under which the sessions of the participant with a DID are kept: its
// DIDs, and the handle of an agent.
func (r Bound) SessionNames(ctx context.Context, did federation.DID) ([]string, error) {
	names := []string{string(did)}
	agent, err := r.AgentOf(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	names = append(names, agent.Handle)
	for _, other := range agent.DIDs() {
		if other != did {
			names = append(names, string(other))
		}
	}
	return names, nil
}

// Declared returns the capabilities of a DID, each once: declared ones, and the skills that its agent
// registered.
func (r Bound) Declared(ctx context.Context, did federation.DID) ([]string, error) {
	said, err := r.Declaration(ctx, did)
	if err != nil {
		return nil, err
	}
	agent, err := r.AgentOf(ctx, did)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return nil, fmt.Errorf("read agent: %w", err)
	}
	var registered struct {
		Skills []string `json:"skills"`
	}
	if len(agent.Capabilities) > 0 {
		if err := federation.DecodeJSON(agent.Capabilities, &registered); err != nil {
			return nil, fmt.Errorf("read capabilities of %s: %w", agent.Handle, err)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(append(said, registered.Skills...)))), nil
}

// Binding is [Record.Binding]. A DID that never signed a step has the binding of its account.
func (r Bound) Binding(ctx context.Context, did federation.DID) (federation.Binding, error) {
	b, err := r.Record.Binding(ctx, did)
	if !errors.Is(err, federation.ErrNotFound) {
		return b, err
	}
	bound, ofErr := r.Names.Of(ctx, did)
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

// BindingByHash is [Record.BindingByHash], and finds the DIDs of bindings too.
func (r Bound) BindingByHash(ctx context.Context, prefix string) (federation.Binding, error) {
	b, err := r.Record.BindingByHash(ctx, prefix)
	if !errors.Is(err, federation.ErrNotFound) {
		return b, err
	}
	did, ofErr := r.Names.ByHash(ctx, prefix)
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

// BoundNames knows the names of DIDs: the names of the configuration, and the names of the record that the
// configuration does not bind. So each name has one DID.
type BoundNames struct {
	Record     *Record
	Configured func() []federation.BoundName // may change while the gateway runs
}

// Bound returns the binding of a name, or [federation.ErrNotFound].
func (n BoundNames) Bound(ctx context.Context, network, name string) (federation.BoundName, error) {
	if b, ok := n.configuredAs(network, name); ok {
		return b, nil
	}
	return n.Record.BoundName(ctx, network, name)
}

// Of returns the bindings of a DID, with the bindings of the configuration first.
func (n BoundNames) Of(ctx context.Context, did federation.DID) ([]federation.BoundName, error) {
	var all []federation.BoundName
	for _, b := range n.Configured() {
		if b.DID == did {
			all = append(all, b)
		}
	}
	kept, err := n.Record.NamesOf(ctx, did)
	for _, b := range kept {
		if _, overruled := n.configuredAs(b.Network, b.Name); !overruled {
			all = append(all, b)
		}
	}
	return all, err
}

func (n BoundNames) configuredAs(network, name string) (federation.BoundName, bool) {
	all := n.Configured()
	i := slices.IndexFunc(all, func(b federation.BoundName) bool { return b.Network == network && b.Name == name })
	if i < 0 {
		return federation.BoundName{}, false
	}
	return all[i], true
}

// namesPage is how many bindings are read at a time.
const namesPage = 500

// ByHash returns the one DID of all bindings whose hash has a prefix, "" if none or several
// have. Operators make bindings by hand: there are never many.
func (n BoundNames) ByHash(ctx context.Context, prefix string) (federation.DID, error) {
	all, last := slices.Clone(n.Configured()), federation.BoundName{}
	for more := true; more; {
		page, err := n.Record.BoundNames(ctx, last.Network, last.Name, namesPage)
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
