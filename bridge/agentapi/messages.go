package agentapi

import (
	"context"
	"encoding/hex"

	"baton/bridge/agentapi/contract"
	"baton/federation"
)

func (l *Link) createMessage(ctx context.Context, req contract.MessageOnce) (contract.Sent, error) {
	body, err := req.Body.Read()
	if err != nil {
		return contract.Sent{}, err
	}
	return l.access.Say(ctx, callerOf(ctx).Caller, body, req.IdempotencyKey)
}

// The types of what is in an inbox.
const (
	typeStep    = "step"
	typeMessage = "message"
)

// typeOf returns the type of an entry.
func typeOf(e federation.Entry) string {
	if e.Event.IsMessage() {
		return typeMessage
	}
	return typeStep
}

func (l *Link) shapeMessage(ctx context.Context, e federation.Entry) contract.Message {
	ev := e.Event
	m := contract.Message{
		ID: ev.ID.String(), From: string(ev.Actor()), Name: l.access.Name(ctx, ev.Actor()), To: string(ev.To), Text: ev.Text(), Handoff: ev.About().String(),
		Network: ev.Arrival.Network, Time: moment(ev.Time()), Filed: moment(e.Filed),
		Introduction: introduction(ev),
	}
	if ev.Evidence != nil {
		m.Evidence = contract.Evidence{URL: ev.Evidence.URL, Sha256: hex.EncodeToString(ev.Evidence.Digest[:])}
	}
	return m
}
