package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
	"baton/federation/store/inboxes"
)

// Row is a row of an outbox as it is written.
type Row struct {
	Link    string
	Signer  int64  // number of the DID that signed the event, which is there
	ID      string // of the event
	Attempt int
	Handoff string
	Rank    federation.Rank
	Filed   int64
}

// Put writes a row. The row waits behind the older rows of its handoff, except rows that wait for a
// party. The sum and the concatenation keep the planner from using an index: without table
// statistics it would search by the link, and read all of its rows.
func Put(ctx context.Context, q engine.Tx, r Row) error {
	return q.Put(ctx, `INSERT INTO outbox (link, event, attempt, handoff, rank, filed, signer, next)
		SELECT ?2, e.seq, ?3, ?1, ?4, ?5, e.signer, CASE WHEN EXISTS (SELECT 1 FROM outbox WHERE handoff = ?1 AND link || '' = ?2 AND event - e.seq < 0 AND rank <> `+rankPersonal+`) THEN NULL ELSE 0 END
		FROM event e WHERE e.id = ?7 AND e.signer = ?6
		ON CONFLICT DO NOTHING`, r.Handoff, r.Link, r.Attempt, int(r.Rank), r.Filed, r.Signer, r.ID)
}

// ending is the end of one row of an outbox.
type ending struct {
	engine.Question // how the row stands

	link    string
	row     int64
	rows    int // 0 for one that is over
	handoff string
	attempt int
	filed   int64
	delayed int // 0 or 1
}

func endOf(link string, row int64) *ending {
	e := &ending{link: link, row: row}
	e.Question = engine.Question{
		Query: `SELECT count(*), coalesce(max(handoff), ''), coalesce(max(attempt), 0), coalesce(max(filed), 0), coalesce(max(delayed), 0)
			FROM outbox WHERE event = ? AND link = ?`,
		Args:  []any{row, link},
		Dest:  []any{&e.rows, &e.handoff, &e.attempt, &e.filed, &e.delayed},
		About: []string{"outbox " + link + " " + strconv.FormatInt(row, 10)},
	}
	return e
}

