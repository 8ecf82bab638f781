package operatorapi

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
	"baton/federation/agents"
)

// ListHeld implements [contract.StrictServerInterface].
func (o *Operator) ListHeld(ctx context.Context, req contract.ListHeldRequestObject) (contract.ListHeldResponseObject, error) {
	p := req.Params
	page := func(ctx context.Context, cursor string, limit int) (any, error) {
		after, err := parseNumber("cursor", cursor)
		if err != nil {
			return nil, err
		}
		found, err := o.deps.Held.HeldRelays(ctx, "", strings.TrimPrefix(p.To, "@"), after, limit)
		page := Page[Held]{Items: []Held{}}
		for _, h := range found {
			page.Items = append(page.Items, shapeHeld(h))
		}
		if n := len(found); n > 0 && n == limit {
			page.NextCursor = strconv.FormatInt(found[n-1].ID, 10)
		}
		return page, err
	}
	return o.list(ctx, listing{page, watchPage(page, func(h Held) Held { return h })}, nil, p.Limit, p.Cursor, p.Watch)
}

func shapeHeld(h agents.Held) Held {
	var said struct {
		Body    string          `json:"body"`
		Payload json.RawMessage `json:"payload"`
	}
	_ = federation.DecodeJSON(h.Envelope, &said) // the registry wrote it
	return Held{ID: h.ID, From: h.From, To: h.To, Text: cmp.Or(said.Body, string(said.Payload)), Received: Moment(h.Received)}
}

// SettleHeld implements [contract.StrictServerInterface].
func (o *Operator) SettleHeld(ctx context.Context, req contract.SettleHeldRequestObject) (contract.SettleHeldResponseObject, error) {
	settle := map[string]func(ctx context.Context, id int64) error{
		"allow": o.deps.AllowHeld,
		"drop":  func(ctx context.Context, id int64) error { return o.deps.Held.DropHeld(ctx, id, time.Now()) },
	}[req.Verb]
	if settle == nil {
		return nil, errNone("verb " + req.Verb + " of held messages")
	}
	if err := bodyOf(ctx); err != nil {
		return nil, err
	}
	id, err := parseNumber("id", req.ID)
	if err != nil {
		return nil, err
	}
	held, err := o.deps.Held.HeldRelay(ctx, id)
	if err == nil && !req.Body.DryRun {
		err = settle(ctx, id)
	}
	if isNotFound(err) {
		return nil, errNone("held message " + req.ID)
	}
	if err != nil {
		return nil, err
	}
	return contract.SettleHeld200JSONResponse(o.acted(ctx, "airc "+req.Verb, held.From+" to "+held.To+" "+held.ID, *req.Body, 1)), nil
}
