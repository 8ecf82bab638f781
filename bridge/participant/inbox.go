package participant

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"baton/bridge"
	"baton/federation"
)

// Start returns the cursor from which a reader of an inbox goes on: the one that it names, else
// that of its device. A device that the record does not know starts at the beginning.
func (a *Access) Start(ctx context.Context, did federation.DID, cursor federation.Cursor, device string) (federation.Cursor, error) {
	if cursor != "" || device == "" {
		return cursor, nil
	}
	devices, err := a.deps.Inbox.Devices(ctx, did)
	if err != nil {
		return "", fmt.Errorf("look up devices: %w", err)
	}
	if i := slices.IndexFunc(devices, func(d federation.Device) bool { return d.Name == device }); i >= 0 {
		return devices[i].Cursor, nil
	}
	return "", nil
}

// Entries returns up to limit entries of an inbox after a cursor, oldest first. It changes
// nothing. It returns a [*federation.CursorError] for a cursor that this inbox never gave out.
func (a *Access) Entries(ctx context.Context, did federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error) {
	return a.deps.Inbox.Replay(ctx, did, after, limit)
}

// Acknowledge ends the waiting of all entries up to a cursor, and keeps that for the device.
func (a *Access) Acknowledge(ctx context.Context, did federation.DID, device string, upTo federation.Cursor) error {
	return a.deps.Inbox.Advance(ctx, did, device, upTo, time.Now())
}

// Named is a step of a log or an inbox with the name of its author.
type Named struct {
	Entry  federation.Entry  `json:"entry"`
	Name   string            `json:"name"`
	Cursor federation.Cursor `json:"cursor,omitempty"` // in an inbox
	Waits  bool              `json:"waits,omitempty"`  // in an inbox: it is not acknowledged
	Now    federation.State  `json:"now,omitempty"`    // current state of the handoff; inbox only
}

// named returns a step with the name of its author.
func (a *Access) named(ctx context.Context, e federation.Entry) Named {
	return Named{Entry: e, Name: a.Name(ctx, e.Event.Actor()), Cursor: e.Cursor, Waits: e.Waits, Now: e.Now}
}

// place is a position in an inbox, and how many entries are read from there.
type place struct {
	after federation.Cursor
	limit int
}

// page is the entries of an inbox at a place.
type page struct {
	began time.Time
	items []Named
}

// Read implements [Page].
func (p *page) Read() time.Time { return p.began }

// Empty implements [Page].
func (p *page) Empty() bool { return len(p.items) == 0 }

// Size implements [Page].
func (p *page) Size() (total int) {
	for _, item := range p.items {
		ev := item.Entry.Event
		total += len(ev.Title) + len(ev.Note) + len(ev.Context) + len(ev.Signature.Document)
	}
	return total
}

func (a *Access) readPage(ctx context.Context, did federation.DID, at place) (*page, error) {
	p := &page{began: time.Now()}
	entries, err := a.Entries(ctx, did, at.after, at.limit)
	for _, e := range entries {
		p.items = append(p.items, a.named(ctx, e))
	}
	return p, err
}

// errTooManyStreams returns the problem of one more request that waits than there may be.
func errTooManyStreams(limit int) error {
	return &bridge.ProblemError{
		Status: http.StatusServiceUnavailable, Code: bridge.CodeUnavailable, RetryAfter: int(lookAgain.Seconds()),
		Detail: fmt.Sprintf("%d inboxes are watched, and no more can be: list without waiting, or come again", limit),
	}
}

// poll returns the entries of an inbox after a cursor, as they are shared with other requests. It
// blocks until there is one, the time is over or ctx has ended; it returns no error for that.
func (a *Access) poll(ctx context.Context, did federation.DID, at place, within time.Duration) (*page, error) {
	limit := a.deps.HTTP.MaxStreams
	if !a.deps.Streams.Take(limit) {
		return nil, errTooManyStreams(limit)
	}
	defer a.deps.Streams.Leave()
	w := a.topics.Await(did, within)
	defer w.Leave()
	p, err := w.Poll(ctx, at, nil)
	if err != nil && ctx.Err() != nil {
		return &page{}, nil
	}
	return p, err
}
