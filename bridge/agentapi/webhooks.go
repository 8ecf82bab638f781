package agentapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"baton/bridge"
	"baton/bridge/agentapi/contract"
	"baton/bridge/participant"
	"baton/bridge/webhook"
	"baton/federation"
)

var _ bridge.Pusher = (*Link)(nil)

// Pushes implements [bridge.Pusher].
func (*Link) Pushes(h federation.Webhook) bool { return h.Participant == "" && h.Handoff.IsZero() }

// Write implements [bridge.Pusher]: an entry as the inbox shows it, or a notice.
func (l *Link) Write(ctx context.Context, _ federation.Webhook, p federation.Push) (kind string, data []byte, err error) {
	if p.Notice.Kind != "" {
		data, err = json.Marshal(shapeNotice(p.Notice))
		return "notice." + string(p.Notice.Kind), data, err
	}
	data, err = json.Marshal(l.shapeEntry(ctx, p.Entry))
	if p.Entry.Event.IsMessage() {
		return typeMessage, data, err
	}
	return string(p.Entry.Event.Kind) + "." + string(p.Entry.Event.Verb), data, err
}

// Taken implements [bridge.Pusher]. That the entry waits no more is for the record to
// note, with the end of the push.
func (*Link) Taken(context.Context, federation.Webhook, federation.Push) error { return nil }

// hooked returns the DID of the caller, and refuses where webhooks are disabled.
func (l *Link) hooked(ctx context.Context) (federation.DID, error) {
	if l.deps.Hooks == nil {
		return "", &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: "there are no webhooks here"}
	}
	return person(ctx)
}

// hook returns a webhook of the caller. Webhooks of other DIDs do not exist for it.
func (l *Link) hook(ctx context.Context, text string) (federation.Webhook, error) {
	did, err := l.hooked(ctx)
	if err != nil {
		return federation.Webhook{}, err
	}
	id, err := federation.ParseEventID(text)
	if err != nil {
		return federation.Webhook{}, usage("id: " + err.Error())
	}
	h, err := l.deps.Webhooks.Webhook(ctx, id)
	if errors.Is(err, federation.ErrNotFound) || err == nil && (h.DID != did || !h.Handoff.IsZero()) {
		return federation.Webhook{}, &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: "there is no webhook " + text}
	}
	return h, err
}

func (l *Link) shapeHook(ctx context.Context, h federation.Webhook) (contract.Webhook, error) {
	backlog, err := l.deps.Webhooks.WebhookBacklog(ctx, h.ID)
	if err != nil {
		return contract.Webhook{}, err
	}
	public, err := l.deps.Hooks.PublicKey(h.ID)
	shaped := contract.Webhook{
		ID: h.ID.String(), URL: h.URL, Of: "inbox", CreatedAt: moment(h.Since), PublicKey: public, Waiting: backlog.Rows, Dead: backlog.Dead,
		DisabledAt: moment(h.Disabled), DisabledWhy: h.Why,
	}
	if h.Participant != "" {
		shaped.Of = "messages"
	}
	return shaped, err
}

// ListWebhooks implements [contract.StrictServerInterface].
func (l *Link) ListWebhooks(ctx context.Context, _ contract.ListWebhooksRequestObject) (contract.ListWebhooksResponseObject, error) {
	did, err := l.hooked(ctx)
	if err != nil {
		return nil, err
	}
	hooks, err := l.deps.Webhooks.Webhooks(ctx, did, federation.WebhookID{}, maxLimit)
	if err != nil {
		return nil, err
	}
	list := contract.WebhookList{Items: make([]contract.Webhook, len(hooks))}
	for i, h := range hooks {
		if list.Items[i], err = l.shapeHook(ctx, h); err != nil {
			return nil, err
		}
	}
	return contract.ListWebhooks200JSONResponse(list), nil
}

// CreateWebhook implements [contract.StrictServerInterface].
func (l *Link) CreateWebhook(ctx context.Context, req contract.CreateWebhookRequestObject) (contract.CreateWebhookResponseObject, error) {
	did, err := l.hooked(ctx)
	if err != nil {
		return nil, err
	}
	agent := ""
	if req.Body.Of == contract.Messages {
		registered, err := l.deps.Webhooks.AgentOf(ctx, did)
		if errors.Is(err, federation.ErrNotFound) {
			return nil, usage("of: only an agent that registered at the AIRC registry here has messages")
		}
		if err != nil {
			return nil, fmt.Errorf("look up agent: %w", err)
		}
		agent = registered.Handle
	}
	hook := federation.Webhook{DID: did, Participant: agent, URL: req.Body.URL}.In(callerOf(ctx).Session)
	made, err := l.deps.Hooks.Register(ctx, hook, time.Now())
	switch {
	case errors.Is(err, bridge.ErrAddress):
		return nil, usage("url: " + err.Error())
	case errors.Is(err, federation.ErrTaken):
		return nil, participant.Conflict("there is a webhook with this address already; delete it to get another secret")
	case errors.Is(err, federation.ErrTooManyWebhooks):
		return nil, participant.Conflict("there are as many webhooks as may be; delete one")
	case err != nil:
		return nil, err
	}
	shaped, err := l.shapeHook(ctx, made.Webhook)
	shaped.Secret = made.Secret
	return contract.CreateWebhook201JSONResponse{
		Body: shaped, Headers: contract.CreateWebhook201ResponseHeaders{Location: Prefix + "webhooks/" + shaped.ID},
	}, err
}

