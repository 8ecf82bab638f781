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
const deliveryColumns = `coalesce(e.version, 0), coalesce(e.state, ''), coalesce(e.filed, 0), e.body, f.event, f.attempt, coalesce(f.next, 0), f.reason, f.rank, h.view
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
