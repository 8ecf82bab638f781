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

// heldRelays returns the list of held messages, the oldest first.
func (o *Operator) heldRelays(_ context.Context, query contract.HeldQuery) (listing[Held], error) {
	page := func(ctx context.Context, cursor string, limit int) (Page[Held], error) {
		after, err := parseNumber("cursor", cursor)
		if err != nil {
			return Page[Held]{}, err
		}
		found, err := o.deps.Record.HeldRelays(ctx, "", strings.TrimPrefix(query.To, "@"), after, limit)
		page := Page[Held]{Items: []Held{}}
		for _, h := range found {
			page.Items = append(page.Items, shapeHeld(h))
		}
		if n := len(found); n > 0 && n == limit {
			page.NextCursor = strconv.FormatInt(found[n-1].ID, 10)
		}
		return page, err
	}
	return listing[Held]{page, watchPage(page)}, nil
}

func shapeHeld(h agents.Held) Held {
	var said struct {
		Body    string          `json:"body"`
		Payload json.RawMessage `json:"payload"`
	}
	_ = federation.DecodeJSON(h.Envelope, &said) // the registry wrote it
	return Held{ID: h.ID, From: h.From, To: h.To, Text: cmp.Or(said.Body, string(said.Payload)), Received: Moment(h.Received)}
}

func (o *Operator) settleHeld(ctx context.Context, in contract.IDChange) (Acted, error) {
	settle := map[string]func(ctx context.Context, id int64) error{
		"allow": o.deps.Gateway.AllowHeld,
		"drop":  func(ctx context.Context, id int64) error { return o.deps.Record.DropHeld(ctx, id, time.Now()) },
	}[in.Verb]
	if settle == nil {
		return Acted{}, errNone("verb " + in.Verb + " of held messages")
	}
	ask, err := in.Body.Read()
	if err != nil {
		return Acted{}, err
	}
	id, err := parseNumber("id", in.ID)
	if err != nil {
		return Acted{}, err
	}
	held, err := o.deps.Record.HeldRelay(ctx, id)
	if err == nil && !ask.DryRun {
		err = settle(ctx, id)
	}
	if isNotFound(err) {
		return Acted{}, errNone("held message " + in.ID)
	}
	if err != nil {
		return Acted{}, err
	}
	return o.acted(ctx, "airc "+in.Verb, held.From+" to "+held.To+" "+held.ID, ask, 1), nil
}
