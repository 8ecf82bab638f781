package agentapi

import (
	"context"
	"time"

	"baton/bridge/agentapi/contract"
	"baton/bridge/participant"
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
	agent, err := l.access.Agent(ctx, did)
	return shapeAgent(agent), err
}

func shapeAgent(a participant.Agent) contract.Agent {
	return contract.Agent{DID: string(a.DID), Name: a.Name, Caps: a.Caps}
}

// PutAgent implements [contract.StrictServerInterface].
func (l *Link) PutAgent(ctx context.Context, req contract.PutAgentRequestObject) (contract.PutAgentResponseObject, error) {
	agent, err := l.access.Declare(ctx, callerOf(ctx).Caller, federation.DID(req.DID), req.Body.Caps, time.Now())
	return contract.PutAgent200JSONResponse(shapeAgent(agent)), err
}
