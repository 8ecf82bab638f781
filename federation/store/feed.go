package store

import (
	"context"
	"fmt"
	"time"

	"baton/federation"
)

// Owed implements [federation.Feeds].
func (s *Record) Owed(ctx context.Context, link string, after int64, limit int) ([]federation.Delivery, error) {
	scan := func(row scanner) (federation.Delivery, error) {
		var d federation.Delivery
		var e entryScan
		var view []byte
		err := row.Scan(append(e.dest(), &d.Row, &d.Attempt, &view)...)
		if err != nil {
			return d, err
		}
		if d.Entry, err = e.read(); err != nil {
			return d, err
		}
		d.View, err = decodeView(view)
		return d, err
	}
	owed, err := rows(ctx, s.reads, scan, `SELECT `+entryColumns+`, f.event, f.attempt, h.view
		FROM feed f JOIN event e ON e.seq = f.event JOIN handoff h ON h.id = e.handoff
		WHERE f.link = ? AND f.event > ? ORDER BY f.event`+atMost, link, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read feed of %s: %w", link, err)
	}
	return owed, nil
}

// Given implements [federation.Feeds].
func (s *Record) Given(ctx context.Context, link string, since time.Time, limit int) ([]federation.Given, error) {
	scan := func(row scanner) (federation.Given, error) {
		var d federation.Given
		var e entryScan
		var view []byte
		var ended int64
		err := row.Scan(append(e.dest(), &d.Row, &ended, &view)...)
		if err != nil {
			return d, err
		}
		if d.Entry, err = e.read(); err != nil {
			return d, err
		}
		d.At = moment(ended)
		d.View, err = decodeView(view)
		return d, err
	}
	done, err := rows(ctx, s.reads, scan, `SELECT `+entryColumns+`, s.event, s.ended, h.view
		FROM settled s JOIN event e ON e.seq = s.event JOIN handoff h ON h.id = e.handoff
		WHERE s.link = ? AND s.state = ? AND s.ended >= ? ORDER BY s.ended, s.event`+atMost,
		link, federation.DeliveryDelivered, stamp(since), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what %s was given: %w", link, err)
	}
	return done, nil
}

// OwedIn implements [federation.Feeds].
func (s *Record) OwedIn(ctx context.Context, link string, id federation.HandoffID) (int, error) {
	var n int
	err := s.reads.row(ctx, `SELECT count(*) FROM event e JOIN feed f ON f.event = e.seq AND f.link = ? WHERE e.handoff = ?`,
		[]any{link, id.String()}, &n)
	if err != nil {
		return 0, fmt.Errorf("count feed of %s: %w", link, err)
	}
	return n, nil
}

// Attempt implements [federation.Feeds].
func (s *Record) Attempt(ctx context.Context, link string, rows []int64) error {
	return s.eachRow(ctx, link, rows, change{`UPDATE feed SET attempt = attempt + 1 WHERE event = ? AND link = ?`, nil})
}

// Settle implements [federation.Feeds].
func (s *Record) Settle(ctx context.Context, link string, rows []int64, how federation.Settlement) error {
	state := federation.DeliveryDelivered
	if how.Refused {
		state = federation.DeliveryRefused
	}
	changes := []change{
		{`INSERT INTO settled (event, link, state, ended) SELECT event, link, ?3, ?4 FROM feed WHERE event = ?1 AND link = ?2
			ON CONFLICT DO NOTHING`, []any{state, stamp(how.At)}},
		{`DELETE FROM feed WHERE event = ? AND link = ?`, nil},
	}
	if how.Shown {
		changes = append(changes, change{`UPDATE inbox SET waiting = NULL WHERE event = ?1 AND waiting IS NOT NULL AND did IN (
			SELECT b.did FROM event e JOIN handoff h ON h.id = e.handoff
				JOIN binding b ON b.did IN (h.view ->> 'offerer', h.view ->> 'offeree', h.view ->> 'assignee')
			WHERE e.seq = ?1 AND b.link = ?2)`, nil})
	}
	return s.eachRow(ctx, link, rows, changes...)
}

// change is one statement about a row of a feed: its first parameters are the event
// and the link.
type change struct {
	query string
	more  []any
}

// eachRow makes changes for rows of one feed, all or none. A row that is settled
// already is passed over.
func (s *Record) eachRow(ctx context.Context, link string, rows []int64, changes ...change) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		for _, row := range rows {
			for _, c := range changes {
				if _, err := q.exec(ctx, c.query, append([]any{row, link}, c.more...)...); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write feed of %s: %w", link, err)
	}
	return nil
}
