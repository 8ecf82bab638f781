package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/bridge/webhook"
	"github.com/baton-gateway/baton/federation"
)

var _ bridge.Pusher = (*Link)(nil)

// Pushes implements [bridge.Pusher].
func (*Link) Pushes(h federation.Webhook) bool { return h.Participant == "" && h.Handoff.IsZero() }

// Write implements [bridge.Pusher].
func (l *Link) Write(ctx context.Context, _ federation.Webhook, p federation.Push) (kind string, data []byte, err error) {
	if p.Notice.Kind != "" {
		data, err = json.Marshal(shapeNotice(p.Notice))
		return "notice." + string(p.Notice.Kind), data, err
	}
	data, err = json.Marshal(l.shapeEntry(ctx, p.Entry))
	if p.Entry.Text != nil {
		return typeMessage, data, err
	}
	return string(p.Entry.Event.Kind) + "." + string(p.Entry.Event.Verb), data, err
}

// Taken implements [bridge.Pusher] and does nothing: the end of a push marks the entry as delivered.
func (*Link) Taken(context.Context, federation.Webhook, federation.Push) error { return nil }

func (l *Link) hooked(ctx context.Context) (federation.DID, error) {
	if l.deps.Hooks == nil {
		return "", &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: "there are no webhooks here"}
	}
	return person(ctx)
}

// hook reports webhooks of other DIDs as missing.
func (l *Link) hook(ctx context.Context, text string) (federation.Webhook, error) {
	did, err := l.hooked(ctx)
	if err != nil {
		return federation.Webhook{}, err
	}
	id, err := federation.ParseEventID(text)
	if err != nil {
		return federation.Webhook{}, usage("id: " + err.Error())
	}
	h, err := l.deps.Record.Webhook(ctx, id)
	if errors.Is(err, federation.ErrNotFound) || err == nil && (h.DID != did || !h.Handoff.IsZero()) {
		return federation.Webhook{}, &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: "there is no webhook " + text}
	}
	return h, err
}

func (l *Link) shapeHook(ctx context.Context, h federation.Webhook) (contract.Webhook, error) {
	backlog, err := l.deps.Record.WebhookBacklog(ctx, h.ID)
	if err != nil {
		return contract.Webhook{}, err
	}
	public, err := l.deps.Hooks.PublicKey(h.ID)
	shaped := contract.Webhook{
		ID: h.ID.String(), URL: h.URL, Of: "inbox", CreatedAt: participant.Timestamp(h.Since), PublicKey: public, Waiting: backlog.Rows, Dead: backlog.Dead,
		DisabledAt: participant.Timestamp(h.Disabled), DisabledWhy: h.Why,
	}
	if h.Participant != "" {
		shaped.Of = "messages"
	}
	return shaped, err
}

func (l *Link) listWebhooks(ctx context.Context, _ struct{}) (contract.WebhookList, error) {
	var list contract.WebhookList
	did, err := l.hooked(ctx)
	if err != nil {
		return list, err
	}
	hooks, err := l.deps.Record.Webhooks(ctx, did, federation.WebhookID{}, maxLimit)
	if err != nil {
		return list, err
	}
	list = contract.WebhookList{Items: make([]contract.Webhook, len(hooks))}
	for i, h := range hooks {
		if list.Items[i], err = l.shapeHook(ctx, h); err != nil {
			return list, err
		}
	}
	return list, nil
}

type made struct{ contract.Webhook }

// AnswerHeader implements [route.Headed].
func (m made) AnswerHeader(h http.Header) { h.Set("Location", Prefix+"webhooks/"+m.ID) }

func (l *Link) createWebhook(ctx context.Context, req route.Body[contract.WebhookRequest]) (made, error) {
	did, err := l.hooked(ctx)
	if err != nil {
		return made{}, err
	}
	body, err := req.Read()
	if err != nil {
		return made{}, err
	}
	agent := ""
	if body.Of == contract.OfMessages {
		of, err := l.deps.Record.AgentOf(ctx, did)
		if errors.Is(err, federation.ErrNotFound) {
			return made{}, usage("of: only an agent that registered at the AIRC registry here has messages")
		}
		if err != nil {
			return made{}, fmt.Errorf("look up agent: %w", err)
		}
		agent = of.Handle
	}
	hook := federation.Webhook{DID: did, Participant: agent, URL: body.URL}.In(callerOf(ctx).Session)
	registered, err := l.deps.Hooks.Register(ctx, hook, time.Now())
	switch {
	case errors.Is(err, bridge.ErrAddress):
		return made{}, usage("url: " + err.Error())
	case errors.Is(err, federation.ErrTaken):
		return made{}, participant.Conflict("there is a webhook with this address already; delete it to get another secret")
	case errors.Is(err, federation.ErrTooManyWebhooks):
		return made{}, participant.Conflict("the maximum number of webhooks is reached; delete one")
	case err != nil:
		return made{}, err
	}
	shaped, err := l.shapeHook(ctx, registered.Webhook)
	shaped.Secret = registered.Secret
	return made{shaped}, err
}

