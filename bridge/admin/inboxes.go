package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

type inboxList struct {
	o     *Operator
	did   federation.DID
	start federation.Cursor // first position without a cursor
}

func (o *Operator) inbox(ctx context.Context, query InboxQuery) (listing[Arrived], error) {
	did, err := parseDID("did", query.DID)
	if err != nil {
		return listing[Arrived]{}, err
	}
	l := inboxList{o: o, did: did}
	name := query.Device
	if name == "" {
		return listing[Arrived]{l.page, l.news}, nil
	}
	devices, err := o.deps.Record.Devices(ctx, did)
	if err != nil {
		return listing[Arrived]{}, fmt.Errorf("look up devices: %w", err)
	}
	for _, d := range devices {
		if d.Name == name {
			l.start = d.Cursor
			return listing[Arrived]{l.page, l.news}, nil
		}
	}
	return listing[Arrived]{}, errNone("device " + name)
}

func (l inboxList) page(ctx context.Context, cursor string, limit int) (Page[Arrived], error) {
	items, err := l.read(ctx, federation.Cursor(cursor), limit)
	if err != nil {
		return Page[Arrived]{}, err
	}
	page := Page[Arrived]{Items: items}
	if len(items) == limit {
		page.NextCursor = string(items[limit-1].Cursor)
	}
	return page, nil
}

func (l inboxList) read(ctx context.Context, after federation.Cursor, limit int) ([]Arrived, error) {
	if after == "" {
		after = l.start
	}
	entries, err := l.o.deps.Record.Replay(ctx, l.did, after, limit)
	if err != nil {
		return nil, err
	}
	items := make([]Arrived, len(entries))
	for i, e := range entries {
		row := e.Row()
		actor := row.Actor()
		items[i] = Arrived{
			Cursor: e.Cursor, HandoffID: row.Handoff, EventID: row.ID, Verb: row.Verb, From: actor,
			Name: l.o.deps.Gateway.Name(ctx, actor), State: e.State, Filed: Moment(e.Filed),
			Provenance: row.Provenance, Title: row.Title, Note: row.Note,
		}
	}
	return items, nil
}

func (l inboxList) news(ctx context.Context, cursor string, limit int) func() ([]Arrived, error) {
	after := federation.Cursor(cursor)
	return func() ([]Arrived, error) {
		arrived, err := l.read(ctx, after, limit)
		if err != nil {
			return nil, err
		}
		if len(arrived) > 0 {
			after = arrived[len(arrived)-1].Cursor
		}
		return arrived, nil
	}
}

func (o *Operator) ackInbox(ctx context.Context, in InboxAck) (Ack, error) {
	did, err := parseDID("did", in.DID)
	if err != nil {
		return Ack{}, err
	}
	ack, err := in.Body.Read()
	if err != nil {
		return Ack{}, err
	}
	if ack.Cursor == "" {
		return Ack{}, usage("cursor is required: the last entry to acknowledge")
	}
	err = o.deps.Record.Advance(ctx, did, ack.Device, ack.Cursor, time.Now())
	if errors.Is(err, federation.ErrTooManyDevices) {
		return Ack{}, conflict(fmt.Sprintf("%s has %d devices, the maximum", did, federation.MaxDevices))
	}
	if err != nil {
		return Ack{}, fmt.Errorf("acknowledge: %w", err)
	}
	o.act(ctx, "inbox ack", string(did)+" "+string(ack.Cursor)+" "+ack.Device, ack.Reason)
	return ack, nil
}

func (o *Operator) moveInbox(ctx context.Context, in InboxMove) (Moved, error) {
	did, err := parseDID("did", in.DID)
	if err != nil {
		return Moved{}, err
	}
	ask, err := in.Body.Read()
	if err != nil {
		return Moved{}, err
	}
	done, err := o.deps.Server.MoveInbox(ctx, did, federation.HomeID(ask.Home), ask.DryRun)
	if err != nil {
		return Moved{}, err
	}
	if !ask.DryRun {
		o.act(ctx, "inbox move", string(did)+" "+ask.Home, ask.Reason)
	}
	return Moved{DID: done.DID, Home: string(done.Home), Taken: done.Taken, Waiting: done.Waiting}, nil
}

func (o *Operator) heldRelays(_ context.Context, query HeldQuery) (listing[Held], error) {
	page := func(ctx context.Context, cursor string, limit int) (Page[Held], error) {
		after, err := parseNumber("cursor", cursor)
		if err != nil {
			return Page[Held]{}, err
		}
		found, err := o.deps.Record.HeldRelays(ctx, "", strings.TrimPrefix(query.To, "@"), after, limit)
		page := Page[Held]{Items: []Held{}}
		for _, h := range found {
			var said struct {
				Body    string          `json:"body"`
				Payload json.RawMessage `json:"payload"`
			}
			_ = federation.DecodeJSON(h.Envelope, &said) // the registry wrote it
			page.Items = append(page.Items, Held{ID: h.ID, From: h.From, To: h.To, Text: cmp.Or(said.Body, string(said.Payload)), Received: Moment(h.Received)})
		}
		if n := len(found); n > 0 && n == limit {
			page.NextCursor = strconv.FormatInt(found[n-1].ID, 10)
		}
		return page, err
	}
	return listing[Held]{page, watchPage(page)}, nil
}

func (o *Operator) settleHeld(ctx context.Context, in IDChange) (Acted, error) {
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
