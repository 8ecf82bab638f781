package outboxes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
)

// OutboxNames returns the names of the outboxes in which a delivery is pending, in order. It
// looks for one name after the other: the index leads from each to the next, however many rows
// they have.
func (s *Outboxes) OutboxNames(ctx context.Context) ([]string, error) {
	var names []string
	last := ""
	for {
		err := s.db.Reads().Row(ctx, `SELECT link FROM outbox WHERE link > ? ORDER BY link LIMIT 1`, []any{last}, &last)
		switch {
		case errors.Is(err, federation.ErrNotFound):
			return names, nil
		case err != nil:
			return nil, fmt.Errorf("read names of outboxes: %w", err)
		}
		names = append(names, last)
	}
}

// Reroute moves deliveries from one outbox to another. Each keeps its age and is due in the order of
// its handoff, with no attempt counted. An ended delivery is skipped, and a delivery whose step is
// pending there already is dropped.
func (s *Outboxes) Reroute(ctx context.Context, from, to string, rows []int64) error {
	return s.changeOutbox(ctx, from, rows, func(ctx context.Context, q engine.Tx, row int64) error { return reroute(ctx, q, from, to, row) })
}

// reroute moves one row. It skips a row that is over.
func reroute(ctx context.Context, q engine.Tx, from, to string, row int64) error {
	var handoff, signer string
	var rank, delayed int
	var filed int64
	err := q.Row(ctx, `DELETE FROM outbox WHERE event = ? AND link = ? RETURNING handoff, rank, filed, delayed, signer`, []any{row, from}, &handoff, &rank, &filed, &delayed, &signer)
	if errors.Is(err, federation.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = advanceOutbox(ctx, q, from, handoff)
	}
	if err == nil {
		err = q.Put(ctx, `DELETE FROM attempt WHERE link = ? AND item = ?`, from, row)
	}
	if err == nil {
		err = q.Put(ctx, `DELETE FROM settled WHERE event = ? AND link = ?`, row, to)
	}
	if err == nil {
		err = q.Put(ctx, `INSERT INTO outbox (link, event, attempt, handoff, rank, filed, delayed, signer, next)
			SELECT ?2, CAST(?3 AS bigint), 0, ?1, CAST(?4 AS bigint), CAST(?5 AS bigint), CAST(?6 AS bigint), ?7, CASE WHEN EXISTS (SELECT 1 FROM outbox WHERE handoff = ?1 AND link = ?2 AND event < ?3) THEN NULL ELSE 0 END
			ON CONFLICT DO NOTHING`, handoff, to, row, rank, filed, delayed, signer)
	}
	if err != nil {
		return err
	}
	return waitBehind(ctx, q, to, handoff, row)
}

// waitBehind lets the rows of a handoff that come after one wait for it.
func waitBehind(ctx context.Context, q engine.Tx, link, handoff string, row int64) error {
	return q.Put(ctx, `UPDATE outbox SET next = NULL WHERE handoff = ?1 AND link = ?2 AND event > ?3 AND next IS NOT NULL AND rank <> `+rankPersonal, handoff, link, row)
}

// UnlocatedReaders returns up to limit DIDs after one, in order, for which something waits in an
// inbox here, and which have neither a kept mailbox location nor signed a filed step.
func (s *Outboxes) UnlocatedReaders(ctx context.Context, after federation.DID, limit int) ([]federation.DID, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[federation.DID], `SELECT m.did FROM mailbox m WHERE m.did > ?1 AND m.entries > 0
		AND NOT EXISTS (SELECT 1 FROM binding b WHERE b.did = m.did) AND NOT EXISTS (SELECT 1 FROM mailbox_location l WHERE l.did = m.did)
		ORDER BY m.did LIMIT 0 + ?2`, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read inboxes without a location: %w", err)
	}
	return found, nil
}

// RouteUnread files a delivery in an outbox for each step in the inbox of a DID,
// unless its handoff is over or of another home, a link delivered the step, or the outbox had
// the step before. It returns how many. They count as filed now.
func (s *Outboxes) RouteUnread(ctx context.Context, did federation.DID, to string, now time.Time) (int, error) {
	scan := func(row engine.Scanner) (r Row, err error) {
		r = Row{Link: to, Rank: federation.RankAnswer, Filed: engine.Stamp(now)}
		err = row.Scan(&r.Handoff, &r.Signer, &r.ID)
		return r, err
	}
	routed, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int, error) {
		unread, err := engine.Rows(ctx, q, scan, `SELECT e.handoff, e.signer, e.id FROM inbox i JOIN event e ON e.seq = i.event JOIN handoff h ON h.id = e.handoff
			WHERE i.did = ?1 AND i.waiting IS NOT NULL AND h.over = 0 AND h.view ->> 'remote' IS NULL
				AND NOT EXISTS (SELECT 1 FROM outbox f WHERE f.handoff = e.handoff AND f.event = i.event AND f.link = ?2)
				AND NOT EXISTS (SELECT 1 FROM settled s WHERE s.event = i.event AND (s.link = ?2 OR s.state = ?3))
			ORDER BY i.event`, did, to, federation.DeliveryDelivered)
		if err != nil {
			return 0, err
		}
		for _, row := range unread {
			if err := Put(ctx, q, row); err != nil {
				return 0, err
			}
		}
		return len(unread), nil
	})
	if err != nil {
		return 0, fmt.Errorf("route what %s has not read: %w", did, err)
	}
	return routed, nil
}
