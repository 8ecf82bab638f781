package airc

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"baton/bridge/airc/peers"
	"baton/bridge/airc/wire"
	"baton/federation/agents"
)

// statusQueued is told of a message that its recipient's registry has still to take.
const statusQueued = "queued"

// postToRemote files a message to an agent of another registry and queues it for that
// registry, which applies the consent of the agent. The sender thereby accepts the agent, as
// with a DID of another network, and gets a notice of its outcome.
func (l *Link) postToRemote(ctx context.Context, d *delivery, domain string) (answer, error) {
	if reason, unverified := writeInstead(d.recipient.handle); unverified {
		return answer{}, wire.Refuse(wire.CodeIdentityNotFound, reason)
	}
	if _, federated := l.peers.Exchanges(domain); !federated {
		return answer{}, peers.ErrBlocked()
	}
	if _, fromElsewhere := wire.SplitAddress(d.from); fromElsewhere {
		return answer{}, wire.Refuse(wire.CodeIdentityNotFound, "messages are not passed on from one registry to another")
	}
	agent, err := l.acquaint(ctx, d.recipient.handle, d.received)
	if err != nil {
		return answer{}, err
	}
	d.recipient.agent = &agent
	step, err := l.stepOf(ctx, d)
	if err != nil {
		return answer{}, err
	}
	if err := l.befriend(ctx, d.recipient.handle, d.from, d.received); err != nil {
		return answer{}, err
	}
	p := agents.Posting{Message: d.message(step)}
	if p.Relay, err = l.peers.Relay(d.recipient.handle, p.Message, d.body, d.payload); err != nil {
		return answer{}, err
	}
	if _, err := l.put(ctx, p); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusAccepted, body: posted{ID: d.id, Status: statusQueued, Handoff: step}}, nil
}

// stepOf files the step of a message to an agent, nil where the message is none.
func (l *Link) stepOf(ctx context.Context, d *delivery) (*filed, error) {
	s, err := l.readStep(ctx, d)
	switch {
	case err == nil:
		return l.submit(ctx, d, s)
	case errors.Is(err, errPlain):
		return nil, l.charge(ctx, d)
	}
	return nil, err
}

// relayStep queues what an agent of another registry is told of a step.
func (l *Link) relayStep(p *agents.Posting, body string, payload any) error {
	if _, isRemote := wire.SplitAddress(p.Message.To); !isRemote {
		return nil
	}
	text, err := wire.Marshal(payload)
	if err != nil {
		return fmt.Errorf("relay step: %w", err)
	}
	p.Relay, err = l.peers.Relay(p.Message.To, p.Message, body, text)
	return err
}
