package agentapi

import (
	"context"
	"time"

	"baton/bridge/agentapi/contract"
	"baton/bridge/participant"
	"baton/federation"
)

func (l *Link) getAgent(ctx context.Context, req contract.AgentByDID) (contract.Agent, error) {
	did, err := federation.ParseDID(req.DID)
	if err != nil {
		return contract.Agent{}, usage("did: " + err.Error())
	}
	agent, err := l.access.Agent(ctx, did)
	return shapeAgent(agent), err
}

func shapeAgent(a participant.Agent) contract.Agent {
	return contract.Agent{DID: string(a.DID), Name: a.Name, Caps: a.Caps}
}

func (l *Link) putAgent(ctx context.Context, req contract.AgentChange) (contract.Agent, error) {
	body, err := req.Body.Read()
	if err != nil {
		return contract.Agent{}, err
	}
	agent, err := l.access.Declare(ctx, callerOf(ctx).Caller, federation.DID(req.DID), body.Caps, time.Now())
	return shapeAgent(agent), err
}
