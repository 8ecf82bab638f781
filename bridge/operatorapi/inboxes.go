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

func (o *Operator) inbox(ctx context.Context, query contract.InboxQuery) (listing[Arrived], error) {
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

func (o *Operator) ackInbox(ctx context.Context, in contract.InboxAck) (Ack, error) {
	did, err := parseDID("did", in.DID)
	if err != nil {
		return Ack{}, err
	}
	ack, err := in.Body.Read()
	if err != nil {
		return Ack{}, err
	}
	if ack.Cursor == "" {
		return Ack{}, usage("cursor is missing: it says up to where")
	}
	err = o.deps.Record.Advance(ctx, did, ack.Device, ack.Cursor, time.Now())
	if errors.Is(err, federation.ErrTooManyDevices) {
		return Ack{}, conflict(fmt.Sprintf("%s has %d devices, which is as many as one may have", did, federation.MaxDevices))
	}
	if err != nil {
		return Ack{}, fmt.Errorf("acknowledge: %w", err)
	}
	o.act(ctx, "inbox ack", string(did)+" "+string(ack.Cursor)+" "+ack.Device, ack.Reason)
	return ack, nil
}
