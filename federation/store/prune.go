package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"baton/federation"
)

// finished says of a handoff h that no step can follow.
const finished = `h.over = 1`

// Prune implements [federation.Retention]. Handoffs are in order by state and
// movement, so that it never looks at those that are too young.
func (s *Record) Prune(ctx context.Context, before, now time.Time, after federation.Cursor, limit int) (pruned int, next federation.Cursor, err error) {
	page, next, err := s.idle(ctx, before, after, limit)
	if err == nil && len(page) > 0 {
		pruned, err = s.pruneAll(ctx, page, now)
	}
	if err != nil {
		return 0, "", fmt.Errorf("prune: %w", err)
	}
	return pruned, next, nil
}

// pruneAll takes those handoffs from the record that are not needed any more.
func (s *Record) pruneAll(ctx context.Context, page []movement, now time.Time) (int, error) {
	return written(ctx, s, func(ctx context.Context, q *statements) (pruned int, err error) {
		links, err := feedLinks(ctx, q)
		if err != nil {
			return 0, err
		}
		for _, m := range page {
			gone, err := prune(ctx, q, m.id.String(), links, now)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", m.id, err)
			}
			if gone {
				pruned++
			}
		}
		return pruned, nil
	})
}

// idle returns the next handoffs that did not move since a time, state by state and
// in each the oldest movement first, and where to go on from.
func (s *Record) idle(ctx context.Context, before time.Time, after federation.Cursor, limit int) (page []movement, next federation.Cursor, err error) {
	from, at, ok := strings.Cut(string(after), " ")
	place := movement{moved: -1}
	if ok {
		place, err = parseMovement(federation.Cursor(at))
	} else if after != "" {
		err = federation.ErrUnknownCursor
	}
	if err != nil {
		return nil, "", err
	}
	states, err := s.states(ctx, federation.Filter{})
	if err != nil {
		return nil, "", err
	}
	for _, state := range states {
		if string(state) < from {
			continue
		}
		if string(state) > from {
			place = movement{moved: -1}
		}
		page, err = rows(ctx, s.reads, scanMovement, `SELECT moved, handoff FROM party
			WHERE did = '' AND state = ? AND (moved, handoff) > (?, ?) AND moved <= ?
			ORDER BY moved, handoff`+atMost, state, place.moved, place.id.String(), stamp(before), max(limit, 0))
		if err != nil {
			return nil, "", err
		}
		if len(page) > 0 {
			return page, federation.Cursor(string(state) + " " + string(page[len(page)-1].cursor())), nil
		}
	}
	return nil, "", nil
}

// feedLinks returns the links that are owed anything.
func feedLinks(ctx context.Context, q *statements) ([]byte, error) {
	links := []string{}
	for last := ""; ; last = links[len(links)-1] {
		next, err := rows(ctx, q, scanOne[string], `SELECT link FROM feed WHERE link > ? ORDER BY link LIMIT 1`, last)
		if err != nil {
			return nil, err
		}
		if len(next) == 0 {
			return json.Marshal(links)
		}
		links = append(links, next[0])
	}
}

