package participant

import (
	"context"
	"slices"
	"time"

	"baton/federation"
)

// Agent is a DID with its name and the capabilities that it declared.
type Agent struct {
	DID  federation.DID
	Name string
	Caps []string // never nil
}

// Agent returns the known data of a DID, or of its owner if the gateway keeps that key.
func (a *Access) Agent(ctx context.Context, did federation.DID) (Agent, error) {
	did, err := a.deps.Gateway.Owner(ctx, did)
	if err != nil {
		return Agent{}, err
	}
	caps, err := a.deps.Skills.Declared(ctx, did)
	if caps == nil {
		caps = []string{}
	}
	return Agent{DID: did, Name: a.Name(ctx, did), Caps: caps}, err
}

// Declare replaces the capabilities that a DID declared here. Only the DID itself may.
func (a *Access) Declare(ctx context.Context, who Caller, did federation.DID, caps []string, now time.Time) (Agent, error) {
	own, err := who.Person()
	if err != nil {
		return Agent{}, err
	}
	if did != own {
		return Agent{}, Forbidden("only " + string(own) + " declares what it can do with this token")
	}
	caps = slices.Compact(slices.Sorted(slices.Values(caps)))
	if err := a.deps.Skills.Declare(ctx, own, caps, now); err != nil {
		return Agent{}, err
	}
	return a.Agent(ctx, own)
}

// Name returns the name of a DID that people read.
func (a *Access) Name(ctx context.Context, did federation.DID) string {
	return a.deps.Gateway.Name(ctx, did)
}
