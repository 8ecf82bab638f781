package store

import (
	"context"
	"fmt"

	"baton/federation"
)

// Owed implements [federation.Feeds].
func (s *SQLite) Owed(ctx context.Context, link string, after int64, limit int) ([]federation.Delivery, error) {
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

// Attempt implements [federation.Feeds].
func (s *SQLite) Attempt(ctx context.Context, link string, rows []int64) error {
	return s.eachRow(ctx, link, rows, `UPDATE feed SET attempt = attempt + 1 WHERE event = ? AND link = ?`)
}

// Settle implements [federation.Feeds].
func (s *SQLite) Settle(ctx context.Context, link string, rows []int64, shown bool) error {
	changes := []string{`DELETE FROM feed WHERE event = ? AND link = ?`}
	if shown {
		changes = append(changes, `UPDATE inbox SET waiting = NULL WHERE event = ?1 AND waiting IS NOT NULL AND did IN (
			SELECT b.did FROM event e JOIN handoff h ON h.id = e.handoff
				JOIN binding b ON b.did IN (h.view ->> 'offerer', h.view ->> 'offeree', h.view ->> 'assignee')
			WHERE e.seq = ?1 AND b.link = ?2)`)
	}
	return s.eachRow(ctx, link, rows, changes...)
}

// eachRow makes changes for rows of one feed, all or none. A row that is settled
// already is passed over.
func (s *SQLite) eachRow(ctx context.Context, link string, rows []int64, changes ...string) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		for _, row := range rows {
			for _, change := range changes {
				if _, err := q.exec(ctx, change, row, link); err != nil {
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
