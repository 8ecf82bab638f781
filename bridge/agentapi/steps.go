package agentapi

import (
	"context"

	"baton/bridge/agentapi/contract"
	"baton/bridge/participant"
	"baton/federation"
)

func (l *Link) createHandoff(ctx context.Context, req contract.OfferOnce) (contract.Filed, error) {
	body, err := req.Body.Read()
	if err != nil {
		return contract.Filed{}, err
	}
	return l.access.Offer(ctx, callerOf(ctx).Caller, body, participant.Request{Key: req.IdempotencyKey})
}

func (l *Link) createStep(ctx context.Context, req contract.StepOnce) (contract.Filed, error) {
	body, err := req.Body.Read()
	if err != nil {
		return contract.Filed{}, err
	}
	key := participant.Request{Key: req.IdempotencyKey}
	return l.access.Take(ctx, callerOf(ctx).Caller, req.ID, federation.Verb(req.Verb), body, key)
}
