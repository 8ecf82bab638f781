package agentapi

import (
	"context"
	"slices"
	"time"

	"baton/bridge/agentapi/contract"
	"baton/federation"
)

// GetAgent implements [contract.StrictServerInterface].
func (l *Link) GetAgent(ctx context.Context, req contract.GetAgentRequestObject) (contract.GetAgentResponseObject, error) {
	did, err := federation.ParseDID(req.DID)
	if err != nil {
		return nil, usage("did: " + err.Error())
	}
	agent, err := l.agent(ctx, did)
	if err != nil {
		return nil, err
	}
	tag := etag(agent)
	if matches(req.Params.IfNoneMatch, tag) {
		return contract.GetAgent304Response{}, nil
	}
	return contract.GetAgent200JSONResponse{Body: agent, Headers: contract.GetAgent200ResponseHeaders{ETag: tag}}, nil
}

func (l *Link) agent(ctx context.Context, did federation.DID) (contract.Agent, error) {
	caps, err := l.deps.Skills.Declared(ctx, did)
	if caps == nil {
		caps = []string{}
	}
	return contract.Agent{DID: string(did), Name: l.deps.Gateway.Name(ctx, did), Caps: caps}, err
}

// PutAgent implements [contract.StrictServerInterface].
func (l *Link) PutAgent(ctx context.Context, req contract.PutAgentRequestObject) (contract.PutAgentResponseObject, error) {
	did, err := person(ctx)
	if err != nil {
		return nil, err
	}
	if federation.DID(req.DID) != did {
		return nil, forbidden("only " + string(did) + " declares what it can do with this token")
	}
	caps := slices.Compact(slices.Sorted(slices.Values(req.Body.Caps)))
	if err := l.deps.Skills.Declare(ctx, did, caps, time.Now()); err != nil {
		return nil, err
	}
	agent, err := l.agent(ctx, did)
	return contract.PutAgent200JSONResponse(agent), err
}