// GetWebhook implements [contract.StrictServerInterface].
func (l *Link) GetWebhook(ctx context.Context, req contract.GetWebhookRequestObject) (contract.GetWebhookResponseObject, error) {
	h, err := l.hook(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	shaped, err := l.shapeHook(ctx, h)
	return contract.GetWebhook200JSONResponse(shaped), err
}

// DeleteWebhook implements [contract.StrictServerInterface].
func (l *Link) DeleteWebhook(ctx context.Context, req contract.DeleteWebhookRequestObject) (contract.DeleteWebhookResponseObject, error) {
	h, err := l.hook(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	if err := l.deps.Webhooks.RemoveWebhook(ctx, h.ID); err != nil && !errors.Is(err, federation.ErrNotFound) { // another request removed it
		return nil, err
	}
	return contract.DeleteWebhook204Response{}, nil
}

// EnableWebhook implements [contract.StrictServerInterface].
func (l *Link) EnableWebhook(ctx context.Context, req contract.EnableWebhookRequestObject) (contract.EnableWebhookResponseObject, error) {
	h, err := l.hook(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	err = l.deps.Hooks.Enable(ctx, h.In(callerOf(ctx).Session))
	if errors.Is(err, bridge.ErrAddress) {
		return nil, participant.Conflict(err.Error())
	}
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return nil, err
	}
	if h, err = l.hook(ctx, req.ID); err != nil {
		return nil, err
	}
	shaped, err := l.shapeHook(ctx, h)
	return contract.EnableWebhook200JSONResponse(shaped), err
}

// ListWebhookDeliveries implements [contract.StrictServerInterface].
func (l *Link) ListWebhookDeliveries(ctx context.Context, req contract.ListWebhookDeliveriesRequestObject) (contract.ListWebhookDeliveriesResponseObject, error) {
	h, err := l.hook(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	before := int64(0)
	if req.Params.Cursor != "" {
		if before, err = strconv.ParseInt(req.Params.Cursor, 10, 64); err != nil || before < 1 {
			return nil, federation.ErrUnknownCursor
		}
	}
	limit := cmp.Or(req.Params.Limit, defaultLimit)
	pushes, err := l.deps.Webhooks.Pushes(ctx, h.ID, before, limit)
	if err != nil {
		return nil, err
	}
	page := contract.WebhookDeliveryPage{Items: make([]contract.WebhookDelivery, len(pushes))}
	for i, p := range pushes {
		page.Items[i] = contract.WebhookDelivery{
			WebhookID: webhook.ID(h, p), Of: p.Ref(), HandoffID: p.Handoff().String(), Verb: string(p.Entry.Event.Verb), State: string(p.State),
			Attempt: p.Attempt, Queued: moment(p.Queued), Next: moment(p.Next), Ended: moment(p.Ended), LastError: p.Reason,
		}
	}
	if len(pushes) == limit {
		page.NextCursor = strconv.FormatInt(pushes[limit-1].Item, 10)
	}
	return contract.ListWebhookDeliveries200JSONResponse(page), nil
}

// RedeliverWebhook implements [contract.StrictServerInterface].
func (l *Link) RedeliverWebhook(ctx context.Context, req contract.RedeliverWebhookRequestObject) (contract.RedeliverWebhookResponseObject, error) {
	h, err := l.hook(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	if !h.Disabled.IsZero() {
		return nil, participant.Conflict("this webhook is disabled: " + h.Why + "; enable it first, with POST " + Prefix + "webhooks/" + h.ID.String() + "/enable")
	}
	n, err := l.deps.Webhooks.PushAgain(ctx, h.ID, req.Body.Of, time.Now())
	if err != nil {
		return nil, fmt.Errorf("redeliver: %w", err)
	}
	if n == 0 && req.Body.Of != "" {
		return nil, &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: "this webhook was never owed " + req.Body.Of}
	}
	l.deps.Wakes.Wake(bridge.WebhooksTopic)
	return contract.RedeliverWebhook202JSONResponse{Deliveries: n}, nil
}
