package agentapi

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"baton/federation"
)

// page is what was read of an inbox at once, as everybody is told it. It is shared, and
// never changes.
type page struct {
	began   uint64            // its place among all looks
	at      time.Time         // when that was
	entries []json.RawMessage // each a [contract.Entry]
	cursors []federation.Cursor
	notices []json.RawMessage // each a [contract.Notice]
	noticed []federation.Cursor
	events  func() []byte          // all as a stream shows it, written down for the first that does
	listed  func() ([]byte, error) // the entries as a poll is answered with them, if there are any
}

// last returns the cursor after which there is more, or that of whoever asked where the
// page is empty.
func (p *page) last(after federation.Cursor) federation.Cursor {
	if len(p.cursors) == 0 {
		return after
	}
	return p.cursors[len(p.cursors)-1]
}

// next returns the place after what is on a page that was read at one.
func (p *page) next(at place) place {
	at.entries = p.last(at.entries)
	if n := len(p.noticed); n > 0 {
		at.notices = p.noticed[n-1]
	}
	return at
}

// look reads what there is at a place: all that was filed before it was called. Those who
// look at the same place at the same moment share what one of them reads and writes down.
func (l *Link) look(ctx context.Context, did federation.DID, at place) (*page, error) {
	asked := l.looks.Add(1)
	name := fmt.Sprintf("%s %d %t %s", did, at.limit, at.notified, at.seen)
	for {
		// Others may wait for it too, so that it goes on without whoever asked first.
		shared := l.looking.DoChan(name, func() (any, error) { return l.read(context.WithoutCancel(ctx), did, at) })
		select {
		case found := <-shared:
			if found.Err != nil {
				return nil, found.Err
			}
			if p, _ := found.Val.(*page); p.began > asked { // else it may have begun too early to see what was filed
				return p, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// read is one look by whoever does it for all.
func (l *Link) read(ctx context.Context, did federation.DID, at place) (*page, error) {
	p := &page{began: l.looks.Add(1), at: time.Now(), entries: []json.RawMessage{}}
	p.events = sync.OnceValue(func() []byte { return p.writeEvents(at.seen) })
	p.listed = sync.OnceValues(func() ([]byte, error) { return p.writeList(p.last("")) })
	entries, err := l.deps.Record.Replay(ctx, did, at.entries, at.limit)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := json.Marshal(l.shapeEntry(ctx, e))
		if err != nil {
			return nil, fmt.Errorf("write entry: %w", err)
		}
		p.entries, p.cursors = append(p.entries, text), append(p.cursors, e.Cursor)
	}
	if at.notified {
		err = l.readNotices(ctx, did, at, p)
	}
	return p, err
}

func (l *Link) readNotices(ctx context.Context, did federation.DID, at place, p *page) error {
	notices, err := l.deps.Record.NoticesTo(ctx, network, did, at.notices, at.limit)
	if err != nil {
		return err
	}
	for _, n := range notices {
		text, err := json.Marshal(shapeNotice(n))
		if err != nil {
			return fmt.Errorf("write notice: %w", err)
		}
		p.notices, p.noticed = append(p.notices, text), append(p.noticed, n.Cursor)
	}
	return nil
}

// writeEvents returns what is on the page as events, to somebody who has seen what is before
// it.
//
// spec: HTML Living Standard §9.2
func (p *page) writeEvents(id seen) (text []byte) {
	for i, data := range p.entries {
		id.entries = p.cursors[i]
		text = appendEvent(text, id, "step", data)
	}
	for i, data := range p.notices {
		id.notices = p.noticed[i]
		text = appendEvent(text, id, "notice", data)
	}
	return text
}

func appendEvent(text []byte, id seen, kind string, data []byte) []byte {
	return fmt.Appendf(text, "id: %s\nevent: %s\ndata: %s\n\n", id, kind, data)
}

// list returns the page as a [contract.InboxPage] for somebody who asked for what is after
// a cursor.
func (p *page) list(after federation.Cursor) ([]byte, error) {
	if len(p.entries) > 0 {
		return p.listed()
	}
	return p.writeList(after)
}

// writeList returns the page as a [contract.InboxPage] with the cursor after which there is
// more.
func (p *page) writeList(last federation.Cursor) ([]byte, error) {
	next, err := json.Marshal(last)
	if err != nil {
		return nil, fmt.Errorf("write page: %w", err)
	}
	text := []byte(`{"items":[`)
	for i, entry := range p.entries {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, entry...)
	}
	return append(append(append(text, `],"next_cursor":`...), next...), "}\n"...), nil
}
