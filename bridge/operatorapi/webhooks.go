package operatorapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
)

// Webhook is an address that what reaches somebody is posted to.
type Webhook struct {
	ID       string `json:"id"`
	DID      string `json:"did"`
	Agent    string `json:"agent,omitempty"` // handle, of one that gets an agent's messages
	URL      string `json:"url"`
	Since    Moment `json:"since"`
	Waiting  int    `json:"waiting"`
	Oldest   Moment `json:"oldest,omitzero"` // of what waits
	Dead     int    `json:"dead"`
	Disabled Moment `json:"disabled,omitzero"`
	Why      string `json:"disabled_why,omitempty"`

	*WebhookDetail
}

// WebhookDetail is what one webhook says of itself when it is read alone.
type WebhookDetail struct {
	Deliveries []WebhookDelivery `json:"deliveries"` // the newest first
	NextCursor string            `json:"next_cursor"`
}

// WebhookDelivery is one thing that a webhook is owed, or was.
type WebhookDelivery struct {
	Of        string                   `json:"of"` // id of an event, or of a message that is none
	HandoffID federation.HandoffID     `json:"handoff_id,omitzero"`
	Verb      federation.Verb          `json:"verb,omitempty"`
	State     federation.DeliveryState `json:"state"`
	Attempt   int                      `json:"attempt"`
	Queued    Moment                   `json:"queued"`
	Next      Moment                   `json:"next,omitzero"`
	Ended     Moment                   `json:"ended,omitzero"`
	LastError string                   `json:"last_error,omitempty"`
}

// webhooks is GET webhooks, in the order in which they were made.
func (o *Operator) webhooks(r *http.Request) (listing, error) {
	query := r.URL.Query()
	if err := known(query, "did"); err != nil {
		return listing{}, err
	}
	did, err := optionalDID(query.Get("did"))
	if err != nil {
		return listing{}, err
	}
	page := func(ctx context.Context, cursor string, limit int) (any, error) {
		var after federation.HookID
		if err := after.UnmarshalText([]byte(cursor)); err != nil {
			return nil, federation.ErrUnknownCursor
		}
		hooks, err := o.deps.Webhooks.Hooks(ctx, did, after, limit)
		if err != nil {
			return nil, err
		}
		p := Page[Webhook]{Items: make([]Webhook, len(hooks))}
		for i, h := range hooks {
			if p.Items[i], err = o.shapeWebhook(ctx, h); err != nil {
				return nil, err
			}
		}
		if len(hooks) == limit {
			p.NextCursor = hooks[limit-1].ID.String()
		}
		return p, nil
	}
	return listing{page: page}, nil
}

// optionalDID reads a DID that need not be named.
func optionalDID(text string) (federation.DID, error) {
	if text == "" {
		return "", nil
	}
	return parseDID("did", text)
}

func (o *Operator) shapeWebhook(ctx context.Context, h federation.Hook) (Webhook, error) {
	backlog, err := o.deps.Webhooks.HookBacklog(ctx, h.ID)
	return Webhook{
		ID: h.ID.String(), DID: string(h.DID), Agent: h.Agent, URL: h.URL, Since: Moment(h.Since),
		Waiting: backlog.Rows, Oldest: Moment(backlog.Oldest), Dead: backlog.Dead, Disabled: Moment(h.Disabled), Why: h.Why,
	}, err
}

// getWebhook answers GET webhooks/{id} with as many deliveries as a page holds.
func (o *Operator) getWebhook(r *http.Request) (answer, error) {
	query := r.URL.Query()
	if err := known(query); err != nil {
		return answer{}, err
	}
	limit, err := parseLimit(query.Get("limit"))
	if err != nil {
		return answer{}, err
	}
	before, err := parseNumber("cursor", query.Get("cursor"))
	if err != nil {
		return answer{}, err
	}
	h, err := o.findWebhook(r.Context(), r.PathValue("id"), "")
	if err != nil {
		return answer{}, err
	}
	shaped, err := o.shapeWebhook(r.Context(), h)
	if err != nil {
		return answer{}, err
	}
	pushes, err := o.deps.Webhooks.Pushes(r.Context(), h.ID, before, limit)
	if err != nil {
		return answer{}, err
	}
	shaped.WebhookDetail = &WebhookDetail{Deliveries: []WebhookDelivery{}}
	for _, p := range pushes {
		shaped.Deliveries = append(shaped.Deliveries, WebhookDelivery{
			Of: p.Ref(), HandoffID: p.Handoff(), Verb: p.Entry.Event.Verb, State: p.State, Attempt: p.Attempt,
			Queued: Moment(p.Queued), Next: Moment(p.Next), Ended: Moment(p.Ended), LastError: p.Reason,
		})
	}
	if len(pushes) == limit {
		shaped.NextCursor = strconv.FormatInt(pushes[limit-1].Item, 10)
	}
	return answer{body: shaped}, nil
}

