package store

import (
	"context"
	"fmt"

	"baton/federation"
)

// Replay implements [federation.Inboxes].
func (s *SQLite) Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error) {
	inbox := didInbox(to)
	n, err := s.position(ctx, inbox, after, `SELECT coalesce(max(n), 0) FROM inbox WHERE did = ?`)
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
	entries, err := rows(ctx, s.reads, scan, `SELECT `+entryColumns+`, i.n FROM inbox i JOIN event e ON e.seq = i.event
		WHERE i.did = ? AND i.n > ? ORDER BY i.n LIMIT ?`, to, n, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", to, err)
	}
	return entries, nil
}
