package deliveries

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/inboxes"
	"github.com/baton-gateway/baton/federation/store/queue"
)

type ending struct {
	engine.Question

	to, row int64
	rows    int // 0 for an ended one
	kind    federation.DestinationKind
	name    string // of the destination
	lane    string
	delayed int
}

func endOf(to, row int64) *ending {
	e := &ending{to: to, row: row}
	e.Question = engine.Question{
		Query: `SELECT count(*), coalesce(max(d.kind), ''), coalesce(max(d.name), ''), coalesce(max(f.lane), ''), coalesce(max(f.delayed), 0)
			FROM delivery f JOIN destination d ON d.n = f.destination WHERE f.item = ? AND f.destination = ? AND f.state = 'waiting'`,
		Args:  []any{row, to},
		Dest:  []any{&e.rows, &e.kind, &e.name, &e.lane, &e.delayed},
		About: []string{"delivery " + strconv.FormatInt(to, 10) + " " + strconv.FormatInt(row, 10)},
	}
	return e
}

// Steps shown by the link are no longer unread in the inboxes of the DIDs bound to it.
func (s Rows) settleSteps(ctx context.Context, link string, rows []int64, how federation.Settlement) error {
	to, err := s.db.Destination(ctx, link)
	if err == nil && to != 0 {
		ends, questions := make([]*ending, len(rows)), make([]*engine.Question, len(rows))
		for i, row := range rows {
			ends[i] = endOf(to, row)
			questions[i] = &ends[i].Question
		}
		err = s.db.WriteAfter(ctx, questions, func(ctx context.Context, q engine.Tx) error {
			for _, e := range ends {
				if err := e.end(ctx, q, how); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("write outbox of %s: %w", link, err)
	}
	return nil
}

// End ends one row, unless it has already ended.
func End(ctx context.Context, q engine.Tx, to, row int64, how federation.Settlement) error {
	return endOf(to, row).end(ctx, q, how)
}

func (e *ending) end(ctx context.Context, q engine.Tx, how federation.Settlement) error {
	if err := e.Answer(ctx, q); err != nil || e.rows == 0 {
		return err
	}
	if err := closeRow(ctx, q, e.to, e.row, e.lane, how); err != nil {
		return err
	}
	if how.Shown {
		if err := show(ctx, q, e.name, e.row, how.At); err != nil {
			return err
		}
	}
	if how.Dead == "" {
		if err := q.Put(ctx, `DELETE FROM attempt WHERE item = ? AND destination = ?`, e.row, e.to); err != nil {
			return err
		}
	}
	return noteEnd(ctx, q, e.name, e.row, e.delayed == queue.Notified, how)
}

// The next row of its lane becomes due. A replayed letter keeps its number.
func closeRow(ctx context.Context, q engine.Tx, to, row int64, lane string, how federation.Settlement) error {
	code := how.Code
	if how.Dead != "" {
		code = string(how.Dead)
	}
	err := q.Put(ctx, `UPDATE delivery SET state = ?, next = NULL, ended = ?, code = ?, reason = ?, unsure = '' WHERE item = ? AND destination = ?`,
		string(how.Outcome()), engine.Stamp(how.At), code, how.Why, row, to)
	if err == nil {
		err = queue.Advance(ctx, q, to, lane)
	}
	if err == nil && how.Dead != "" {
		err = q.Put(ctx, `INSERT INTO letter (id, last) SELECT 1, 1 WHERE EXISTS (SELECT 1 FROM delivery WHERE item = ? AND destination = ? AND letter IS NULL)
			ON CONFLICT (id) DO UPDATE SET last = letter.last + 1`, row, to)
		if err == nil {
			err = q.Put(ctx, `UPDATE delivery SET letter = coalesce(letter, (SELECT last FROM letter WHERE id = 1)), replayed = 0 WHERE item = ? AND destination = ?`, row, to)
		}
	}
	return err
}

// The step is no longer unread in the inboxes of the DIDs bound to the link.
func show(ctx context.Context, q engine.Tx, link string, row int64, now time.Time) error {
	return inboxes.MarkShown(ctx, q, now, `event = ?1 AND did IN (
		SELECT a.n FROM event e JOIN handoff h ON h.id = e.handoff
			JOIN actor a ON a.n IN (h.offerer, h.offeree, h.assignee) JOIN binding b ON b.did = a.did
		WHERE e.seq = ?1 AND b.link = ?2
		UNION ALL SELECT e.recipient FROM event e WHERE e.seq = ?1 AND e.state = 'said')`, row, link)
}

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

// Delay files a notice for up to limit deliveries to links filed at or before a given time.
func (s *Outboxes) Delay(ctx context.Context, before, now time.Time, limit int) (delayed int, err error) {
	return s.eachDelivery(ctx, `f.delayed = 0`, before, limit, func(ctx context.Context, q engine.Tx, k overdue) error {
		var reason string
		err := q.Row(ctx, `UPDATE delivery SET delayed = 1 WHERE item = ? AND destination = ? AND state = 'waiting' RETURNING reason`, []any{k.row, k.to}, &reason)
		if err != nil {
			return err
		}
		return inboxes.NoteStep(ctx, q, k.row, federation.Notice{Kind: federation.NoticeDelayed, To: k.name, Why: reason, At: now})
	})
}

// Expire abandons up to limit deliveries to links filed at or before a given time.
func (s *Outboxes) Expire(ctx context.Context, before, now time.Time, limit int) (expired int, err error) {
	how := federation.Settlement{
		State: federation.DeliveryDead, Dead: federation.DeadExpired, Why: "it was pending for too long", At: now,
	}
	return s.eachDelivery(ctx, `f.delayed IN (0, 1) AND f.rank <> `+rankMessage, before, limit, func(ctx context.Context, q engine.Tx, k overdue) error {
		return End(ctx, q, k.to, k.row, how)
	})
}

// ExpireMessages expires up to limit deliveries of messages filed at or before a given time. Unread
// text needs no decision by an operator, so it leaves no dead letter.
func (s *Outboxes) ExpireMessages(ctx context.Context, before, now time.Time, limit int) (expired int, err error) {
	how := federation.Settlement{
		State: federation.DeliveryExpired, Code: string(federation.DeadExpired), Why: "the recipient did not reconnect in time", At: now,
	}
	return s.eachDelivery(ctx, `f.delayed IN (0, 1) AND f.rank = `+rankMessage, before, limit, func(ctx context.Context, q engine.Tx, k overdue) error {
		return End(ctx, q, k.to, k.row, how)
	})
}

// This is [federation.RankMessage] in SQL.
const rankMessage = `4`

type overdue struct {
	to, row int64
	name    string
}

func (s *Outboxes) eachDelivery(ctx context.Context, which string, before time.Time, limit int,
	change func(ctx context.Context, q engine.Tx, k overdue) error,
) (int, error) {
	scan := func(row engine.Scanner) (k overdue, err error) {
		err = row.Scan(&k.to, &k.name, &k.row)
		return k, err
	}
	query := `SELECT d.n, d.name, f.item FROM destination d CROSS JOIN delivery f
		WHERE d.kind = 'link' AND f.destination = d.n AND f.state = 'waiting' AND f.queued <= ? AND ` + which + ` ORDER BY d.kind, d.name, f.delayed, f.queued, f.item` + engine.AtMost
	found, err := engine.Rows(ctx, s.db.Reads(), scan, query, engine.Stamp(before), max(limit, 0))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	changed, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (changed int, err error) {
		for _, k := range found {
			err := change(ctx, q, k)
			switch {
			case errors.Is(err, federation.ErrNotFound): // delivered meanwhile
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

// The first row of each lane has a time.
const hasWaiting = `EXISTS (SELECT 1 FROM delivery f WHERE f.destination = d.n AND f.next IS NOT NULL)`

// OutboxNames returns the names of the outboxes with a pending delivery, in order.
func (s *Outboxes) OutboxNames(ctx context.Context) ([]string, error) {
	names, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[string], `SELECT d.name FROM destination d WHERE d.kind = 'link' AND `+hasWaiting+` ORDER BY d.name`)
	if err != nil {
		return nil, fmt.Errorf("read names of outboxes: %w", err)
	}
	return names, nil
}

// Reroute moves deliveries from one outbox to another. Each keeps its age and has its attempts
// reset. It skips ended deliveries, and drops deliveries whose step is already pending there.
func (s *Outboxes) Reroute(ctx context.Context, from, to string, rows []int64) error {
	return s.change(ctx, from, rows, func(ctx context.Context, q engine.Tx, source, row int64) error {
		target, err := engine.InternDestination(ctx, q, federation.ToLink, to)
		if err != nil {
			return err
		}
		moved := queue.Row{Destination: target, Item: row}
		err = q.Row(ctx, `DELETE FROM delivery WHERE item = ? AND destination = ? AND state = 'waiting' RETURNING lane, rank, queued, delayed, sender`, []any{row, source},
			&moved.Lane, &moved.Rank, &moved.Queued, &moved.Delayed, &moved.Sender)
		if errors.Is(err, federation.ErrNotFound) {
			return nil
		}
		if err == nil {
			err = queue.Advance(ctx, q, source, moved.Lane)
		}
		if err == nil {
			err = q.Put(ctx, `DELETE FROM attempt WHERE item = ? AND destination = ?`, row, source)
		}
		if err == nil {
			err = queue.Put(ctx, q, moved)
		}
		if err != nil {
			return err
		}
		return queue.WaitBehind(ctx, q, target, moved.Lane, row)
	})
}

// UnlocatedReaders returns up to limit DIDs after a DID, in order, with unread inbox entries here,
// but without a stored mailbox location or a signed filed step.
func (s *Outboxes) UnlocatedReaders(ctx context.Context, after federation.DID, limit int) ([]federation.DID, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[federation.DID], `SELECT a.did FROM actor a JOIN mailbox m ON m.did = a.n WHERE a.did > ?1 AND m.entries > 0
		AND NOT EXISTS (SELECT 1 FROM binding b WHERE b.did = a.did) AND NOT EXISTS (SELECT 1 FROM mailbox_location l WHERE l.did = a.did)
		ORDER BY a.did LIMIT 0 + ?2`, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read inboxes without a location: %w", err)
	}
	return found, nil
}

// RouteUnread files a delivery in an outbox for each step in the inbox of a DID, and returns their
// number. It skips steps of ended and remote handoffs, and steps that a link has delivered or the
// outbox already had. The deliveries count as filed now.
func (s *Outboxes) RouteUnread(ctx context.Context, did federation.DID, to string, now time.Time) (int, error) {
	scan := func(row engine.Scanner) (r queue.Row, err error) {
		r = queue.Row{Rank: federation.RankAnswer, Queued: engine.Stamp(now)}
		err = row.Scan(&r.Lane, &r.Sender, &r.Item)
		return r, err
	}
	owner, err := s.db.Actor(ctx, did)
	if err != nil {
		return 0, fmt.Errorf("route unread deliveries of %s: %w", did, err)
	}
	routed, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int, error) {
		target, err := engine.InternDestination(ctx, q, federation.ToLink, to)
		if err != nil {
			return 0, err
		}
		unread, err := engine.Rows(ctx, q, scan, `SELECT e.handoff, e.signer, e.seq FROM inbox i JOIN event e ON e.seq = i.event JOIN handoff h ON h.id = e.handoff
			WHERE i.did = ?1 AND i.waiting IS NOT NULL AND h.over = 0 AND h.view ->> 'remote' IS NULL
				AND NOT EXISTS (SELECT 1 FROM delivery f JOIN destination d ON d.n = f.destination WHERE f.item = i.event AND d.kind = 'link' AND (d.n = ?2 OR f.state = 'delivered'))
			ORDER BY i.event`, owner, target)
		if err != nil {
			return 0, err
		}
		for _, row := range unread {
			row.Destination = target
			if err := queue.Put(ctx, q, row); err != nil {
				return 0, err
			}
		}
		return len(unread), nil
	})
	if err != nil {
		return 0, fmt.Errorf("route unread deliveries of %s: %w", did, err)
	}
	return routed, nil
}
