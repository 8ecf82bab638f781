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
	"baton/federation/store/registry"
)

// Participant is a person or an agent that has a handle here.
type Participant struct {
	Handle string
	DIDs   []federation.DID // that it may act as
	// Bound is the DID that an operator bound the handle to, "" for none. The participant may
	// act as it only if DIDs has it too.
	Bound federation.DID
}

// participants knows the people and agents behind DIDs: the agents that registered. Its errors wrap
// [federation.ErrNotFound] for one that the record does not know.
type participants struct{ registry.Bound }

// WithHandle returns the participant that has a handle.
func (a participants) WithHandle(ctx context.Context, handle string) (Participant, error) {
	return participantOf(a.Agent(ctx, handle))
}

// WithDID returns the participant that has, or had, a DID.
func (a participants) WithDID(ctx context.Context, did federation.DID) (Participant, error) {
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
	registry.BoundNames

	agents registry.Bound
}

// Seen implements [bridge.Bindings].
func (b Bindings) Seen(ctx context.Context, did federation.DID) (federation.Binding, error) {
	return b.Record.Binding(ctx, did)
}

// Participant implements [bridge.Bindings].
func (b Bindings) Participant(ctx context.Context, handle string) (federation.DID, error) {
	agent, err := b.agents.Agent(ctx, handle)
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
