// Package deliveries stores the pending and ended deliveries of a record, and dead letters: of
// steps and text to links and other homes, of documents to peers of a network, of items to
// webhooks, and of notices to their readers.
package deliveries

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
	"github.com/baton-gateway/baton/federation/store/inboxes"
	"github.com/baton-gateway/baton/federation/store/queue"
)

// Outboxes are the deliveries of one record, safe for concurrent use.
//
// The transaction that files an inbox entry, a notice on the [federation.InboxLink] or a step also
// queues its deliveries to webhooks. The end or delay of a delivery files a [federation.Notice] to
// the signer of its step, unless the network notifies the signer itself.
type Outboxes struct{ db *engine.DB }

// New returns the outboxes in a database.
func New(db *engine.DB) *Outboxes { return &Outboxes{db} }

const ofName = `(SELECT n FROM destination WHERE name = ?1)`

// An orphaned row is read as Broken.
const deliveryColumns = `coalesce(e.version, 0), coalesce(e.state, ''), coalesce(e.filed, 0), ` + handoffs.EventColumns + `, f.item, f.attempt, coalesce(f.next, 0), f.reason, f.rank, h.view,
	f.queued FROM delivery f LEFT JOIN event e ON e.seq = f.item LEFT JOIN handoff h ON h.id = f.lane`

// An unreadable part is not an error: one bad row must not fail the others.
func scanDelivery(row engine.Scanner) (federation.Delivery, error) {
	var d federation.Delivery
	var e handoffs.EntryScan
	var view []byte
	var next, queued int64
	var rank federation.Rank
	if err := row.Scan(append(e.Dest(), &d.Row, &d.Attempt, &next, &d.Reason, &rank, &view, &queued)...); err != nil {
		return d, err
	}
	d.Next, d.Queued, d.Personal = engine.Moment(next), engine.Moment(queued), rank == federation.RankPersonal
	entry, err := e.Read()
	if err == nil && entry.Text == nil {
		d.View, err = handoffs.DecodeView(view)
	}
	if err == nil {
		d.Entry = entry
		return d, nil
	}
	d.Broken = err.Error()
	return d, nil
}

// The query returns the first ?4 pending rows of a destination (?1) after a row (?2, ?3), oldest
// first. No other row is read.
func aged(tables, which string) string {
	from := `SELECT * FROM (SELECT f.item, f.destination, f.queued FROM delivery f` + tables + `
		WHERE f.destination = ?1 AND f.state = 'waiting' AND (f.queued, f.item) > (?2, ?3) AND f.delayed = `
	rest := which + ` ORDER BY f.queued, f.item LIMIT 0 + ?4) `
	return from + `0` + rest + `a UNION ALL ` + from + `1` + rest + `b UNION ALL ` + from + `2` + rest + `c`
}

// Outbox returns up to limit pending rows of a link after a row, oldest first. The zero Delivery is
// before the first.
func (s *Outboxes) Outbox(ctx context.Context, link string, after federation.Delivery, limit int) ([]federation.Delivery, error) {
	to, err := s.db.Destination(ctx, link)
	var pending []federation.Delivery
	if err == nil && to != 0 {
		pending, err = engine.Rows(ctx, s.db.Reads(), scanDelivery, `SELECT `+deliveryColumns+` JOIN (`+aged(``, ``)+`) k ON k.item = f.item AND k.destination = f.destination
			ORDER BY f.queued, f.item LIMIT 0 + ?4`, to, engine.Stamp(after.Queued), after.Row, max(limit, 0))
	}
	if err != nil {
		return nil, fmt.Errorf("read outbox of %s: %w", link, err)
	}
	return pending, nil
}

