package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/eventform"
)

// A conversion must not change this data. Existing damage is not a difference.
type census struct {
	counts []int64
	faults map[int64]string // by event.seq, of damaged events
	events int64
}

// A conversion must keep these rows. The query depends on the version if the table does.
type countedRows struct{ rows, before, after string }

func counted() []countedRows {
	same := func(rows, query string) countedRows { return countedRows{rows, query, query} }
	const waiting = `SELECT count(*) FROM delivery f JOIN destination d ON d.n = f.destination WHERE f.state = 'waiting' AND d.kind = `
	return []countedRows{
		same("handoffs", `SELECT count(*) FROM handoff`),
		same("events", `SELECT count(*) FROM event`),
		same("tombstones", `SELECT count(*) FROM tombstone`),
		same("inbox entries", `SELECT count(*) FROM inbox`),
		same("unread inbox entries", `SELECT count(*) FROM inbox WHERE waiting IS NOT NULL`),
		same("inboxes", `SELECT count(*) FROM mailbox`),
		{"pending deliveries to links", `SELECT count(*) FROM outbox`, waiting + `'link'`},
		{"pending deliveries to webhooks", `SELECT count(*) FROM push WHERE state = 'waiting'`, waiting + `'webhook'`},
		{"pending deliveries to peers", `SELECT count(*) FROM peer_delivery WHERE dead IS NULL`, waiting + `'peer'`},
		{"pending notices", `SELECT count(*) FROM notice WHERE told = 0`, waiting + `'notices'`},
		{"dead letters", `SELECT count(*) FROM dead`, `SELECT count(*) FROM delivery WHERE letter IS NOT NULL`},
	}
}

// The chain link is stored in the next step or in the handoff.
type storedEvent struct {
	seq                int64
	version            int64 // 0 for a receipt or text, which are not in a chain
	handoff, id        string
	digest, prev, next []byte
	columns            eventform.Columns
}

func scanStoredEvent(row Scanner) (e storedEvent, err error) {
	var said int64
	err = row.Scan(&e.seq, &e.version, &e.handoff, &e.id, &e.digest, &e.prev, &e.next, &e.columns.Document, &e.columns.Body, &e.columns.Message, &said)
	e.columns.Said = Moment(said)
	return e, err
}

const (
	storedColumns = `SELECT e.seq, coalesce(e.version, 0), e.handoff, e.id, e.digest, e.prev, coalesce(n.prev, h.head), `
	storedFrom    = `, e.body, coalesce(e.message, ''), e.said FROM event e LEFT JOIN event n ON n.handoff = e.handoff AND n.version = e.version + 1
		LEFT JOIN handoff h ON h.id = e.handoff AND h.version = e.version WHERE e.seq > ? ORDER BY e.seq LIMIT 0 + ?`
)

type form struct {
	query  string
	decode func(eventform.Columns) (federation.Event, error)
	split  bool // since version 5
}

// The form before version 5 has the whole event in one column.
func wholeForm() form {
	return form{query: storedColumns + `NULL` + storedFrom, decode: func(c eventform.Columns) (ev federation.Event, err error) {
		err = federation.DecodeJSON(c.Body, &ev)
		return ev, err
	}}
}

func splitForm() form { return form{storedColumns + `e.document` + storedFrom, eventform.Decode, true} }

func takeCensus(ctx context.Context, q Tx, f form, report func(done, total int64)) (census, error) {
	c := census{faults: map[int64]string{}}
	for _, each := range counted() {
		var n int64
		query := each.before
		if f.split {
			query = each.after
		}
		if err := q.Row(ctx, query, nil, &n); err != nil {
			return c, fmt.Errorf("count %s: %w", each.rows, err)
		}
		if c.counts = append(c.counts, n); each.rows == "events" {
			c.events = n
		}
	}
	var done, last int64
	for {
		report(done, c.events)
		page, err := Rows(ctx, q, scanStoredEvent, f.query, last, eventPage)
		if err != nil {
			return c, err
		}
		for _, e := range page {
			if fault := e.fault(f); fault != "" {
				c.faults[e.seq] = fmt.Sprintf("event %s of handoff %s %s", e.id, e.handoff, fault)
			}
			last = e.seq
		}
		if done += int64(len(page)); len(page) < eventPage {
			return c, nil
		}
	}
}

// Returns "" for an undamaged event.
func (e storedEvent) fault(f form) string {
	ev, err := f.decode(e.columns)
	if err != nil {
		return "cannot be read: " + err.Error()
	}
	if digest := ev.Digest(); !bytes.Equal(digest[:], e.digest) {
		return "is not the one of its digest"
	}
	document := ev.DocumentDigest()
	if link := sha256.Sum256(slices.Concat(e.prev, document[:])); e.version > 0 && !bytes.Equal(link[:], e.next) {
		return "has another link than the chain"
	}
	return ""
}

// The error names the first difference after a conversion.
func (c census) compare(after census) error {
	for i, each := range counted() {
		if c.counts[i] != after.counts[i] {
			return fmt.Errorf("there were %d %s, and there are %d", c.counts[i], each.rows, after.counts[i])
		}
	}
	first, broken := int64(0), ""
	for seq, fault := range after.faults {
		if _, before := c.faults[seq]; !before && (broken == "" || seq < first) {
			first, broken = seq, fault
		}
	}
	if broken != "" {
		return errors.New(broken + ", and was sound before")
	}
	return nil
}
