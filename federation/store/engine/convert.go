package engine

import (
	"context"
	"fmt"

	"baton/federation"
	"baton/federation/store/eventform"
)

// eventsSplit is the version from which on an event has its document in a column of its own.
const eventsSplit = 5

// eventPage bounds the events in memory at a time during a conversion.
const eventPage = 500

// wholeEvent is a row of event before version 5: its body is the JSON of the whole event.
type wholeEvent struct {
	seq, said int64
	message   string
	body      []byte
}

func scanWholeEvent(row Scanner) (e wholeEvent, err error) {
	err = row.Scan(&e.seq, &e.said, &e.message, &e.body)
	return e, err
}

// splitEvents moves the signed document of each event to its own column, and fills the columns
// beside it.
func splitEvents(ctx context.Context, q Tx, report func(done int64)) error {
	actors := map[federation.DID]int64{"": 0}
	var done, last int64
	for {
		report(done)
		page, err := Rows(ctx, q, scanWholeEvent, `SELECT seq, said, coalesce(message, ''), body FROM event WHERE seq > ? ORDER BY seq LIMIT 0 + ?`, last, eventPage)
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := e.split(ctx, q, actors); err != nil {
				return fmt.Errorf("event %d: %w", e.seq, err)
			}
			last = e.seq
		}
		if done += int64(len(page)); len(page) < eventPage {
			return nil
		}
	}
}

// split converts one row. The body of an unreadable one stays as it is, which baton verify reports.
func (e wholeEvent) split(ctx context.Context, q Tx, actors map[federation.DID]int64) error {
	var ev federation.Event
	if err := federation.DecodeJSON(e.body, &ev); err != nil {
		return q.Put(ctx, `UPDATE event SET minted = 1 WHERE seq = ?`, e.seq)
	}
	c, err := eventform.Encode(ev, e.message, Moment(e.said))
	if err != nil {
		return err
	}
	for _, did := range []federation.DID{ev.For, ev.To} {
		if _, known := actors[did]; known {
			continue
		}
		if actors[did], err = Intern(ctx, q, did); err != nil {
			return err
		}
	}
	return q.Put(ctx, `UPDATE event SET document = ?, body = ?, minted = ?, author = nullif(?, 0), recipient = nullif(?, 0) WHERE seq = ?`,
		c.Document, string(c.Body), ev.Minted(), actors[ev.For], actors[ev.To], e.seq)
}
