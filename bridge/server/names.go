package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"baton/configs"
	"baton/federation"
	"baton/federation/agents"
	"baton/federation/identity"
)

// BoundNames knows the names of DIDs: the names of the configuration, and the names of the record that the
// configuration does not bind. So each name has one DID. It implements [Names].
type BoundNames struct {
	Record     NameRecord
	Configured func() []federation.BoundName // may change while the gateway runs
}

// NameRecord keeps the names that operators bound.
type NameRecord interface {
	// BoundName returns [federation.ErrNotFound] for a name that is not bound.
	BoundName(ctx context.Context, network, name string) (federation.BoundName, error)
	// BoundNames returns up to limit bindings after the one of a name, in the order of
	// networks and names.
	BoundNames(ctx context.Context, network, name string, limit int) ([]federation.BoundName, error)
	// NamesOf returns the bindings of a DID, in the same order.
	NamesOf(ctx context.Context, did federation.DID) ([]federation.BoundName, error)
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

// ByHash returns the one DID of all bindings whose hash has a prefix, "" where none or several
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

// boundNames returns the bindings of a configuration. It adds mistakes in their tables to the
// mistakes of the file. The links are the names of its links; nil where some are unknown.
func boundNames(file *configs.File, links map[string]bool) []federation.BoundName {
	var bound []federation.BoundName
	taken := map[[2]string]bool{}
	for _, t := range file.Tables("bindings") {
		var table configs.Binding
		t.Decode(&table)
		did, err := federation.ParseDID(table.DID)
		if err != nil {
			t.Mistake("did", "want a DID, such as did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
		} else if err := identity.CheckDID(did); err != nil {
			t.Mistake("did", "no party can prove it: "+err.Error())
		}
		if table.Name == "" {
			t.Mistake("name", "is required")
		}
		if agents.ReservedName(table.Network, table.Name) {
			t.Mistake("name", "names with plc_, web_ or key_ in front stand for DIDs by themselves")
		}
		if links != nil && !links[table.Network] {
			t.Mistake("network", fmt.Sprintf("want the name of a link: %s", strings.Join(slices.Sorted(maps.Keys(links)), ", ")))
		}
		key := [2]string{table.Network, table.Name}
		if taken[key] {
			t.Mistake("name", fmt.Sprintf("%q is bound above: a name stands for one DID", table.Name))
		}
		taken[key] = true
		bound = append(bound, federation.BoundName{Network: table.Network, Name: table.Name, DID: did, Vouch: table.Vouch})
	}
	return bound
}
