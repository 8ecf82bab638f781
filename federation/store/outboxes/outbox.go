package outboxes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
	"baton/federation/store/handoffs"
)

// deliveryColumns are the columns that scanDelivery reads, and their tables. A row that
// belongs to nothing any more is read as Broken.
const deliveryColumns = `coalesce(e.version, 0), coalesce(e.state, ''), coalesce(e.filed, 0), e.body, f.event, f.attempt, coalesce(f.next, 0), f.reason, h.view
	FROM outbox f LEFT JOIN event e ON e.seq = f.event LEFT JOIN handoff h ON h.id = f.handoff`

// scanDelivery reads a row of an outbox. An unreadable part is no error of the outbox: one
// bad row stops no other.
func scanDelivery(row engine.Scanner) (federation.Delivery, error) {
	var d federation.Delivery
	var e handoffs.EntryScan
	var view []byte
	var next int64
	if err := row.Scan(append(e.Dest(), &d.Row, &d.Attempt, &next, &d.Reason, &view)...); err != nil {
		return d, err
	}
	d.Next = engine.Moment(next)
	entry, err := e.Read()
	switch {
	case err != nil:
	case entry.Event.IsMessage():
		d.View = federation.MessageView(entry.Event)
	default:
		d.View, err = handoffs.DecodeView(view)
	}
	if err == nil {
		d.Entry = entry
		return d, nil
	}
	d.Broken = err.Error()
	return d, nil
}

// Outbox implements [federationtest.Outbox].
func (s *Outboxes) Outbox(ctx context.Context, link string, after int64, limit int) ([]federation.Delivery, error) {
	pending, err := engine.Rows(ctx, s.db.Reads(), scanDelivery, `SELECT `+deliveryColumns+`
		WHERE f.link = ? AND f.event > ? ORDER BY f.event`+engine.AtMost, link, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read outbox of %s: %w", link, err)
	}
	return pending, nil
}

// Given implements [federationtest.Outbox].
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

// CountPending implements [federationtest.Outbox].
func (s *Outboxes) CountPending(ctx context.Context, link string, id federation.HandoffID) (int, error) {
	var n int
	err := s.db.Reads().Row(ctx, `SELECT count(*) FROM outbox WHERE link = ? AND handoff = ?`, []any{link, id.String()}, &n)
	if err != nil {
		return 0, fmt.Errorf("count outbox of %s: %w", link, err)
	}
	return n, nil
}

// dueHeads reads no more of an outbox than it returns, however much is due and however much waits
// for its time: what was never tried, by rank, and what is due again, by its time.
const dueHeads = `SELECT handoff FROM (
		SELECT * FROM (SELECT handoff, rank, event FROM outbox WHERE link = ?1 AND next = 0 ORDER BY rank, event LIMIT 0 + ?3) fresh
		UNION ALL SELECT * FROM (SELECT handoff, rank, event FROM outbox WHERE link = ?1 AND next > 0 AND next <= ?2 ORDER BY next LIMIT 0 + ?3) again) due
	WHERE NOT EXISTS (SELECT 1 FROM held WHERE name = ?1) ORDER BY rank, event LIMIT 0 + ?3`

// Heads implements [federationtest.Outbox].
func (s *Outboxes) Heads(ctx context.Context, link string, now time.Time, limit int) ([]federation.HandoffID, error) {
	due, err := engine.Rows(ctx, s.db.Reads(), handoffs.ScanHandoffID, dueHeads, link, engine.Stamp(now), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what is due to %s: %w", link, err)
	}
	return due, nil
}

// PendingOf implements [federationtest.Outbox].
func (s *Outboxes) PendingOf(ctx context.Context, link string, id federation.HandoffID, limit int) ([]federation.Delivery, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanDelivery, `SELECT `+deliveryColumns+`
		WHERE f.link = ?2 AND f.event IN (SELECT o.event FROM outbox o WHERE o.handoff = ?1 AND o.link = ?2 ORDER BY o.event LIMIT 0 + ?3)
		ORDER BY f.event`, id.String(), link, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what %s is owed of %s: %w", link, id, err)
	}
	return found, nil
}

// stuckLook bounds what is looked at for one DID: each step of a busy participant asks, while
// anything waits.
const stuckLook = 256

// The looks for a lane that waits: among the handoffs of a participant, for a busy one among the
// handoffs that wait, and for any.
const (
	stuckOfParty = `SELECT f.handoff FROM (SELECT handoff FROM party WHERE did = ?3 LIMIT 0 + ?4) p CROSS JOIN outbox f
		WHERE f.link = ?1 AND f.event = (SELECT min(l.event) FROM outbox l WHERE l.handoff = p.handoff AND l.link = ?1) AND f.next > ?2
		ORDER BY f.rank, f.event LIMIT 1`
	stuckWithParty = `SELECT f.handoff FROM (SELECT handoff, rank, event FROM outbox WHERE link = ?1 AND next > ?2 ORDER BY next, rank, event LIMIT 0 + ?4) f
		JOIN handoff h ON h.id = f.handoff WHERE (SELECT count(*) FROM (SELECT 1 FROM party WHERE did = ?3 LIMIT 0 + ?4) few) = ?4
			AND ?3 IN (h.offerer, h.view ->> 'offeree', h.view ->> 'assignee')
		ORDER BY f.rank, f.event LIMIT 1`
	stuckFirst = `SELECT handoff FROM outbox WHERE link = ?1 AND next > ?2 ORDER BY next, rank, event LIMIT 1`
)

