package airc

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/translate/aircmsg"
)

var _ bridge.Notifier = (*Link)(nil)

// Notify implements [bridge.Notifier]. The message ID is derived from the notice, so that repeats are
// the same message.
func (l *Link) Notify(ctx context.Context, n federation.Notice) error {
	row := n.Row()
	agent, err := l.deps.Record.AgentOf(ctx, n.Reader())
	if errors.Is(err, federation.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up agent: %w", err)
	}
	if n.Kind == federation.NoticeDisabled {
		h := n.Webhook
		m, err := l.sign(ctx, outgoing{
			ID: sumID(h.ID.String(), "disabled", strconv.FormatInt(h.Disabled.UnixNano(), 10)), From: systemHandle, To: agent.Handle,
			Body:    sentenceOf(n),
			Payload: aircmsg.Payload{Type: "system:webhook_disabled", Data: wire.Members{"webhook": h.ID.String(), "url": h.URL, "reason": h.Why}},
		}, time.Now())
		if err != nil {
			return err
		}
		return l.putOnce(ctx, m)
	}
	data := wire.Members{"notice": n.Kind, "messageId": row.WireID()}
	if n.Text == nil {
		v, err := l.deps.Gateway.View(ctx, row.Handoff)
		if err != nil {
			return fmt.Errorf("read handoff %s: %w", row.Handoff, err)
		}
		data["handoff"] = filed{ID: row.Handoff, Event: row.Verb, EventID: row.ID, State: v.State}
	}
	if n.Code != "" {
		data["code"] = n.Code
	}
	m, err := l.sign(ctx, outgoing{
		ID: sumID(string(row.From), row.ID.String(), string(n.Kind)), From: systemHandle, To: agent.Handle, Body: sentenceOf(n),
		Payload: aircmsg.Payload{Type: aircmsg.TypeHandoff, Data: data},
	}, time.Now())
	if err != nil {
		return err
	}
	m.Handoff = row.Handoff
	return l.putOnce(ctx, m)
}

// putOnce accepts a message that is already on file.
func (l *Link) putOnce(ctx context.Context, m agents.Message) error {
	if _, err := l.put(ctx, agents.Posting{Message: m}); !errors.Is(err, agents.ErrDuplicate) {
		return err
	}
	return nil
}

func sentenceOf(n federation.Notice) string {
	sentence := n.Sentence()
	return strings.ToUpper(sentence[:1]) + sentence[1:] + "."
}

func sumID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, " ")))
	return "sys_" + base64.RawURLEncoding.EncodeToString(sum[:wire.MessageIDBytes])
}

// notify does nothing if the sender is not a local agent.
func (l *Link) notify(ctx context.Context, row federation.PeerDelivery, notice, reason string, now time.Time) error {
	_, err := l.deps.Record.Agent(ctx, row.Sender)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return nil // a DID of another network, or a role
	case err != nil:
		return fmt.Errorf("look up sender: %w", err)
	}
	_, to, _ := strings.Cut(row.OrderKey, " ")
	data := wire.Members{"notice": notice, "messageId": row.Message}
	if reason != "" {
		data["code"] = reason
	}
	if !row.Handoff.IsZero() {
		data["handoff"] = wire.Members{"id": row.Handoff}
	}
	body := fmt.Sprintf("Your message to %s@%s is %s.", to, row.Peer, notice)
	m, err := l.sign(ctx, outgoing{
		ID: sumID(row.Sender, row.Message, notice), From: systemHandle, To: row.Sender, Body: body, Payload: aircmsg.Payload{Type: aircmsg.TypeHandoff, Data: data},
	}, now)
	if err != nil {
		return err
	}
	return l.putOnce(ctx, m)
}

var _ bridge.RefusalNotifier = (*Link)(nil)

// spec: airc-shapes "A step as payload"
type notice struct {
	Type string     `json:"type"`
	Data noticeData `json:"data"`
}

type noticeData struct {
	Notice  string                 `json:"notice"`
	Code    federation.RefusalCode `json:"code"`
	Handoff filed                  `json:"handoff"`
}

// NotifyRefusal implements [bridge.RefusalNotifier].
func (l *Link) NotifyRefusal(ctx context.Context, ev federation.Event, refused *federation.RefusalError) error {
	agent, err := l.deps.Record.AgentOf(ctx, ev.From)
	if errors.Is(err, federation.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up agent: %w", err)
	}
	state := refused.View.State
	if state == "" {
		v, err := l.deps.Gateway.View(ctx, ev.Handoff)
		if err != nil {
			return fmt.Errorf("read handoff %s: %w", ev.Handoff, err)
		}
		state = v.State
	}
	body := fmt.Sprintf("Your %s of handoff %s was refused: %s.", ev.Verb, ev.Handoff.Short(), refused.Sentence())
	m, err := l.sign(ctx, outgoing{From: systemHandle, To: agent.Handle, Body: body, Payload: notice{Type: aircmsg.TypeHandoff, Data: noticeData{
		Notice: "refused", Code: refused.Code, Handoff: filed{ID: ev.Handoff, Event: ev.Verb, EventID: ev.ID, State: state},
	}}}, time.Now())
	if err != nil {
		return err
	}
	m.Handoff = ev.Handoff
	_, err = l.put(ctx, agents.Posting{Message: m})
	return err
}

// spec: airc-v0.1.1 "Appendix B"
const deliverWebhook = "webhook"

var _ bridge.Pusher = (*Link)(nil)

// splitWebhook separates the address, which is often secret, from the public capabilities.
func splitWebhook(text json.RawMessage) (address string, shown json.RawMessage, err error) {
	var members map[string]json.RawMessage
	if err := federation.DecodeJSON(text, &members); err != nil || members["webhook"] == nil {
		return "", text, nil //nolint:nilerr // only an object has a webhook
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

// hook is the only response that contains the webhook's secret.
type hook struct {
	ID        federation.WebhookID `json:"id"`
	URL       string               `json:"url"`
	Secret    string               `json:"secret"`
	PublicKey string               `json:"publicKey"`
}

// hook returns nil on failure: the agent can poll, and register a webhook at the agent API.
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

// Write implements [bridge.Pusher].
func (l *Link) Write(ctx context.Context, _ federation.Webhook, p federation.Push) (kind string, data []byte, err error) {
	m, err := messageOf(p)
	if err == nil {
		data, err = l.delivered(ctx, m)
	}
	return "airc.message", data, err
}

// Taken implements [bridge.Pusher]. The message counts as fetched.
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

func messageOf(p federation.Push) (agents.Message, error) {
	m, ok := p.Content.(agents.Message)
	if !ok {
		return m, fmt.Errorf("the push %s holds a %T instead of a message", p.Ref(), p.Content)
	}
	return m, nil
}
