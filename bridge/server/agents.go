package server

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"baton/bridge"
	"baton/bridge/a2a"
	"baton/bridge/agentapi"
	"baton/bridge/operatorapi"
	"baton/bridge/participant"
	"baton/federation"
	"baton/federation/store/registry"
)

// participantDeps returns the parts that the networks of agents share, beside the ports of each link.
func (s *Server) participantDeps(record registry.Bound) participant.Deps {
	return participant.Deps{
		Handoffs: record, Inbox: record, Answers: record, Steps: record, Skills: Capabilities{Record: record},
		Callers: callers{s.Gateway.Links(), operatorapi.Bearers(s.Record.Operators)}, Sessions: record, Venues: s.Gateway.Links(), Rates: s.Gateway.Rates(), Passports: s, Seen: s.Gateway.Seen,
		Streams: &s.streams, Logins: s.logins, TokenKey: s.keyring.Token(),
	}
}

// openAccess returns the operations of participants through a network of this server.
func (s *Server) openAccess(network string) *participant.Access {
	deps := s.participantDeps(s.bound())
	deps.Ports = filePorts(s.file, s.Wiring().Ports)
	return participant.Open(network, deps)
}

// agentsDeps returns the parts that the REST API for agents needs beside the ports of each link.
func (s *Server) agentsDeps(record registry.Bound) agentapi.Deps {
	return agentapi.Deps{
		Deps: s.participantDeps(record), Leases: record, Notices: record, Webhooks: record, Hooks: s.agentHooks(),
	}
}

// callers implements [participant.Callers].
type callers struct {
	*LinkSet

	operators operatorapi.Admission
}

// Operator implements [participant.Callers]: the token is that of an operator that may read.
func (c callers) Operator(r *http.Request) (bool, error) {
	_, err := c.operators(r, federation.ReadScope)
	if _, denied := errors.AsType[*operatorapi.ProblemError](err); denied {
		return false, nil
	}
	return err == nil, err
}

// agentHooks returns the maker of webhooks, nil if the configuration has none.
func (s *Server) agentHooks() bridge.Webhooks { //nolint:ireturn // a nil pointer in the interface would look like one
	if s.hooks == nil {
		return nil
	}
	return s.hooks
}

// a2aDeps returns the parts that the A2A server needs beside the ports of each link.
func (s *Server) a2aDeps(record registry.Bound) a2a.Deps {
	return a2a.Deps{
		Deps: s.participantDeps(record), Agents: residents{record, s}, Record: record, Webhooks: record, Hooks: s.agentHooks(),
		PublicKeys: s.serverKeysAt, Version: s.options.Version,
	}
}

// residents implements [a2a.Agents].
type residents struct {
	registry.Bound

	server *Server
}

// Here implements [a2a.Agents].
func (r residents) Here(ctx context.Context, did federation.DID) (bool, error) {
	return r.server.homes.locator.Here(ctx, did)
}

// serverKeysAt implements [a2a.PublicKeys].
func (s *Server) serverKeysAt(now time.Time) []ed25519.PublicKey {
	var keys []ed25519.PublicKey
	for _, key := range s.keyring.ServerKeys(s.homeID(), now) {
		keys = append(keys, key.Public)
	}
	return keys
}

// Capabilities knows the capabilities of DIDs: declared ones, and ones that their agents registered. It
// implements home.Capabilities.
type Capabilities struct{ Record registry.Bound }

// Declare replaces the capabilities that a DID declared.
func (c Capabilities) Declare(ctx context.Context, did federation.DID, caps []string, now time.Time) error {
	return c.Record.Declare(ctx, did, caps, now)
}

// Declared returns the capabilities of a DID, each once.
func (c Capabilities) Declared(ctx context.Context, did federation.DID) ([]string, error) {
	said, err := c.Record.Declaration(ctx, did)
	if err != nil {
		return nil, err
	}
	registered, err := c.registered(ctx, did)
	return slices.Compact(slices.Sorted(slices.Values(append(said, registered...)))), err
}

// registered returns the capabilities of an agent, none for any other DID.
func (c Capabilities) registered(ctx context.Context, did federation.DID) ([]string, error) {
	agent, err := c.Record.AgentOf(ctx, did)
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
		if err := federation.DecodeJSON(agent.Capabilities, &declared); err != nil {
			return nil, fmt.Errorf("read capabilities of %s: %w", agent.Handle, err)
		}
	}
	return declared.Skills, nil
}

// SignsFor reports whether the gateway signs as a DID for an agent. The answer is yes while the record
// cannot be read, which gives no other party an advantage.
func SignsFor(ctx context.Context, record *registry.Record, did federation.DID) bool {
	agent, err := record.AgentOf(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return false
	}
	return err != nil || agent.DID == did
}

var _ bridge.Presence = (*Gateway)(nil)

// Left implements [bridge.Presence].
func (g *Gateway) Left(ctx context.Context, did federation.DID) bool {
	binding, err := g.participants.Binding(ctx, did)
	if err != nil {
		return false
	}
	placer, up := g.links.placerUp(binding.Link)
	if !up || placer.Online(ctx, binding) {
		return false
	}
	elsewhere, err := g.loggedIn(ctx, did, binding.Link)
	return err == nil && !elsewhere
}
