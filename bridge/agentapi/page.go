package agentapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"baton/federation"
)

// page holds what one read of an inbox found, in the form that clients receive. Several
// requests may share it; it never changes.
type page struct {
	began   time.Time         // when the read began
	entries []json.RawMessage // each a [contract.Entry]
	cursors []federation.Cursor
	types   []string          // of the entries
	notices []json.RawMessage // each a [contract.Notice]
	noticed []federation.Cursor
	events  func() []byte          // the whole page as server-sent events; formatted once
	listed  func() ([]byte, error) // the entries, if there are any, as the answer to a poll; formatted once
}

// place is a position in an inbox, and how much is read from there.
type place struct {
	seen

	limit       int
	withNotices bool
}

// Read implements [participant.Page].
func (p *page) Read() time.Time { return p.began }

// Empty implements [participant.Page].
func (p *page) Empty() bool { return len(p.entries) == 0 }

// Size implements [participant.Page]: it returns the length of the entries and notices.
func (p *page) Size() (total int) {
	for _, text := range slices.Concat(p.entries, p.notices) {
		total += len(text)
	}
	return total
}

// last returns the cursor of the last entry, or after where the page has none.
func (p *page) last(after federation.Cursor) federation.Cursor {
	if len(p.cursors) == 0 {
		return after
	}
	return p.cursors[len(p.cursors)-1]
}

// end returns the position after the page, which was read from a position.
func (p *page) end(after seen) seen {
	after.entries = p.last(after.entries)
	if n := len(p.noticed); n > 0 {
		after.notices = p.noticed[n-1]
	}
	return after
}

// read reads the inbox of a DID at a place.
func (l *Link) read(ctx context.Context, did federation.DID, at place) (*page, error) {
	p := &page{began: time.Now(), entries: []json.RawMessage{}}
	p.events = sync.OnceValue(func() []byte { return p.writeEvents(at.seen) })
	p.listed = sync.OnceValues(func() ([]byte, error) { return p.writeList(p.last("")) })
	entries, err := l.access.Entries(ctx, did, at.entries, at.limit)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := json.Marshal(l.shapeEntry(ctx, e))
		if err != nil {
			return nil, fmt.Errorf("write entry: %w", err)
		}
		p.entries, p.cursors = append(p.entries, text), append(p.cursors, e.Cursor)
		p.types = append(p.types, typeOf(e))
	}
	if at.withNotices {
		err = l.readNotices(ctx, did, at, p)
	}
	return p, err
}

func (l *Link) readNotices(ctx context.Context, did federation.DID, at place, p *page) error {
	notices, err := l.deps.Notices.NoticesTo(ctx, federation.InboxLink, did, at.notices, at.limit)
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

// writeEvents returns the page as server-sent events. The IDs go on from a position.
//
// spec: HTML Living Standard §9.2
func (p *page) writeEvents(id seen) (text []byte) {
	for i, data := range p.entries {
		id.entries = p.cursors[i]
		text = appendEvent(text, id, p.types[i], data)
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

// list returns the page as a [contract.InboxPage] for a client that asked for the entries
// after a cursor.
func (p *page) list(after federation.Cursor) ([]byte, error) {
	if len(p.entries) > 0 {
		return p.listed()
	}
	return p.writeList(after)
}

// writeList returns the page as a [contract.InboxPage] whose next cursor is last.
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
