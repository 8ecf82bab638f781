package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// CapabilityRecord keeps the capabilities that participants declared. Its methods block on the record
// and return its errors.
type CapabilityRecord interface {
	// Declare replaces the capabilities that a DID declared.
	Declare(ctx context.Context, did federation.DID, caps []string, now time.Time) error
	// Declaration returns the capabilities that a DID declared; none is no error.
	Declaration(ctx context.Context, did federation.DID) ([]string, error)
	// AgentOf returns [federation.ErrNotFound] for a DID that no agent has.
	AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error)
}

// Capabilities knows the capabilities of DIDs: declared ones, and ones that their agents registered. It
// implements home.Capabilities.
type Capabilities struct{ Record CapabilityRecord }

// Declare replaces the capabilities that a DID declared.
func (c Capabilities) Declare(ctx context.Context, did federation.DID, caps []string, now time.Time) error {
	return c.Record.Declare(ctx, did, caps, now)
}

// Declared returns what a DID can do, each capability once.
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

// AgentFinder finds the agent of a DID.
type AgentFinder interface {
	// AgentOf returns [federation.ErrNotFound] for a DID that no agent has. It blocks on the
	// record, and returns its error.
	AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error)
}

// SignsFor reports whether the gateway signs as a DID for an agent. The answer is yes while the record
// cannot be read, which gives no other party an advantage.
func SignsFor(ctx context.Context, record AgentFinder, did federation.DID) bool {
	agent, err := record.AgentOf(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return false
	}
	return err != nil || agent.DID == did
}
