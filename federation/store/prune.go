package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
	"baton/federation/store/handoffs"
)

// finished says of a handoff h that no step can follow.
const finished = `h.over = 1`

// Prune looks at up to limit handoffs that did not move since a time. It deletes handoffs that
// are over, with all that belongs to them: log, receipts, evidence, entries of inboxes, and
// their rows in the tables of networks. It keeps a handoff with a pending delivery to a link,
// and the handoff with the newest event, which later events number on from. Tombstones remain:
// the same step again is refused with [federation.TerminalHandoff], other bytes under its id
// with [federation.EventIDInUse]. Handoffs are in order by state and movement, so that it reads
// no young handoff.
func (s *Record) Prune(ctx context.Context, before, now time.Time, after federation.Cursor, limit int) (pruned int, next federation.Cursor, err error) {
	idle, next, err := s.Idle(ctx, before, after, limit)
	if err == nil && len(idle) > 0 {
		pruned, err = s.pruneAll(ctx, idle, now)
	}
	if err != nil {
		return 0, "", fmt.Errorf("prune: %w", err)
	}
	return pruned, next, nil
}

// pruneAll takes those handoffs from the record that are not needed any more.
func (s *Record) pruneAll(ctx context.Context, idle []federation.HandoffID, now time.Time) (int, error) {
	return engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (pruned int, err error) {
		links, err := outboxLinks(ctx, q)
		if err != nil {
			return 0, err
		}
		for _, id := range idle {
			gone, err := s.prune(ctx, q, id.String(), links, now)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", id, err)
			}
			if gone {
				pruned++
			}
		}
		return pruned, nil
	})
}

// outboxLinks returns the links with pending deliveries.
func outboxLinks(ctx context.Context, q engine.Tx) ([]byte, error) {
	links := []string{}
	for last := ""; ; last = links[len(links)-1] {
		next, err := engine.Rows(ctx, q, engine.ScanOne[string], `SELECT link FROM outbox WHERE link > ? ORDER BY link LIMIT 1`, last)
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
func (s *Record) prune(ctx context.Context, q engine.Tx, id string, links []byte, now time.Time) (gone bool, err error) {
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
	if err := handoffs.BuryIDs(ctx, q, id, now); err != nil {
		return false, err
	}
	return true, s.remove(ctx, q, id, view)
}

// needed reports whether a step of a handoff is still to be delivered to a link, or whether
// later events are numbered on from one of its own.
func needed(ctx context.Context, q engine.Tx, id string, links []byte) (needed bool, err error) {
	err = q.Row(ctx, `SELECT (SELECT handoff FROM event WHERE seq = (SELECT max(seq) FROM event)) = ?1
		OR EXISTS (SELECT 1 FROM event e CROSS JOIN json_each(?2) l JOIN outbox f ON f.link = l.value AND f.event = e.seq
			WHERE e.handoff = ?1)
		OR EXISTS (SELECT 1 FROM event e JOIN dead d ON d.event = e.seq WHERE e.handoff = ?1)`, []any{id, string(links)}, &needed)
	return needed, err
}

// remove deletes a handoff with all that belongs to it. Its steps are in the inboxes
// of its parties and in no other.
func (s *Record) remove(ctx context.Context, q engine.Tx, id string, view federation.View) error {
	for _, did := range view.Others("") {
		err := q.Put(ctx, `DELETE FROM inbox WHERE did = ? AND event IN (SELECT seq FROM event WHERE handoff = ?)`, did, id)
		if err != nil {
			return err
		}
	}
	if err := handoffs.UnclaimBlobs(ctx, q, id); err != nil {
		return err
	}
	if s.db.Tables != nil {
		if err := s.db.Tables.Forget(ctx, q, id); err != nil {
			return err
		}
	}
	for _, change := range []string{
		`DELETE FROM evidence WHERE handoff = ?`,
		`DELETE FROM ruling WHERE handoff = ?`,
		`DELETE FROM event WHERE handoff = ?`,
		`DELETE FROM handoff WHERE id = ?`,
	} {
		if err := q.Put(ctx, change, id); err != nil {
			return err
		}
	}
	return nil
}

// over returns the view of a handoff that no step can follow, or
// [federation.ErrNotFound].
func over(ctx context.Context, q engine.Tx, id string) (federation.View, error) {
	var text []byte
	if err := q.Row(ctx, `SELECT h.view FROM handoff h WHERE h.id = ? AND `+finished, []any{id}, &text); err != nil {
		return federation.View{}, err
	}
	return handoffs.DecodeView(text)
}