// Stuck implements [federationtest.Outbox].
func (s *Outboxes) Stuck(ctx context.Context, link string, did federation.DID, now time.Time) (id federation.HandoffID, err error) {
	err = federation.ErrNotFound
	var text string
	for _, look := range []string{stuckOfParty, stuckWithParty} {
		if did != "" && errors.Is(err, federation.ErrNotFound) {
			err = s.db.Reads().Row(ctx, look, []any{link, engine.Stamp(now), did, stuckLook}, &text)
		}
	}
	if errors.Is(err, federation.ErrNotFound) {
		err = s.db.Reads().Row(ctx, stuckFirst, []any{link, engine.Stamp(now)}, &text)
	}
	if err != nil {
		return id, fmt.Errorf("read what waits for %s: %w", link, err)
	}
	return id, id.UnmarshalText([]byte(text))
}

// Attempt implements [federationtest.Outbox].
func (s *Outboxes) Attempt(ctx context.Context, link string, rows []int64) error {
	return s.changeOutbox(ctx, link, rows, func(ctx context.Context, q engine.Tx, row int64) error {
		_, err := q.Exec(ctx, `UPDATE outbox SET attempt = attempt + 1 WHERE event = ? AND link = ?`, row, link)
		return err
	})
}

// Failed implements [federationtest.Outbox].
func (s *Outboxes) Failed(ctx context.Context, link string, row int64, f federation.Failure) error {
	return s.changeOutbox(ctx, link, []int64{row}, func(ctx context.Context, q engine.Tx, row int64) error {
		counted := 1
		if f.Counted {
			counted = 0
		}
		var attempt int
		err := q.Row(ctx, `UPDATE outbox SET attempt = attempt + ?3, reason = ?4, next = CASE WHEN next IS NULL THEN NULL ELSE CAST(?5 AS bigint) END
			WHERE event = ?1 AND link = ?2 RETURNING attempt`, []any{row, link, counted, f.Reason, engine.Stamp(f.Next)}, &attempt)
		if errors.Is(err, federation.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return noteTry(ctx, q, link, row, federation.Try{Number: attempt, At: f.At, Reason: f.Reason})
	})
}

// noteTry remembers an attempt that failed, and forgets the oldest.
func noteTry(ctx context.Context, q engine.Tx, link string, row int64, t federation.Try) error {
	_, err := q.Exec(ctx, `INSERT INTO attempt (link, item, n, at, reason) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (link, item, n) DO UPDATE SET at = excluded.at, reason = excluded.reason`, link, row, t.Number, engine.Stamp(t.At), t.Reason)
	if err != nil {
		return err
	}
	_, err = q.Exec(ctx, `DELETE FROM attempt WHERE link = ? AND item = ? AND n <= ?`, link, row, t.Number-federation.MaxTries)
	return err
}

// Hurry implements [federationtest.Outbox].
func (s *Outboxes) Hurry(ctx context.Context, link string) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		_, err := q.Exec(ctx, `UPDATE outbox SET next = 0 WHERE link = ? AND next IS NOT NULL AND next > 0`, link)
		return err
	})
	if err != nil {
		return fmt.Errorf("hurry outbox of %s: %w", link, err)
	}
	return nil
}

// HurryMessages makes the pending messages of a link to a DID due at once, and returns how many
// conversations that are; "" is all DIDs.
func (s *Outboxes) HurryMessages(ctx context.Context, link string, to federation.DID) (int, error) {
	const which = `link = ?1 AND rank = ` + rankMessage + ` AND next IS NOT NULL AND next > 0
		AND (?2 = '' OR EXISTS (SELECT 1 FROM inbox i WHERE i.did = ?2 AND i.event = outbox.event))`
	var waiting int
	err := s.db.Reads().Row(ctx, `SELECT count(*) FROM outbox WHERE `+which, []any{link, to}, &waiting)
	if err == nil && waiting > 0 {
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
			_, err := q.Exec(ctx, `UPDATE outbox SET next = 0 WHERE `+which, link, to)
			return err
		})
	}
	if err != nil {
		return 0, fmt.Errorf("hurry messages of %s: %w", link, err)
	}
	return waiting, nil
}

// Settle implements [federationtest.Outbox].
func (s *Outboxes) Settle(ctx context.Context, link string, rows []int64, how federation.Settlement) error {
	return s.changeOutbox(ctx, link, rows, func(ctx context.Context, q engine.Tx, row int64) error { return End(ctx, q, link, row, how) })
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