// prune takes one handoff from the record, unless it is still needed.
func prune(ctx context.Context, q *statements, id string, links []byte, now time.Time) (gone bool, err error) {
	view, err := over(ctx, q, id)
	if errors.Is(err, federation.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if needed, err := needed(ctx, q, id, links); err != nil || needed {
		return false, err
	}
	if err := spend(ctx, q, id, now); err != nil {
		return false, err
	}
	return true, remove(ctx, q, id, view)
}

// needed reports whether a link is still owed a step of a handoff, or events are
// numbered on from one of its own.
func needed(ctx context.Context, q *statements, id string, links []byte) (needed bool, err error) {
	err = q.row(ctx, `SELECT (SELECT handoff FROM event WHERE seq = (SELECT max(seq) FROM event)) = ?1
		OR EXISTS (SELECT 1 FROM event e CROSS JOIN json_each(?2) l JOIN feed f ON f.link = l.value AND f.event = e.seq
			WHERE e.handoff = ?1)
		OR EXISTS (SELECT 1 FROM event e JOIN dead d ON d.event = e.seq WHERE e.handoff = ?1)`, []any{id, string(links)}, &needed)
	return needed, err
}

// remove deletes a handoff with all that belongs to it. Its steps are in the inboxes
// of its parties and in no other.
func remove(ctx context.Context, q *statements, id string, view federation.View) error {
	for _, did := range view.Others("") {
		_, err := q.exec(ctx, `DELETE FROM inbox WHERE did = ? AND event IN (SELECT seq FROM event WHERE handoff = ?)`, did, id)
		if err != nil {
			return err
		}
	}
	if err := unclaimBlobs(ctx, q, id); err != nil {
		return err
	}
	for _, change := range []string{
		`DELETE FROM message AS m WHERE handoff = ? AND ` + notNewest,
		`DELETE FROM evidence WHERE handoff = ?`,
		`DELETE FROM ruling WHERE handoff = ?`,
		`DELETE FROM event WHERE handoff = ?`,
		`DELETE FROM handoff WHERE id = ?`,
	} {
		if _, err := q.exec(ctx, change, id); err != nil {
			return err
		}
	}
	return nil
}

// over returns the view of a handoff that no step can follow, or
// [federation.ErrNotFound].
func over(ctx context.Context, q *statements, id string) (federation.View, error) {
	var text []byte
	if err := q.row(ctx, `SELECT h.view FROM handoff h WHERE h.id = ? AND `+finished, []any{id}, &text); err != nil {
		return federation.View{}, err
	}
	return decodeView(text)
}

// notNewest says of a message m that others came after it in its inbox and in its
// thread: both are numbered on from the newest one.
const notNewest = `(m.position IS NULL OR
	m.position < (SELECT max(position) FROM message t WHERE t.recipient = m.recipient) AND
	m.seq < (SELECT max(seq) FROM message t WHERE t.low = m.low AND t.high = m.high))`

// done says of a message m that its recipient was handed it or has no inbox here,
// and that it is of no handoff that goes on.
const done = `m.position IS NOT NULL
	AND (m.deleted = 1 OR m.read IS NOT NULL OR
		NOT EXISTS (SELECT 1 FROM agent a WHERE a.handle = m.recipient AND a.shown < m.position))
	AND NOT EXISTS (SELECT 1 FROM handoff h WHERE h.id = m.handoff AND NOT ` + finished + `)`

// PruneMessages implements [federation.Retention].
func (s *Record) PruneMessages(ctx context.Context, before time.Time, after federation.Cursor, limit int) (int, federation.Cursor, error) {
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
	scan := func(row scanner) (c candidate, err error) {
		err = row.Scan(&c.n, &c.received, &c.done)
		return c, err
	}
	page, err := rows(ctx, s.reads, scan, `SELECT m.n, m.received, `+done+` AND `+notNewest+` FROM message m
		WHERE m.n > ? ORDER BY m.n`+atMost, n, max(limit, 0))
	if err != nil {
		return 0, "", fmt.Errorf("prune messages: %w", err)
	}
	var next federation.Cursor
	if young := slices.IndexFunc(page, func(c candidate) bool { return c.received > stamp(before) }); young >= 0 {
		page = page[:young] // messages are numbered as they come
	} else if len(page) > 0 {
		next = federation.Cursor(strconv.FormatInt(page[len(page)-1].n, 10))
	}
	page = slices.DeleteFunc(page, func(c candidate) bool { return !c.done })
	if len(page) == 0 {
		return 0, next, nil
	}
	pruned, err := written(ctx, s, func(ctx context.Context, q *statements) (pruned int, err error) {
		for _, c := range page {
			gone, err := q.exec(ctx, `DELETE FROM message AS m WHERE n = ? AND `+done+` AND `+notNewest, c.n)
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
