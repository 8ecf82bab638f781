package engine

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/eventform"
)

// Since this version, the document of an event is in a separate column.
const eventsSplit = 5

const eventPage = 500

// Before version 5, the body is the JSON of the whole event.
type wholeEvent struct {
	seq, said int64
	message   string
	body      []byte
}

func scanWholeEvent(row Scanner) (e wholeEvent, err error) {
	err = row.Scan(&e.seq, &e.said, &e.message, &e.body)
	return e, err
}

func splitEvents(ctx context.Context, q Tx, report func(done int64)) error {
	actors := map[federation.DID]int64{}
	var done, last int64
	for {
		report(done)
		page, err := Rows(ctx, q, scanWholeEvent, `SELECT seq, said, coalesce(message, ''), body FROM event_before WHERE seq > ? ORDER BY seq LIMIT 0 + ?`, last, eventPage)
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

// The body of an unreadable event stays; baton verify reports it.
func (e wholeEvent) split(ctx context.Context, q Tx, actors map[federation.DID]int64) error {
	var ev federation.Event
	c, minted := eventform.Columns{Body: e.body}, true
	var author, recipient sql.NullInt64
	if err := federation.DecodeJSON(e.body, &ev); err == nil {
		if c, err = eventform.Encode(ev, e.message, Moment(e.said)); err != nil {
			return err
		}
		minted = ev.Minted()
		if author, err = numberOf(ctx, q, ev.For, actors); err != nil {
			return err
		}
		if recipient, err = numberOf(ctx, q, ev.To, actors); err != nil {
			return err
		}
	}
	return q.Put(ctx, `INSERT INTO event (seq, handoff, version, signer, id, digest, minted, prev, message, state, filed, document, body, author, recipient, place, said)
		SELECT seq, handoff, version, (SELECT n FROM actor WHERE did = signer), id, digest, ?, prev, message, state, filed, ?, ?, ?, ?, place, said FROM event_before WHERE seq = ?`,
		minted, c.Document, string(c.Body), author, recipient, e.seq)
}

// numberOf returns the number of a DID, or NULL for none. It caches numbers in actors.
func numberOf(ctx context.Context, q Tx, did federation.DID, actors map[federation.DID]int64) (n sql.NullInt64, err error) {
	if did == "" {
		return n, nil
	}
	if n.Int64, n.Valid = actors[did]; n.Valid {
		return n, nil
	}
	n.Int64, err = Intern(ctx, q, did)
	n.Valid, actors[did] = true, n.Int64
	return n, err
}
