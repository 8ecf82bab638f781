// Package deliveries keeps the pending deliveries in the record: of steps to links, of messages
// to peers of a registry, and of both to webhooks. It keeps how each ended, and dead letters.
package deliveries

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
	"baton/federation/store/handoffs"
	"baton/federation/store/inboxes"
)

// Outboxes are the outboxes of one record. Everything may be called concurrently.
//
// The transaction that files an entry of an inbox, or a notice on the [federation.InboxLink],
// queues its deliveries to the webhooks of the inbox. The transaction that files a step queues its
// deliveries to the webhooks that follow its handoff. PeerTook, Bury and Delayed file a
// [federation.Notice] to the signer of a step, unless the network notifies the signer itself.
type Outboxes struct{ db *engine.DB }

// New returns the outboxes in a database.
func New(db *engine.DB) *Outboxes { return &Outboxes{db} }

// deliveryColumns are the columns that scanDelivery reads, and their tables. A row that
// belongs to nothing any more is read as Broken.
const deliveryColumns = `coalesce(e.version, 0), coalesce(e.state, ''), coalesce(e.filed, 0), ` + handoffs.EventColumns + `, f.event, f.attempt, coalesce(f.next, 0), f.reason, f.rank, h.view
	FROM outbox f LEFT JOIN event e ON e.seq = f.event LEFT JOIN handoff h ON h.id = f.handoff`

