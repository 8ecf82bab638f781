package registry

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
)

// notNewest says of a message m that others came after it in its inbox and in its
// thread: both are numbered on from the newest one.
const notNewest = `(m.position IS NULL OR
	m.position < (SELECT max(position) FROM message t WHERE t.recipient = m.recipient) AND
	m.seq < (SELECT max(seq) FROM message t WHERE t.low = m.low AND t.high = m.high))`

// done says of a message m that its recipient was handed it or has no inbox here,
// and that it is of no handoff that goes on.
const done = `m.position IS NOT NULL
	AND (m.deleted > 0 OR m.read IS NOT NULL OR
		NOT EXISTS (SELECT 1 FROM agent a WHERE a.handle = m.recipient AND a.shown < m.position))
	AND NOT EXISTS (SELECT 1 FROM handoff h WHERE h.id = m.handoff AND NOT h.over = 1)`

// PruneMessages looks at up to limit messages that arrived at or before a time, and deletes
// the messages that their recipient has fetched, or has no inbox for. It keeps the message of
// a handoff that is not over, and the newest one of each inbox and thread, which number on
// from it. The cursor is the position to go on from: zero at the start, and at the end.
func (s *Registry) PruneMessages(ctx context.Context, before time.Time, after federation.Cursor, limit int) (int, federation.Cursor, error) {
	var n int64
	if after != "" {
		var err error
		if n, err = strconv.ParseInt(string(after), 10, 64); err != nil {
			return 0, "", fmt.Errorf("prune messages: %w", federation.ErrUnknownCursor)
		}
	}
	type candidate struct {
		n, received int64
		done        bool
	}
	scan := func(row engine.Scanner) (c candidate, err error) {
		err = row.Scan(&c.n, &c.received, &c.done)
		return c, err
	}
	page, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT m.n, m.received, `+done+` AND `+notNewest+` FROM message m
		WHERE m.n > ? ORDER BY m.n`+engine.AtMost, n, max(limit, 0))
	if err != nil {
		return 0, "", fmt.Errorf("prune messages: %w", err)
	}
	var next federation.Cursor
	if young := slices.IndexFunc(page, func(c candidate) bool { return c.received > engine.Stamp(before) }); young >= 0 {
		page = page[:young] // messages are numbered as they come
	} else if len(page) > 0 {
		next = federation.Cursor(strconv.FormatInt(page[len(page)-1].n, 10))
	}
	page = slices.DeleteFunc(page, func(c candidate) bool { return !c.done })
	if len(page) == 0 {
		return 0, next, nil
	}
	pruned, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (pruned int, err error) {
		for _, c := range page {
			gone, err := q.Exec(ctx, `DELETE FROM message AS m WHERE n = ? AND `+done+` AND `+notNewest, c.n)
			if err != nil {
				return 0, err
			}
			pruned += int(gone)
		}
		return pruned, nil
	})
	if err != nil {
		return 0, "", fmt.Errorf("prune messages: %w", err)
	}
	return pruned, next, nil
}