// Settle ends rows: delivered, refused, or given up. If the link has shown them to its
// people, the steps do not wait any more in the inboxes of the DIDs that are bound to it. It
// files the notices to the signers, and the dead letters.
func (s *Outboxes) Settle(ctx context.Context, link string, rows []int64, how federation.Settlement) error {
	ends, questions := make([]*ending, len(rows)), make([]*engine.Question, len(rows))
	for i, row := range rows {
		ends[i] = endOf(link, row)
		questions[i] = &ends[i].Question
	}
	err := s.db.WriteAfter(ctx, questions, func(ctx context.Context, q engine.Tx) error {
		for _, e := range ends {
			if err := e.end(ctx, q, how); err != nil {
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

// End ends one row of an outbox. It skips a row that is over.
func End(ctx context.Context, q engine.Tx, link string, row int64, how federation.Settlement) error {
	return endOf(link, row).end(ctx, q, how)
}

func (e *ending) end(ctx context.Context, q engine.Tx, how federation.Settlement) error {
	if err := e.Answer(ctx, q); err != nil || e.rows == 0 {
		return err
	}
	if err := q.Put(ctx, `DELETE FROM outbox WHERE event = ? AND link = ?`, e.row, e.link); err != nil {
		return err
	}
	if err := advanceOutbox(ctx, q, e.link, e.handoff); err != nil {
		return err
	}
	code := how.Code
	if how.Dead != "" {
		code = string(how.Dead)
	}
	if err := q.Put(ctx, `INSERT INTO settled (event, link, state, ended, code) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		e.row, e.link, how.Outcome(), engine.Stamp(how.At), code); err != nil {
		return err
	}
	if how.Shown {
		if err := show(ctx, q, e.link, e.row, how.At); err != nil {
			return err
		}
	}
	if err := e.endTries(ctx, q, how); err != nil {
		return err
	}
	return noteEnd(ctx, q, e.link, e.row, e.delayed != 0, how)
}

// endTries leaves the attempts of a row to its dead letter, or forgets them.
func (e *ending) endTries(ctx context.Context, q engine.Tx, how federation.Settlement) error {
	if how.Dead != "" {
		return bury(ctx, q, deadLetter{link: e.link, event: e.row, attempt: e.attempt, queued: e.filed}, how)
	}
	return q.Put(ctx, `DELETE FROM attempt WHERE link = ? AND item = ?`, e.link, e.row)
}

// advanceOutbox makes the next row of a handoff due. For the concatenation see [Put].
func advanceOutbox(ctx context.Context, q engine.Tx, link, handoff string) error {
	return q.Put(ctx, `UPDATE outbox SET next = 0 WHERE link = ?2 AND next IS NULL AND event =
		(SELECT min(event) FROM outbox WHERE handoff = ?1 AND link || '' = ?2 AND rank <> `+rankPersonal+`)`, handoff, link)
}

// show ends the waiting of a step in the inboxes of the DIDs that are bound to a link which
// has shown it.
func show(ctx context.Context, q engine.Tx, link string, row int64, now time.Time) error {
	return inboxes.MarkShown(ctx, q, now, `event = ?1 AND did IN (
		SELECT a.n FROM event e JOIN handoff h ON h.id = e.handoff
			JOIN actor a ON a.n IN (h.offerer, h.offeree, h.assignee) JOIN binding b ON b.did = a.did
		WHERE e.seq = ?1 AND b.link = ?2
		UNION ALL SELECT e.recipient FROM event e WHERE e.seq = ?1 AND e.state = 'said')`, row, link)
}

// deadLetter is a dead letter as it is written: of a step, or of a message.
type deadLetter struct {
	link         string
	event        int64 // 0 for none
	peerDelivery int64 // 0 for none
	attempt      int
	queued       int64
}

// bury files a dead letter. One that had been put back is dead again.
func bury(ctx context.Context, q engine.Tx, l deadLetter, how federation.Settlement) error {
	conflict := `(event, link) WHERE event IS NOT NULL`
	if l.peerDelivery != 0 {
		conflict = `(peer_delivery) WHERE peer_delivery IS NOT NULL`
	}
	return q.Put(ctx, `INSERT INTO dead (link, event, peer_delivery, reason, why, attempt, queued, died) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT `+conflict+` DO UPDATE SET reason = excluded.reason, why = excluded.why, attempt = excluded.attempt,
			died = excluded.died, replayed = 0`, l.link, numberOrNull(l.event), numberOrNull(l.peerDelivery), string(how.Dead), how.Why, l.attempt, l.queued, engine.Stamp(how.At))
}

// numberOrNull keeps an absent number out of unique indexes.
func numberOrNull(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: n != 0} }

// noteEnd files what the signer of a step is told of the end of a delivery.
func noteEnd(ctx context.Context, q engine.Tx, link string, row int64, delayed bool, how federation.Settlement) error {
	n := federation.Notice{Kind: federation.NoticeUndeliverable, To: link, Code: how.Code, Why: how.Why, At: how.At}
	switch {
	case how.Quiet:
		return nil
	case how.Outcome() == federation.DeliveryDelivered && !delayed:
		return nil
	case how.Outcome() == federation.DeliveryDelivered:
		n.Kind = federation.NoticeDelivered
	case how.Dead != "":
		n.Code = string(how.Dead)
	}
	return inboxes.NoteStep(ctx, q, row, n)
}

// Delay files a notice for up to limit deliveries to links that were filed at or before a time.
func (s *Outboxes) Delay(ctx context.Context, before, now time.Time, limit int) (delayed int, err error) {
	return s.eachDelivery(ctx, `delayed = 0 AND filed <= ?`, before, limit, func(ctx context.Context, q engine.Tx, link string, row int64) error {
		var reason string
		err := q.Row(ctx, `UPDATE outbox SET delayed = 1 WHERE event = ? AND link = ? RETURNING reason`, []any{row, link}, &reason)
		if err != nil {
			return err
		}
		return inboxes.NoteStep(ctx, q, row, federation.Notice{Kind: federation.NoticeDelayed, To: link, Why: reason, At: now})
	})
}

// Expire gives up to limit of them up.
func (s *Outboxes) Expire(ctx context.Context, before, now time.Time, limit int) (expired int, err error) {
	how := federation.Settlement{
		State: federation.DeliveryDead, Dead: federation.DeadExpired, Why: "it waited too long", At: now,
	}
	return s.eachDelivery(ctx, `rank <> `+rankMessage+` AND filed <= ?`, before, limit, func(ctx context.Context, q engine.Tx, link string, row int64) error {
		return End(ctx, q, link, row, how)
	})
}

// ExpireMessages ends up to limit deliveries of messages that were filed at or before a time. An
// operator has nothing to decide about text that was not read: it leaves no dead letter.
func (s *Outboxes) ExpireMessages(ctx context.Context, before, now time.Time, limit int) (expired int, err error) {
	how := federation.Settlement{
		State: federation.DeliveryExpired, Code: string(federation.DeadExpired), Why: "the recipient did not come back in time", At: now,
	}
	return s.eachDelivery(ctx, `rank = `+rankMessage+` AND filed <= ?`, before, limit, func(ctx context.Context, q engine.Tx, link string, row int64) error {
		return End(ctx, q, link, row, how)
	})
}

// SQL values of [federation.RankMessage] and [federation.RankPersonal].
const (
	rankMessage  = `4`
	rankPersonal = `5`
)

// eachDelivery changes up to limit rows of all outboxes that were filed at or before a time.
func (s *Outboxes) eachDelivery(ctx context.Context, which string, before time.Time, limit int,
	change func(ctx context.Context, q engine.Tx, link string, row int64) error,
) (int, error) {
	type key struct {
		link string
		row  int64
	}
	scan := func(row engine.Scanner) (k key, err error) { err = row.Scan(&k.link, &k.row); return k, err }
	query := `SELECT link, event FROM outbox WHERE ` + which + ` ORDER BY filed, link, event` + engine.AtMost
	found, err := engine.Rows(ctx, s.db.Reads(), scan, query, engine.Stamp(before), max(limit, 0))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	changed, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (changed int, err error) {
		for _, k := range found {
			err := change(ctx, q, k.link, k.row)
			switch {
			case errors.Is(err, federation.ErrNotFound): // delivered in between
			case err != nil:
				return 0, err
			default:
				changed++
			}
		}
		return changed, nil
	})
	if err != nil {
		return 0, fmt.Errorf("write feeds: %w", err)
	}
	return changed, nil
}

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
	var handoff string
	var signer int64
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
			SELECT ?2, CAST(?3 AS bigint), 0, ?1, CAST(?4 AS bigint), CAST(?5 AS bigint), CAST(?6 AS bigint), CAST(?7 AS bigint), CASE WHEN EXISTS (SELECT 1 FROM outbox WHERE handoff = ?1 AND link = ?2 AND event < ?3) THEN NULL ELSE 0 END
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
	found, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[federation.DID], `SELECT a.did FROM actor a JOIN mailbox m ON m.did = a.n WHERE a.did > ?1 AND m.entries > 0
		AND NOT EXISTS (SELECT 1 FROM binding b WHERE b.did = a.did) AND NOT EXISTS (SELECT 1 FROM mailbox_location l WHERE l.did = a.did)
		ORDER BY a.did LIMIT 0 + ?2`, after, max(limit, 0))
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
	owner, err := s.db.Actor(ctx, did)
	if err != nil {
		return 0, fmt.Errorf("route what %s has not read: %w", did, err)
	}
	routed, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int, error) {
		unread, err := engine.Rows(ctx, q, scan, `SELECT e.handoff, e.signer, e.id FROM inbox i JOIN event e ON e.seq = i.event JOIN handoff h ON h.id = e.handoff
			WHERE i.did = ?1 AND i.waiting IS NOT NULL AND h.over = 0 AND h.view ->> 'remote' IS NULL
				AND NOT EXISTS (SELECT 1 FROM outbox f WHERE f.handoff = e.handoff AND f.event = i.event AND f.link = ?2)
				AND NOT EXISTS (SELECT 1 FROM settled s WHERE s.event = i.event AND (s.link = ?2 OR s.state = ?3))
			ORDER BY i.event`, owner, to, federation.DeliveryDelivered)
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
