package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"baton/federation"
)

// Replay implements [federation.Inboxes].
func (s *SQLite) Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error) {
	inbox := didInbox(to)
	n, err := s.position(ctx, inbox, after, `SELECT coalesce(max(event), 0) FROM inbox WHERE did = ?`)
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", to, err)
	}
	scan := func(row scanner) (federation.Entry, error) {
		var e entryScan
		var n uint64
		if err := row.Scan(append(e.dest(), &n)...); err != nil {
			return federation.Entry{}, err
		}
		e.entry.Cursor = inbox.cursor(n)
		return e.read()
	}
	entries, err := rows(ctx, s.reads, scan, `SELECT `+entryColumns+`, i.event FROM inbox i JOIN event e ON e.seq = i.event
		WHERE i.did = ? AND i.event > ? ORDER BY i.event`+atMost, to, n, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", to, err)
	}
	return entries, nil
}

// Waiting implements [federation.Inboxes].
func (s *SQLite) Waiting(ctx context.Context, to federation.DID) (entries int, size int64, err error) {
	err = s.reads.row(ctx, `SELECT entries, size FROM mailbox WHERE did = ?`, []any{to}, &entries, &size)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return 0, 0, fmt.Errorf("count inbox of %s: %w", to, err)
	}
	return entries, size, nil
}

// Read implements [federation.Inboxes]. Who polls an inbox is shown the same
// entries over and over, which is not worth a write each time.
func (s *SQLite) Read(ctx context.Context, to federation.DID, events []federation.EventID) error {
	if n, _, err := s.Waiting(ctx, to); err != nil || n == 0 || len(events) == 0 {
		return err
	}
	ids, err := json.Marshal(events)
	if err == nil {
		err = s.write(ctx, func(ctx context.Context, q *statements) error {
			_, err := q.exec(ctx, `UPDATE inbox SET waiting = NULL WHERE did = ? AND waiting IS NOT NULL AND event IN
				(SELECT e.seq FROM json_each(?) j JOIN event e ON e.id = j.value)`, to, string(ids))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("mark inbox of %s: %w", to, err)
	}
	return nil
}