// scanDelivery reads a row of an outbox. An unreadable part is no error of the outbox: one
// bad row stops no other.
func scanDelivery(row engine.Scanner) (federation.Delivery, error) {
	var d federation.Delivery
	var e handoffs.EntryScan
	var view []byte
	var next int64
	var rank federation.Rank
	if err := row.Scan(append(e.Dest(), &d.Row, &d.Attempt, &next, &d.Reason, &rank, &view)...); err != nil {
		return d, err
	}
	d.Next, d.Personal = engine.Moment(next), rank == federation.RankPersonal
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

// Outbox returns up to limit rows of a link after a row, oldest first.
func (s *Outboxes) Outbox(ctx context.Context, link string, after int64, limit int) ([]federation.Delivery, error) {
	pending, err := engine.Rows(ctx, s.db.Reads(), scanDelivery, `SELECT `+deliveryColumns+`
		WHERE f.link = ? AND f.event > ? ORDER BY f.event`+engine.AtMost, link, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read outbox of %s: %w", link, err)
	}
	return pending, nil
}

// Given returns up to limit rows of a link that ended delivered at or after a time, in the order
// in which they did.
func (s *Outboxes) Given(ctx context.Context, link string, since time.Time, limit int) ([]federation.Given, error) {
	scan := func(row engine.Scanner) (federation.Given, error) {
		var d federation.Given
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
			d.Row = 0 // it cannot be read
		}
		return d, nil
	}
	done, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT `+handoffs.EntryColumns+`, s.event, s.ended, h.view
		FROM settled s JOIN event e ON e.seq = s.event JOIN handoff h ON h.id = e.handoff
		WHERE s.link = ? AND s.state = ? AND s.ended >= ? ORDER BY s.ended, s.event`+engine.AtMost,
		link, federation.DeliveryDelivered, engine.Stamp(since), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what %s was given: %w", link, err)
	}
	return slices.DeleteFunc(done, func(d federation.Given) bool { return d.Row == 0 }), nil
}

// CountPending returns how many rows of a link are of one handoff.
func (s *Outboxes) CountPending(ctx context.Context, link string, id federation.HandoffID) (int, error) {
	var n int
	err := s.db.Reads().Row(ctx, `SELECT count(*) FROM outbox WHERE link = ? AND handoff = ?`, []any{link, id.String()}, &n)
	if err != nil {
		return 0, fmt.Errorf("count outbox of %s: %w", link, err)
	}
	return n, nil
}

// Attempt counts one more attempt on each row. It is durable before anything is written to the
// peer, so that a step is shown at most once if its link requires that.
func (s *Outboxes) Attempt(ctx context.Context, link string, rows []int64) error {
	return s.changeOutbox(ctx, link, rows, func(ctx context.Context, q engine.Tx, row int64) error {
		return q.Put(ctx, `UPDATE outbox SET attempt = attempt + 1 WHERE event = ? AND link = ?`, row, link)
	})
}

// Failed records a failed attempt on a row, and the time of the next one. If the row waits for a
// party from then on, it is no longer the first row of its handoff, and the row behind it is
// due.
func (s *Outboxes) Failed(ctx context.Context, link string, row int64, f federation.Failure) error {
	return s.changeOutbox(ctx, link, []int64{row}, func(ctx context.Context, q engine.Tx, row int64) error {
		counted := 1
		if f.Counted {
			counted = 0
		}
		change := `next = CASE WHEN next IS NULL THEN NULL ELSE CAST(?5 AS bigint) END`
		if f.Personal {
			change = `next = CAST(?5 AS bigint), rank = ` + rankPersonal
		}
		var attempt int
		var handoff string
		err := q.Row(ctx, `UPDATE outbox SET attempt = attempt + ?3, reason = ?4, `+change+`
			WHERE event = ?1 AND link = ?2 RETURNING attempt, handoff`, []any{row, link, counted, f.Reason, engine.Stamp(f.Next)}, &attempt, &handoff)
		if errors.Is(err, federation.ErrNotFound) {
			return nil
		}
		if err == nil && f.Personal {
			err = advanceOutbox(ctx, q, link, handoff)
		}
		if err != nil {
			return err
		}
		return noteTry(ctx, q, link, row, federation.Try{Number: attempt, At: f.At, Reason: f.Reason})
	})
}

// noteTry remembers an attempt that failed, and forgets the oldest.
func noteTry(ctx context.Context, q engine.Tx, link string, row int64, t federation.Try) error {
	err := q.Put(ctx, `INSERT INTO attempt (link, item, n, at, reason) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (link, item, n) DO UPDATE SET at = excluded.at, reason = excluded.reason`, link, row, t.Number, engine.Stamp(t.At), t.Reason)
	if err != nil {
		return err
	}
	return q.Put(ctx, `DELETE FROM attempt WHERE link = ? AND item = ? AND n <= ?`, link, row, t.Number-federation.MaxTries)
}

// changeOutbox changes rows of one outbox, all or none.
func (s *Outboxes) changeOutbox(ctx context.Context, link string, rows []int64, change func(context.Context, engine.Tx, int64) error) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		for _, row := range rows {
			if err := change(ctx, q, row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write outbox of %s: %w", link, err)
	}
	return nil
}

// Deliveries returns the state of the deliveries of a handoff, in the order of the steps, then
// of the links and of the agents. It looks for pending ones only in the outboxes of
// these links.
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
		SELECT e.seq AS seq, e.id AS id, s.link AS link, '' AS agent, s.state AS state, 0 AS attempt, 0 AS next, s.code AS reason, s.ended AS ended
			FROM event e JOIN settled s ON s.event = e.seq WHERE e.handoff = ?1 AND e.version > 0
		UNION ALL
		SELECT e.seq, e.id, f.link, '', 'waiting', f.attempt, coalesce(f.next, 0), f.reason, 0
			FROM event e CROSS JOIN json_each(?2) j JOIN outbox f ON f.link = j.value AND f.event = e.seq WHERE e.handoff = ?1 AND e.version > 0
		UNION ALL
		SELECT e.seq, e.id, ?3, k.did, p.state, p.attempt, coalesce(p.next, 0), CASE p.state WHEN 'dead' THEN 'failed' WHEN 'refused' THEN 'gone' ELSE p.reason END, p.ended
			FROM handoff h JOIN actor a ON a.n IN (h.offerer, h.offeree, h.assignee) JOIN webhook k ON k.did = a.did AND k.participant = ''
			JOIN event e ON e.handoff = h.id JOIN push p ON p.webhook = k.id AND p.item = e.seq WHERE h.id = ?1 AND e.version > 0
		UNION ALL
		`+inboxes.Deliveries(s.db.Parts)+s.tableDeliveries()+`
		) ended_and_waiting ORDER BY seq, link, agent`, id.String(), string(names), federation.WebhookLink, federation.InboxLink)
	if err != nil {
		return nil, fmt.Errorf("read deliveries of %s: %w", id, err)
	}
	return found, nil
}

// tableDeliveries continues a query with the deliveries of the tables of a network.
func (s *Outboxes) tableDeliveries() string {
	if s.db.Parts.Deliveries == "" {
		return ""
	}
	return ` UNION ALL ` + s.db.Parts.Deliveries
}

// Backlog counts the outbox of a link.
func (s *Outboxes) Backlog(ctx context.Context, link string) (federation.Backlog, error) {
	var b federation.Backlog
	err := s.db.Reads().Row(ctx, `SELECT count(*) FROM outbox WHERE link = ?`, []any{link}, &b.Rows)
	if err != nil || b.Rows == 0 {
		return b, wrapBacklog(link, err)
	}
	var oldest int64
	err = s.db.Reads().Row(ctx, `SELECT e.filed FROM outbox f JOIN event e ON e.seq = f.event
		WHERE f.link = ? ORDER BY f.event LIMIT 1`, []any{link}, &oldest)
	if errors.Is(err, federation.ErrNotFound) { // delivered in between
		return federation.Backlog{}, nil
	}
	b.Oldest = engine.Moment(oldest)
	return b, wrapBacklog(link, err)
}