// postWebhook answers POST webhooks/{id}/{verb}; where a DID is named, only of a webhook
// that is its.
func (o *Operator) postWebhook(r *http.Request) (answer, error) {
	verb, query := r.PathValue("verb"), r.URL.Query()
	change, parameters := o.redeliver, []string{"did", "of"}
	switch verb {
	case "redeliver":
	case "enable":
		change, parameters = o.enable, []string{"did"}
	default:
		return answer{}, errNone("verb " + verb + " of webhooks")
	}
	if err := known(query, parameters...); err != nil {
		return answer{}, err
	}
	var ask Act
	if err := readBody(r, &ask); err != nil {
		return answer{}, err
	}
	did, err := optionalDID(query.Get("did"))
	if err != nil {
		return answer{}, err
	}
	h, err := o.findWebhook(r.Context(), r.PathValue("id"), did)
	if err != nil {
		return answer{}, err
	}
	changed, err := change(r.Context(), h, query.Get("of"), ask.DryRun)
	if err != nil {
		return answer{}, err
	}
	return o.acted(r, "webhook "+verb, h.ID.String(), ask, changed), nil
}

// enable has a webhook called again, and returns 1 where it was not.
func (o *Operator) enable(ctx context.Context, h federation.Hook, _ string, dry bool) (int, error) {
	if o.deps.Hooks == nil {
		return 0, conflict("this gateway has no webhooks")
	}
	if h.Disabled.IsZero() {
		return 0, nil
	}
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

// redeliver puts one delivery back, or all that were not made, and returns how many.
func (o *Operator) redeliver(ctx context.Context, h federation.Hook, ref string, dry bool) (int, error) {
	if !h.Disabled.IsZero() {
		return 0, conflict("this webhook is disabled: " + h.Why + "; enable it first (baton webhook enable)")
	}
	if dry && ref == "" {
		backlog, err := o.deps.Webhooks.HookBacklog(ctx, h.ID)
		return backlog.Rows + backlog.Dead, err
	}
	if dry {
		return 1, nil
	}
	changed, err := o.deps.Webhooks.PushAgain(ctx, h.ID, ref, time.Now())
	if err == nil && changed == 0 && ref != "" {
		err = errNone("delivery of " + ref + " to this webhook")
	}
	o.deps.Wakes.Wake(bridge.HooksTopic)
	return changed, err
}

// findWebhook returns the webhook that an id names, or the end of one, of a DID where one
// is named.
func (o *Operator) findWebhook(ctx context.Context, text string, of federation.DID) (federation.Hook, error) {
	none := errNone("webhook " + text)
	if id, err := federation.ParseEventID(text); err == nil {
		h, err := o.deps.Webhooks.Hook(ctx, id)
		if errors.Is(err, federation.ErrNotFound) || err == nil && of != "" && h.DID != of {
			return federation.Hook{}, none
		}
		return h, err
	}
	if len(text) < federation.MinSuffix {
		return federation.Hook{}, usage("an id is a ULID, or its last " + strconv.Itoa(federation.MinSuffix) + " characters or more")
	}
	var found []federation.Hook
	for after := (federation.HookID{}); ; {
		page, err := o.deps.Webhooks.Hooks(ctx, of, after, MaxLimit)
		if err != nil {
			return federation.Hook{}, err
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
		return federation.Hook{}, none
	case 1:
		return found[0], nil
	}
	return federation.Hook{}, conflict("several webhooks end like that: say more of the id")
}