// ListCompleted returns up to limit rows of a link delivered at or after a given time, in that
// order.
func (s *Outboxes) ListCompleted(ctx context.Context, link string, since time.Time, limit int) ([]federation.CompletedDelivery, error) {
	scan := func(row engine.Scanner) (federation.CompletedDelivery, error) {
		var d federation.CompletedDelivery
		var e handoffs.EntryScan
		var view []byte
		var ended int64
		err := row.Scan(append(e.Dest(), &d.Row, &ended, &view)...)
		if err != nil {
			return d, err
		}
		d.At = engine.Moment(ended)
		d.Entry, err = e.Read()
		if err == nil {
			d.View, err = handoffs.DecodeView(view)
		}
		if err != nil {
			d.Row = 0 // it is unreadable
		}
		return d, nil
	}
	done, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT `+handoffs.EntryColumns+`, f.item, f.ended, h.view
		FROM delivery f JOIN event e ON e.seq = f.item JOIN handoff h ON h.id = e.handoff
		WHERE f.destination = `+ofName+` AND f.state = 'delivered' AND f.delayed < 2 AND f.ended >= ?2 ORDER BY f.ended, f.item LIMIT 0 + ?3`,
		link, engine.Stamp(since), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read completed deliveries to %s: %w", link, err)
	}
	return slices.DeleteFunc(done, func(d federation.CompletedDelivery) bool { return d.Row == 0 }), nil
}

// CountPending returns the number of pending rows of a link for one handoff.
func (s *Outboxes) CountPending(ctx context.Context, link string, id federation.HandoffID) (int, error) {
	var n int
	err := s.db.Reads().Row(ctx, `SELECT count(*) FROM delivery WHERE lane = ?2 AND destination = `+ofName+` AND state = 'waiting'`, []any{link, id.String()}, &n)
	if err != nil {
		return 0, fmt.Errorf("count outbox of %s: %w", link, err)
	}
	return n, nil
}

// CountWaiting returns the number of pending deliveries.
func (s *Outboxes) CountWaiting(ctx context.Context) (int, error) {
	var n int
	if err := s.db.Reads().Row(ctx, `SELECT count(*) FROM destination d CROSS JOIN delivery f WHERE f.destination = d.n AND d.kind IN ('link', 'peer', 'webhook', 'notices') AND f.state = 'waiting'`, nil, &n); err != nil {
		return 0, fmt.Errorf("count pending deliveries: %w", err)
	}
	return n, nil
}

// HasSpace reports whether fewer than most deliveries of one lane are queued for a link; 0 means no
// limit.
func (s *Outboxes) HasSpace(ctx context.Context, link string, order federation.HandoffID, most int) (bool, error) {
	if most <= 0 {
		return true, nil
	}
	var waiting int
	err := s.db.Reads().Row(ctx, `SELECT count(*) FROM (SELECT 1 FROM delivery WHERE lane = ?2 AND destination = `+ofName+` AND state = 'waiting' LIMIT 0 + ?3) AS waiting`,
		[]any{link, order.String(), most}, &waiting)
	if err != nil {
		return false, fmt.Errorf("count deliveries to %s: %w", link, err)
	}
	return waiting < most, nil
}

// Attempt counts one more attempt on each row. The count is durable before anything is written to
// the peer, for links that must show a step at most once.
func (s Rows) Attempt(ctx context.Context, to string, rows []int64) error {
	return s.change(ctx, to, rows, func(ctx context.Context, q engine.Tx, to, row int64) error {
		return q.Put(ctx, `UPDATE delivery SET attempt = attempt + 1 WHERE item = ? AND destination = ? AND state = 'waiting'`, row, to)
	})
}

// Failed records a failed attempt on a row, and the time of the next one. The next row is
// due if the row now waits for a party.
func (s Rows) Failed(ctx context.Context, to string, row int64, f federation.Failure) error {
	return s.change(ctx, to, []int64{row}, func(ctx context.Context, q engine.Tx, to, row int64) error {
		return failed(ctx, q, to, row, f)
	})
}

func failed(ctx context.Context, q engine.Tx, to, row int64, f federation.Failure) error {
	counted := 1
	if f.Counted {
		counted = 0
	}
	change := `next = CASE WHEN next IS NULL THEN NULL ELSE CAST(?5 AS bigint) END`
	if f.Personal {
		change = `next = CAST(?5 AS bigint), rank = ` + queue.Personal
	}
	var attempt int
	var lane string
	err := q.Row(ctx, `UPDATE delivery SET attempt = attempt + ?3, reason = ?4, unsure = ?6, `+change+`
		WHERE item = ?1 AND destination = ?2 AND state = 'waiting' RETURNING attempt, lane`, []any{row, to, counted, f.Reason, engine.Stamp(f.Next), f.Unsure}, &attempt, &lane)
	if errors.Is(err, federation.ErrNotFound) {
		return nil // already ended
	}
	if err == nil && f.Personal {
		err = queue.Advance(ctx, q, to, lane)
	}
	if err != nil || attempt == 0 {
		return err
	}
	return noteTry(ctx, q, to, row, federation.Attempt{Number: attempt, At: f.At, Reason: f.Reason})
}

// noteTry stores a failed attempt, and deletes the oldest one.
func noteTry(ctx context.Context, q engine.Tx, to, row int64, t federation.Attempt) error {
	err := q.Put(ctx, `INSERT INTO attempt (item, destination, n, at, reason) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (item, destination, n) DO UPDATE SET at = excluded.at, reason = excluded.reason`, row, to, t.Number, engine.Stamp(t.At), t.Reason)
	if err != nil {
		return err
	}
	return q.Put(ctx, `DELETE FROM attempt WHERE item = ? AND destination = ? AND n <= ?`, row, to, t.Number-federation.MaxAttempts)
}

// Nothing changes if the destination was deleted.
func (s *Outboxes) change(ctx context.Context, name string, rows []int64, change func(ctx context.Context, q engine.Tx, to, row int64) error) error {
	to, err := s.db.Destination(ctx, name)
	if err == nil && to != 0 {
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
			for _, row := range rows {
				if err := change(ctx, q, to, row); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("write outbox of %s: %w", name, err)
	}
	return nil
}

// Deliveries returns the state of the deliveries of a handoff, ordered by step, link and agent. It
// searches for pending ones only in the outboxes of these links.
func (s *Outboxes) Deliveries(ctx context.Context, id federation.HandoffID, links []string) ([]federation.Delivered, error) {
	names, err := json.Marshal(links)
	if err != nil {
		return nil, fmt.Errorf("read deliveries of %s: %w", id, err)
	}
	scan := func(row engine.Scanner) (federation.Delivered, error) {
		var d federation.Delivered
		var event string
		var ended, next int64
		if err := row.Scan(&event, &d.Link, &d.Participant, &d.State, &d.Attempt, &next, &d.Reason, &ended); err != nil {
			return d, err
		}
		d.Ended, d.Next = engine.Moment(ended), engine.Moment(next)
		return d, d.Event.UnmarshalText([]byte(event))
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT id, link, agent, state, attempt, next, reason, ended FROM (
		SELECT e.seq AS seq, e.id AS id, d.name AS link, '' AS agent, f.state AS state, CASE f.state WHEN 'waiting' THEN f.attempt ELSE 0 END AS attempt,
				coalesce(f.next, 0) AS next, CASE f.state WHEN 'waiting' THEN f.reason ELSE f.code END AS reason, f.ended AS ended
			FROM event e JOIN delivery f ON f.item = e.seq JOIN destination d ON d.n = f.destination
			WHERE e.handoff = ?1 AND e.version > 0 AND d.kind = 'link' AND (f.state <> 'waiting' OR d.name IN (SELECT value FROM json_each(?2)))
		UNION ALL
		SELECT e.seq, e.id, ?3, k.did, p.state, p.attempt, coalesce(p.next, 0), CASE p.state WHEN 'dead' THEN 'failed' WHEN 'refused' THEN 'gone' ELSE p.reason END, p.ended
			FROM handoff h JOIN actor a ON a.n IN (h.offerer, h.offeree, h.assignee) JOIN webhook k ON k.did = a.did AND k.participant = ''
			JOIN destination d ON d.name = 'webhook/' || k.id JOIN event e ON e.handoff = h.id JOIN delivery p ON p.item = e.seq AND p.destination = d.n WHERE h.id = ?1 AND e.version > 0
		UNION ALL
		`+inboxes.Deliveries(s.db.Parts)+s.tableDeliveries()+`
		) ended_and_waiting ORDER BY seq, link, agent`, id.String(), string(names), federation.WebhookLink, federation.InboxLink)
	if err != nil {
		return nil, fmt.Errorf("read deliveries of %s: %w", id, err)
	}
	return found, nil
}

