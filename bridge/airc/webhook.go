package airc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"baton/bridge"
	"baton/bridge/airc/wire"
	"baton/federation"
	"baton/federation/agents"
	"baton/translate/aircmsg"
)

// deliverWebhook is the word in an agent's delivery for being called.
//
// spec: airc-v0.1.1 "Appendix B"
const deliverWebhook = "webhook"

var _ bridge.Pusher = (*Link)(nil)

// splitWebhook returns the address that what reaches an agent is to be posted to, "" for
// none, and its capabilities without it: they are shown to everybody, and an address is
// often as good as a secret.
func splitWebhook(text json.RawMessage) (address string, shown json.RawMessage, err error) {
	var members map[string]json.RawMessage
	if err := federation.DecodeJSON(text, &members); err != nil || members["webhook"] == nil {
		return "", text, nil //nolint:nilerr // what is no object has none
	}
	if err := federation.DecodeJSON(members["webhook"], &address); err != nil {
		return "", nil, wire.Refuse(wire.CodeBadRequest, "capabilities: webhook is an address")
	}
	delete(members, "webhook")
	shown, err = json.Marshal(members)
	if err != nil {
		return "", nil, fmt.Errorf("write capabilities: %w", err)
	}
	c, err := parseCapabilities(text)
	if err != nil || !slices.Contains(c.Delivery, deliverWebhook) {
		return "", shown, nil //nolint:nilerr // the reader of the capabilities reports the error
	}
	return address, shown, nil
}

// checkWebhook refuses an address that nothing is posted to.
func (l *Link) checkWebhook(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	if l.deps.Hooks == nil {
		return wire.Refuse(wire.CodeBadRequest, "capabilities: there are no webhooks here; poll")
	}
	err := l.deps.Hooks.Check(ctx, address)
	if errors.Is(err, bridge.ErrAddress) {
		return wire.Refuse(wire.CodeBadRequest, "capabilities: webhook: "+bridge.ErrAddress.Error())
	}
	return err
}

// hook is a webhook as an agent is told of it, once.
type hook struct {
	ID        federation.WebhookID `json:"id"`
	URL       string               `json:"url"`
	Secret    string               `json:"secret"`
	PublicKey string               `json:"publicKey"`
}

// hook registers the address of an agent that has just registered. An agent without is
// told of none: it can poll, and ask for one at the API for agents.
func (l *Link) hook(ctx context.Context, agent agents.Agent, address string, in federation.Session, now time.Time) *hook {
	if address == "" {
		return nil
	}
	made, err := l.deps.Hooks.Register(ctx, federation.Webhook{DID: agent.DID, Participant: agent.Handle, URL: address}.In(in), now)
	if err != nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelError, "webhook not kept", slog.String("network", wire.Network), slog.String("link", wire.Network),
			slog.String("did", string(agent.DID)), slog.Any("err", err))
		return nil
	}
	return &hook{ID: made.ID, URL: made.URL, Secret: made.Secret, PublicKey: made.PublicKey}
}

// Pushes implements [bridge.Pusher].
func (*Link) Pushes(h federation.Webhook) bool { return h.Participant != "" }

// Write implements [bridge.Pusher]: a message as the inbox has it.
func (l *Link) Write(ctx context.Context, _ federation.Webhook, p federation.Push) (kind string, data []byte, err error) {
	m, err := messageOf(p)
	if err == nil {
		data, err = l.delivered(ctx, m)
	}
	return "airc.message", data, err
}

// Taken implements [bridge.Pusher]: the agent was handed the message, as if it had
// fetched it.
func (l *Link) Taken(ctx context.Context, h federation.Webhook, p federation.Push) error {
	m, err := messageOf(p)
	if err != nil {
		return err
	}
	agent, err := l.deps.Record.Agent(ctx, h.Participant)
	if err != nil {
		return fmt.Errorf("look up agent: %w", err)
	}
	return l.shown(agent, page{messages: []agents.Message{m}})(ctx)
}

// messageOf returns the message of a push to an agent.
func messageOf(p federation.Push) (agents.Message, error) {
	m, ok := p.Content.(agents.Message)
	if !ok {
		return m, fmt.Errorf("the push %s holds a %T instead of a message", p.Ref(), p.Content)
	}
	return m, nil
}

// tellDisabled tells an agent that a webhook of its is called no more: a message from the
// registry, which it finds when it polls.
func (l *Link) tellDisabled(ctx context.Context, agent agents.Agent, n federation.Notice) error {
	h := n.Webhook
	m, err := l.seal(ctx, outgoing{
		ID: sumID(h.ID.String(), "disabled", strconv.FormatInt(h.Disabled.UnixNano(), 10)), From: systemHandle, To: agent.Handle,
		Body:    sentenceOf(n),
		Payload: aircmsg.Payload{Type: "system:webhook_disabled", Data: wire.Members{"webhook": h.ID.String(), "url": h.URL, "reason": h.Why}},
	}, time.Now())
	if err != nil {
		return err
	}
	return l.putOnce(ctx, m)
}
