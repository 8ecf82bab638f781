package operatorapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"baton/federation"
)

// inboxList is GET inboxes/{did}.
type inboxList struct {
	o     *Operator
	did   federation.DID
	start federation.Cursor // where to begin without a cursor
}

func (o *Operator) inbox(r *http.Request) (listing, error) {
	if err := known(r.URL.Query(), "device"); err != nil {
		return listing{}, err
	}
	did, err := parseDID("did", r.PathValue("did"))
	if err != nil {
		return listing{}, err
	}
	l := inboxList{o: o, did: did}
	name := r.URL.Query().Get("device")
	if name == "" {
		return listing{l.page, l.news}, nil
	}
	devices, err := o.deps.Inboxes.Devices(r.Context(), did)
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

// postAck answers POST inboxes/{did}/ack: a DID has read what reached it up to a
// cursor.
func (o *Operator) postAck(r *http.Request) (answer, error) {
	did, err := parseDID("did", r.PathValue("did"))
	if err != nil {
		return answer{}, err
	}
	var ack Ack
	if err := readBody(r, &ack); err != nil {
		return answer{}, err
	}
	if ack.Cursor == "" {
		return answer{}, usage("cursor is missing: it says up to where")
	}
	err = o.deps.Inboxes.Advance(r.Context(), did, ack.Device, ack.Cursor, time.Now())
	if errors.Is(err, federation.ErrTooManyDevices) {
		return answer{}, conflict(fmt.Sprintf("%s has %d devices, which is as many as one may have", did, federation.MaxDevices))
	}
	if err != nil {
		return answer{}, fmt.Errorf("acknowledge: %w", err)
	}
	o.act(r, "inbox ack", string(did)+" "+string(ack.Cursor)+" "+ack.Device, ack.Reason)
	return answer{body: ack}, nil
}
