package operatorapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// inboxList is the list of the entries of an inbox.
type inboxList struct {
	o     *Operator
	did   federation.DID
	start federation.Cursor // where to begin without a cursor
}

// ListInbox implements [contract.StrictServerInterface].
func (o *Operator) ListInbox(ctx context.Context, req contract.ListInboxRequestObject) (contract.ListInboxResponseObject, error) {
	l, err := o.inbox(ctx, req)
	p := req.Params
	return o.list(ctx, l, err, p.Limit, p.Cursor, p.Watch)
}

func (o *Operator) inbox(ctx context.Context, req contract.ListInboxRequestObject) (listing, error) {
	did, err := parseDID("did", req.DID)
	if err != nil {
		return listing{}, err
	}
	l := inboxList{o: o, did: did}
	name := req.Params.Device
	if name == "" {
		return listing{l.page, l.news}, nil
	}
	devices, err := o.deps.Inboxes.Devices(ctx, did)
	if err != nil {
		return listing{}, fmt.Errorf("look up devices: %w", err)
	}
	for _, d := range devices {
		if d.Name == name {
			l.start = d.Cursor
			return listing{l.page, l.news}, nil
		}
	}
	return listing{}, errNone("device " + name)
}

func (l inboxList) page(ctx context.Context, cursor string, limit int) (any, error) {
	items, err := l.read(ctx, federation.Cursor(cursor), limit)
	if err != nil {
		return nil, err
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
	entries, err := l.o.deps.Inboxes.Replay(ctx, l.did, after, limit)
	if err != nil {
		return nil, err
	}
	items := make([]Arrived, len(entries))
	for i, e := range entries {
		actor := e.Event.Actor()
		items[i] = Arrived{
			Cursor: e.Cursor, HandoffID: e.Event.Handoff, EventID: e.Event.ID, Verb: e.Event.Verb, From: actor,
			Name: l.o.deps.Gateway.Name(ctx, actor), State: e.State, Filed: Moment(e.Filed),
			Provenance: e.Event.Provenance, Title: e.Event.Title, Note: e.Event.Note,
		}
	}
	return items, nil
}

// news reads on from where it stopped.
func (l inboxList) news(ctx context.Context, cursor string, limit int) func() ([]any, error) {
	after := federation.Cursor(cursor)
	return func() ([]any, error) {
		arrived, err := l.read(ctx, after, limit)
		if err != nil {
			return nil, err
		}
		items := make([]any, len(arrived))
		for i, a := range arrived {
			items[i], after = a, a.Cursor
		}
		return items, nil
	}
}

// AckInbox implements [contract.StrictServerInterface].
func (o *Operator) AckInbox(ctx context.Context, req contract.AckInboxRequestObject) (contract.AckInboxResponseObject, error) {
	did, err := parseDID("did", req.DID)
	if err != nil {
		return nil, err
	}
	if err := bodyOf(ctx); err != nil {
		return nil, err
	}
	ack := *req.Body
	if ack.Cursor == "" {
		return nil, usage("cursor is missing: it says up to where")
	}
	err = o.deps.Inboxes.Advance(ctx, did, ack.Device, ack.Cursor, time.Now())
	if errors.Is(err, federation.ErrTooManyDevices) {
		return nil, conflict(fmt.Sprintf("%s has %d devices, which is as many as one may have", did, federation.MaxDevices))
	}
	if err != nil {
		return nil, fmt.Errorf("acknowledge: %w", err)
	}
	o.act(ctx, "inbox ack", string(did)+" "+string(ack.Cursor)+" "+ack.Device, ack.Reason)
	return contract.AckInbox200JSONResponse(ack), nil
}
