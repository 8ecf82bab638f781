package mirror

import (
	"context"
	"encoding/json"
	"fmt"
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
}

// last returns the cursor after which there is more, or that of whoever asked where the
// page is empty.
func (p *page) last(after federation.Cursor) federation.Cursor {
	if len(p.cursors) == 0 {
		return after
	}
	return p.cursors[len(p.cursors)-1]
}

// look reads up to limit entries after a cursor: all that were filed before it was
// called. Those who look at the same place at the same moment share what one of them reads
// and writes down.
func (l *Link) look(ctx context.Context, did federation.DID, after federation.Cursor, limit int) (*page, error) {
	asked := l.looks.Add(1)
	place := fmt.Sprintf("%s %d %s", did, limit, after)
	for {
		// Others may wait for it too, and it has a stack of its own: those who watch keep theirs
		// small.
		shared := l.looking.DoChan(place, func() (any, error) { return l.read(context.WithoutCancel(ctx), did, after, limit) })
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
func (l *Link) read(ctx context.Context, did federation.DID, after federation.Cursor, limit int) (*page, error) {
	p := &page{began: l.looks.Add(1), at: time.Now(), entries: []json.RawMessage{}}
	entries, err := l.deps.Record.Replay(ctx, did, after, limit)
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
	return p, nil
}