func (s *Outboxes) tableDeliveries() string {
	if s.db.Parts.Deliveries == "" {
		return ""
	}
	return ` UNION ALL ` + s.db.Parts.Deliveries
}

func oldestOf(destination string) string {
	const from = `SELECT min(w.queued) AS at FROM delivery w WHERE w.state = 'waiting' AND w.delayed = `
	of := ` AND w.destination = ` + destination
	return `coalesce((SELECT min(at) FROM (` + from + `0` + of + ` UNION ALL ` + from + `1` + of + ` UNION ALL ` + from + `2` + of + `) oldest), 0)`
}

// Backlog counts the outbox of a link.
func (s *Outboxes) Backlog(ctx context.Context, link string) (federation.Backlog, error) {
	b, err := s.backlogOf(ctx, link)
	if err != nil {
		return b, fmt.Errorf("count outbox of %s: %w", link, err)
	}
	return b, nil
}

func (s *Outboxes) backlogOf(ctx context.Context, name string) (b federation.Backlog, err error) {
	to, err := s.db.Destination(ctx, name)
	if err != nil || to == 0 {
		return b, err
	}
	err = s.db.Reads().Row(ctx, `SELECT count(*) FROM delivery WHERE destination = ? AND state = 'waiting'`, []any{to}, &b.Rows)
	if err != nil || b.Rows == 0 {
		return b, err
	}
	var oldest int64
	err = s.db.Reads().Row(ctx, `SELECT `+oldestOf(`?1`), []any{to}, &oldest)
	if b.Oldest = engine.Moment(oldest); oldest == 0 { // delivered in between
		b.Rows = 0
	}
	return b, err
}

// A lane is the queue of one handoff on a link. Only its first row has a time in the column next, 0
// before the first attempt. A row that waits for a party has its own time, and does not block other
// rows.

