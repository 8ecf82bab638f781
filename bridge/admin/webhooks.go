package admin

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

func (o *Operator) webhooks(_ context.Context, query WebhookQuery) (listing[Webhook], error) {
	did, err := optionalDID(query.DID)
	if err != nil {
		return listing[Webhook]{}, err
	}
	page := func(ctx context.Context, cursor string, limit int) (Page[Webhook], error) {
		var after federation.WebhookID
		if err := after.UnmarshalText([]byte(cursor)); err != nil {
			return Page[Webhook]{}, federation.ErrUnknownCursor
		}
		hooks, err := o.deps.Record.Webhooks(ctx, did, after, limit)
		if err != nil {
			return Page[Webhook]{}, err
		}
		p := Page[Webhook]{Items: make([]Webhook, len(hooks))}
		for i, h := range hooks {
			if p.Items[i], err = o.shapeWebhook(ctx, h); err != nil {
				return Page[Webhook]{}, err
			}
		}
		if len(hooks) == limit {
			p.NextCursor = hooks[limit-1].ID.String()
		}
		return p, nil
	}
	return listing[Webhook]{page: page}, nil
}

func optionalDID(text string) (federation.DID, error) {
	if text == "" {
		return "", nil
	}
	return parseDID("did", text)
}

func (o *Operator) shapeWebhook(ctx context.Context, h federation.Webhook) (Webhook, error) {
	backlog, err := o.deps.Record.WebhookBacklog(ctx, h.ID)
	return Webhook{
		ID: h.ID.String(), DID: string(h.DID), Agent: h.Participant, URL: h.URL, Since: Moment(h.Since),
		Waiting: backlog.Rows, Oldest: Moment(backlog.Oldest), Dead: backlog.Dead, Disabled: Moment(h.Disabled), Why: h.Why,
	}, err
}

func (o *Operator) getWebhook(ctx context.Context, in IDPage) (Webhook, error) {
	limit := limitOf(in.Paging)
	before, err := parseNumber("cursor", in.Cursor)
	if err != nil {
		return Webhook{}, err
	}
	h, err := o.findWebhook(ctx, in.ID, "")
	if err != nil {
		return Webhook{}, err
	}
	shaped, err := o.shapeWebhook(ctx, h)
	if err != nil {
		return Webhook{}, err
	}
	pushes, err := o.deps.Record.Pushes(ctx, h.ID, before, limit)
	if err != nil {
		return Webhook{}, err
	}
	shaped.WebhookDetail = &WebhookDetail{Deliveries: []WebhookDelivery{}}
	for _, p := range pushes {
		shaped.Deliveries = append(shaped.Deliveries, WebhookDelivery{
			Of: p.Ref(), HandoffID: p.Handoff(), Verb: p.Entry.Row().Verb, State: p.State, Attempt: p.Attempt,
			Queued: Moment(p.Queued), Next: Moment(p.Next), Ended: Moment(p.Ended), LastError: p.Reason,
		})
	}
	if len(pushes) == limit {
		shaped.NextCursor = strconv.FormatInt(pushes[limit-1].Item, 10)
	}
	return shaped, nil
}

// If a DID is given, the webhook must belong to it.
func (o *Operator) changeWebhook(ctx context.Context, in WebhookChange) (Acted, error) {
	verb, change := in.Verb, o.redeliver
	switch {
	case verb == "redeliver":
	case verb != "enable":
		return Acted{}, errNone("verb " + verb + " of webhooks")
	case in.Of != "":
		return Acted{}, usage("there is no parameter \"of\" here")
	default:
		change = o.enable
	}
	ask, err := in.Body.Read()
	if err != nil {
		return Acted{}, err
	}
	did, err := optionalDID(in.DID)
	if err != nil {
		return Acted{}, err
	}
	h, err := o.findWebhook(ctx, in.ID, did)
	if err != nil {
		return Acted{}, err
	}
	changed, err := change(ctx, h, in.Of, ask.DryRun)
	if err != nil {
		return Acted{}, err
	}
	return o.acted(ctx, "webhook "+verb, h.ID.String(), ask, changed), nil
}

// enable returns 1 if the webhook was disabled.
func (o *Operator) enable(ctx context.Context, h federation.Webhook, _ string, dry bool) (int, error) {
	if o.deps.Hooks == nil {
		return 0, conflict("this gateway has no webhooks")
	}
	if h.Disabled.IsZero() {
		return 0, nil
	}
	h.Ends = time.Time{} // the operator now vouches for the webhook, even if its key has ended
	try := func() error { return o.deps.Hooks.Enable(ctx, h) }
	if dry {
		try = func() error { return o.deps.Hooks.Check(ctx, h.URL) }
	}
	if err := try(); errors.Is(err, bridge.ErrAddress) {
		return 0, conflict(err.Error())
	} else if err != nil {
		return 0, err
	}
	return 1, nil
}

// redeliver requeues one delivery, or all undelivered ones if ref is empty, and returns their
// number.
func (o *Operator) redeliver(ctx context.Context, h federation.Webhook, ref string, dry bool) (int, error) {
	if !h.Disabled.IsZero() {
		return 0, conflict("this webhook is disabled: " + h.Why + "; enable it first (baton webhook enable)")
	}
	if dry && ref == "" {
		backlog, err := o.deps.Record.WebhookBacklog(ctx, h.ID)
		return backlog.Rows + backlog.Dead, err
	}
	if dry {
		return 1, nil
	}
	changed, err := o.deps.Record.PushAgain(ctx, h.ID, ref, time.Now())
	if err == nil && changed == 0 && ref != "" {
		err = errNone("delivery of " + ref + " to this webhook")
	}
	o.deps.PubSub.Wake(bridge.WebhooksTopic)
	return changed, err
}

func (o *Operator) findWebhook(ctx context.Context, text string, of federation.DID) (federation.Webhook, error) {
	none := errNone("webhook " + text)
	if id, err := federation.ParseEventID(text); err == nil {
		h, err := o.deps.Record.Webhook(ctx, id)
		if errors.Is(err, federation.ErrNotFound) || err == nil && of != "" && h.DID != of {
			return federation.Webhook{}, none
		}
		return h, err
	}
	if len(text) < federation.MinSuffix {
		return federation.Webhook{}, usage("an id is a ULID, or its last " + strconv.Itoa(federation.MinSuffix) + " characters or more")
	}
	var found []federation.Webhook
	for after := (federation.WebhookID{}); ; {
		page, err := o.deps.Record.Webhooks(ctx, of, after, MaxLimit)
		if err != nil {
			return federation.Webhook{}, err
		}
		for _, h := range page {
			if strings.HasSuffix(h.ID.String(), strings.ToUpper(text)) {
				found = append(found, h)
			}
		}
		if len(page) < MaxLimit {
			break
		}
		after = page[len(page)-1].ID
	}
	switch len(found) {
	case 0:
		return federation.Webhook{}, none
	case 1:
		return found[0], nil
	}
	return federation.Webhook{}, conflict("several webhooks have this ending: give more characters of the id")
}