func wrapBacklog(link string, err error) error {
	if err != nil {
		return fmt.Errorf("count outbox of %s: %w", link, err)
	}
	return nil
}

// A lane is the queue of one handoff on a link. Only its first row has a time in the column next, 0
// before the first attempt. A row that waits for a party has its own time, and blocks no other row.

// due reads no more of an outbox than it returns, however much is due and however much waits for its
// time: what was never tried, by rank, and what is due again, by its time. The argument chooses rows.
func due(which string) string {
	return `SELECT handoff FROM (
		SELECT * FROM (SELECT handoff, rank, event FROM outbox WHERE ` + which + ` AND next = 0 ORDER BY rank, event LIMIT 0 + ?3) fresh
		UNION ALL SELECT * FROM (SELECT handoff, rank, event FROM outbox WHERE ` + which + ` AND next > 0 AND next <= ?2 ORDER BY next LIMIT 0 + ?3) again) each
	WHERE NOT EXISTS (SELECT 1 FROM held WHERE name = ?1) GROUP BY handoff ORDER BY min(rank), min(event) LIMIT 0 + ?3`
}

// The rows that [due] chooses from.
const (
	ofLink   = `link = ?1`
	ofSender = `link = ?1 AND signer = ?4`
)

// nextSender finds the first sender after another one with a due row. Each sender costs two
// searches of an index, however many rows it has.
const nextSender = `WITH RECURSIVE sender (n) AS (
		SELECT (SELECT signer FROM outbox WHERE link = ?1 AND signer > ?3 AND next IS NOT NULL ORDER BY signer LIMIT 1)
		UNION ALL SELECT (SELECT signer FROM outbox WHERE link = ?1 AND signer > n AND next IS NOT NULL ORDER BY signer LIMIT 1) FROM sender WHERE n IS NOT NULL)
	SELECT n FROM sender WHERE EXISTS (SELECT 1 FROM outbox WHERE link = ?1 AND signer = n AND next <= ?2)
		AND NOT EXISTS (SELECT 1 FROM held WHERE name = ?1) LIMIT 1`

// Heads returns up to limit handoffs whose first row on a link is due now: rows of the lowest
// [federation.Rank] first, of one rank the oldest. If more than limit are due again after a
// failure, the ones that became due first are returned. It returns none of a held link.
func (s *Outboxes) Heads(ctx context.Context, link string, now time.Time, limit int) ([]federation.HandoffID, error) {
	due, err := engine.Rows(ctx, s.db.Reads(), handoffs.ScanHandoffID, due(ofLink), link, engine.Stamp(now), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what is due to %s: %w", link, err)
	}
	return due, nil
}

// Turn returns the next sender after another one, in a circle of the DIDs that signed a due
// first row, in the order in which the record met them, with up to limit handoffs of these rows in the order of Heads. Nothing is due to a
// held link.
func (s *Outboxes) Turn(ctx context.Context, link string, after federation.DID, now time.Time, limit int) (federation.Turn, error) {
	var turn federation.Turn
	var sender int64
	last, err := s.db.Actor(ctx, after)
	if err == nil {
		err = s.db.Reads().Row(ctx, nextSender, []any{link, engine.Stamp(now), last}, &sender)
	}
	if errors.Is(err, federation.ErrNotFound) && last != 0 {
		err = s.db.Reads().Row(ctx, nextSender, []any{link, engine.Stamp(now), 0}, &sender)
	}
	if errors.Is(err, federation.ErrNotFound) {
		return federation.Turn{}, nil
	}
	if err == nil {
		err = s.db.Reads().Row(ctx, `SELECT did FROM actor WHERE n = ?`, []any{sender}, &turn.Sender)
	}
	if err == nil {
		turn.Lanes, err = engine.Rows(ctx, s.db.Reads(), handoffs.ScanHandoffID, due(ofSender), link, engine.Stamp(now), max(limit, 0), sender)
	}
	if err != nil {
		return federation.Turn{}, fmt.Errorf("read whose turn it is at %s: %w", link, err)
	}
	return turn, nil
}

// rowOrder orders the rows of a lane. Rows that wait for a party come last, so that they never fill
// a page.
const rowOrder = `CASE WHEN f.rank = ` + rankPersonal + ` AND f.next > 0 THEN 1 ELSE 0 END, f.event`