// A hold uses the plain name of a link or a peer. The time is ?2, and the destination ?1.
const notHeld = `NOT EXISTS (SELECT 1 FROM destination o JOIN destination h ON h.name = CASE o.kind WHEN 'peer' THEN substr(o.name, 6) ELSE o.name END WHERE o.n = ?1 AND h.held > 0)
		AND NOT EXISTS (SELECT 1 FROM destination o JOIN webhook w ON w.id = substr(o.name, 9) WHERE o.n = ?1 AND o.kind = 'webhook' AND w.ends > 0 AND w.ends <= ?2)`

// The query reads only the returned rows, regardless of the size of the outbox: untried rows by
// rank, and due retries by time. The argument is the condition on the rows.
func due(which string) string {
	return `SELECT lane FROM (
		SELECT * FROM (SELECT lane, rank, item FROM delivery WHERE ` + which + ` AND next = 0 ORDER BY rank, item LIMIT 0 + ?3) fresh
		UNION ALL SELECT * FROM (SELECT lane, rank, item FROM delivery WHERE ` + which + ` AND next > 0 AND next <= ?2 ORDER BY next LIMIT 0 + ?3) again) each
	WHERE ` + notHeld + ` GROUP BY lane ORDER BY min(rank), min(item) LIMIT 0 + ?3`
}

const (
	ofLink   = `destination = ?1`
	ofSender = `destination = ?1 AND sender = ?4`
)

// Each sender takes two index searches, regardless of its number of rows.
const nextSender = `WITH RECURSIVE turn (n) AS (
		SELECT (SELECT sender FROM delivery WHERE destination = ?1 AND sender > ?3 AND next IS NOT NULL ORDER BY sender LIMIT 1)
		UNION ALL SELECT (SELECT sender FROM delivery WHERE destination = ?1 AND sender > n AND next IS NOT NULL ORDER BY sender LIMIT 1) FROM turn WHERE n IS NOT NULL)
	SELECT n FROM turn WHERE EXISTS (SELECT 1 FROM delivery WHERE destination = ?1 AND sender = n AND next <= ?2)
		AND ` + notHeld + ` LIMIT 1`

// Rows that wait for a party are last, so that they never fill a page.
const rowOrder = `CASE WHEN f.rank = ` + queue.Personal + ` AND f.next > 0 THEN 1 ELSE 0 END, f.item`

// Each step of a busy participant runs the query for one DID while deliveries are pending, so it
// reads at most this number of rows.
const stuckLook = 256

// Each query is for use if the previous one found nothing: among the handoffs of the participant
// ?3; for a busy participant, among the waiting handoffs; and for any participant.
func stuckLooks() (ofParty, withParty, first string) {
	party := handoffs.ByParty(`?3`, `id`, ` LIMIT 0 + ?4`)
	ofParty = `SELECT f.lane FROM (` + party + `) p CROSS JOIN delivery f
		WHERE f.destination = ?1 AND f.item = (SELECT min(l.item) FROM delivery l WHERE l.lane = p.id AND l.destination = ?1 AND l.state = 'waiting') AND f.next > ?2
		ORDER BY f.rank, f.item LIMIT 1`
	withParty = `SELECT f.lane FROM (SELECT lane, rank, item FROM delivery WHERE destination = ?1 AND next > ?2 ORDER BY next, rank, item LIMIT 0 + ?4) f
		JOIN handoff h ON h.id = f.lane WHERE (SELECT count(*) FROM (` + party + `) few) >= ?4
			AND ?3 IN (h.offerer, h.offeree, h.assignee)
		ORDER BY f.rank, f.item LIMIT 1`
	first = `SELECT lane FROM delivery WHERE destination = ?1 AND next > ?2 ORDER BY next, rank, item LIMIT 1`
	return ofParty, withParty, first
}

// HurryMessages makes the pending messages and steps of a link for a DID due at once, and returns
// their number; "" means all deliveries of the link.
func (s *Outboxes) HurryMessages(ctx context.Context, link string, to federation.DID) (int, error) {
	const which = `destination = ` + ofName + ` AND next > 0
		AND (?2 = 0 OR EXISTS (SELECT 1 FROM inbox i WHERE i.did = ?2 AND i.event = delivery.item))`
	reader, err := s.db.Actor(ctx, to)
	if err == nil && reader == 0 && to != "" {
		return 0, nil
	}
	var waiting int
	if err == nil {
		err = s.db.Reads().Row(ctx, `SELECT count(*) FROM delivery WHERE `+which, []any{link, reader}, &waiting)
	}
	if err == nil && waiting > 0 {
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
			return q.Put(ctx, `UPDATE delivery SET next = 0 WHERE `+which, link, reader)
		})
	}
	if err != nil {
		return 0, fmt.Errorf("reschedule messages of %s: %w", link, err)
	}
	return waiting, nil
}