func (l *Link) getWebhook(ctx context.Context, req contract.ByID) (contract.Webhook, error) {
	h, err := l.hook(ctx, req.ID)
	if err != nil {
		return contract.Webhook{}, err
	}
	return l.shapeHook(ctx, h)
}

func (l *Link) deleteWebhook(ctx context.Context, req contract.ByID) (route.None, error) {
	h, err := l.hook(ctx, req.ID)
	if err != nil {
		return route.None{}, err
	}
	if err := l.deps.Record.RemoveWebhook(ctx, h.ID); err != nil && !errors.Is(err, federation.ErrNotFound) { // another request removed it
		return route.None{}, err
	}
	return route.None{}, nil
}

func (l *Link) enableWebhook(ctx context.Context, req contract.ByID) (contract.Webhook, error) {
	h, err := l.hook(ctx, req.ID)
	if err != nil {
		return contract.Webhook{}, err
	}
	err = l.deps.Hooks.Enable(ctx, h.In(callerOf(ctx).Session))
	if errors.Is(err, bridge.ErrAddress) {
		return contract.Webhook{}, participant.Conflict(err.Error())
	}
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return contract.Webhook{}, err
	}
	if h, err = l.hook(ctx, req.ID); err != nil {
		return contract.Webhook{}, err
	}
	return l.shapeHook(ctx, h)
}

func (l *Link) listWebhookDeliveries(ctx context.Context, req contract.WebhookDeliveries) (contract.WebhookDeliveryPage, error) {
	var page contract.WebhookDeliveryPage
	h, err := l.hook(ctx, req.ID)
	if err != nil {
		return page, err
	}
	before := int64(0)
	if req.Cursor != "" {
		if before, err = strconv.ParseInt(req.Cursor, 10, 64); err != nil || before < 1 {
			return page, federation.ErrUnknownCursor
		}
	}
	pushes, err := l.deps.Record.Pushes(ctx, h.ID, before, req.Limit)
	if err != nil {
		return page, err
	}
	page = contract.WebhookDeliveryPage{Items: make([]contract.WebhookDelivery, len(pushes))}
	for i, p := range pushes {
		page.Items[i] = contract.WebhookDelivery{
			WebhookID: webhook.ID(h, p), Of: p.Ref(), HandoffID: p.Handoff().String(), Verb: string(p.Entry.Row().Verb), State: string(p.State),
			Attempt: p.Attempt, Queued: participant.Timestamp(p.Queued), Next: participant.Timestamp(p.Next), Ended: participant.Timestamp(p.Ended), LastError: p.Reason,
		}
	}
	if len(pushes) == req.Limit {
		page.NextCursor = strconv.FormatInt(pushes[req.Limit-1].Item, 10)
	}
	return page, nil
}

func (l *Link) redeliverWebhook(ctx context.Context, req contract.WebhookRedelivery) (contract.Redelivered, error) {
	var none contract.Redelivered
	body, err := req.Body.Read()
	if err != nil {
		return none, err
	}
	h, err := l.hook(ctx, req.ID)
	if err != nil {
		return none, err
	}
	if !h.Disabled.IsZero() {
		return none, participant.Conflict("this webhook is disabled: " + h.Why + "; enable it first, with POST " + Prefix + "webhooks/" + h.ID.String() + "/enable")
	}
	n, err := l.deps.Record.PushAgain(ctx, h.ID, body.Of, time.Now())
	if err != nil {
		return none, fmt.Errorf("redeliver: %w", err)
	}
	if n == 0 && body.Of != "" {
		return none, &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: "this webhook has no delivery of " + body.Of}
	}
	l.deps.PubSub.Wake(bridge.WebhooksTopic)
	return contract.Redelivered{Deliveries: n}, nil
}