// PendingOf returns up to limit rows of one handoff in order. Rows that wait for a party and
// were not hurried come last. An unreadable row is included, as Broken.
func (s *Outboxes) PendingOf(ctx context.Context, link string, id federation.HandoffID, limit int) ([]federation.Delivery, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanDelivery, `SELECT `+deliveryColumns+`
		WHERE f.link = ?2 AND f.event IN (SELECT f.event FROM outbox f WHERE f.handoff = ?1 AND f.link || '' = ?2 ORDER BY `+rowOrder+` LIMIT 0 + ?3)
		ORDER BY `+rowOrder, id.String(), link, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what %s is owed of %s: %w", link, id, err)
	}
	return found, nil
}

// stuckLook bounds what is looked at for one DID: each step of a busy participant asks, while
// anything waits.
const stuckLook = 256

// stuckLooks returns the queries that look for a lane that waits, each after the one before found
// none: among the handoffs of the participant ?3, for a busy one among the handoffs that wait, and
// for any.
func stuckLooks() (ofParty, withParty, first string) {
	party := handoffs.ByParty(`?3`, `id`, ` LIMIT 0 + ?4`)
	ofParty = `SELECT f.handoff FROM (` + party + `) p CROSS JOIN outbox f
		WHERE f.link = ?1 AND f.event = (SELECT min(l.event) FROM outbox l WHERE l.handoff = p.id AND l.link = ?1) AND f.next > ?2
		ORDER BY f.rank, f.event LIMIT 1`
	withParty = `SELECT f.handoff FROM (SELECT handoff, rank, event FROM outbox WHERE link = ?1 AND next > ?2 ORDER BY next, rank, event LIMIT 0 + ?4) f
		JOIN handoff h ON h.id = f.handoff WHERE (SELECT count(*) FROM (` + party + `) few) >= ?4
			AND ?3 IN (h.offerer, h.offeree, h.assignee)
		ORDER BY f.rank, f.event LIMIT 1`
	first = `SELECT handoff FROM outbox WHERE link = ?1 AND next > ?2 ORDER BY next, rank, event LIMIT 1`
	return ofParty, withParty, first
}

// Stuck returns a handoff whose first row is due after now: the first one of the DID, in the
// order of Heads, if it has any, else the next due one. Of a DID with hundreds of handoffs, and
// hundreds of pending rows, it may miss one. It returns [federation.ErrNotFound] if no row waits.
func (s *Outboxes) Stuck(ctx context.Context, link string, did federation.DID, now time.Time) (id federation.HandoffID, err error) {
	party, err := s.db.Actor(ctx, did)
	if err != nil {
		return id, fmt.Errorf("read what waits for %s: %w", link, err)
	}
	first, ofDID := []any{link, engine.Stamp(now)}, []any{link, engine.Stamp(now), party, stuckLook}
	ofParty, withParty, ofAnyone := stuckLooks()
	looks := []struct {
		query string
		args  []any
	}{{ofParty, ofDID}, {withParty, ofDID}, {ofAnyone, first}}
	if party == 0 {
		looks = looks[2:]
	}
	for _, look := range looks {
		var text string
		if err = s.db.Reads().Row(ctx, look.query, look.args, &text); err == nil {
			return id, id.UnmarshalText([]byte(text))
		}
		if !errors.Is(err, federation.ErrNotFound) {
			break
		}
	}
	return id, fmt.Errorf("read what waits for %s: %w", link, err)
}

// Hurry makes the first row of every handoff on a link due at once. Attempts stay counted.
func (s *Outboxes) Hurry(ctx context.Context, link string) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `UPDATE outbox SET next = 0 WHERE link = ? AND next IS NOT NULL AND next > 0`, link)
	})
	if err != nil {
		return fmt.Errorf("hurry outbox of %s: %w", link, err)
	}
	return nil
}

// HurryMessages makes the pending messages and steps of a link for a DID due at once, and returns
// their number; "" means all of the link.
func (s *Outboxes) HurryMessages(ctx context.Context, link string, to federation.DID) (int, error) {
	const which = `link = ?1 AND next IS NOT NULL AND next > 0
		AND (?2 = 0 OR EXISTS (SELECT 1 FROM inbox i WHERE i.did = ?2 AND i.event = outbox.event))`
	reader, err := s.db.Actor(ctx, to)
	if err == nil && reader == 0 && to != "" {
		return 0, nil
	}
	var waiting int
	if err == nil {
		err = s.db.Reads().Row(ctx, `SELECT count(*) FROM outbox WHERE `+which, []any{link, reader}, &waiting)
	}
	if err == nil && waiting > 0 {
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
			return q.Put(ctx, `UPDATE outbox SET next = 0 WHERE `+which, link, reader)
		})
	}
	if err != nil {
		return 0, fmt.Errorf("hurry messages of %s: %w", link, err)
	}
	return waiting, nil
}
