package deliveries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/inboxes"
	"github.com/baton-gateway/baton/federation/store/queue"
)

// A list omits the document itself.
func peerColumns(document string) string {
	return `f.item, substr(d.name, 6), r.sender, r.message, f.lane, ` + document + `, r.handoff, f.queued, f.attempt, coalesce(nullif(f.next, 0), f.queued), f.delayed = 1, f.reason, f.unsure, r.kind`
}

const peerTables = ` FROM delivery f JOIN destination d ON d.n = f.destination JOIN document r ON r.n = f.item - ` + queue.DocumentBase + ` `

// The handoff is zero if unreadable.
func scanPeerDelivery(row engine.Scanner) (federation.PeerDelivery, error) {
	var r federation.PeerDelivery
	var handoff []byte
	var queued, next int64
	err := row.Scan(&r.Row, &r.Peer, &r.Sender, &r.Message, &r.OrderKey, &r.Document, &handoff, &queued, &r.Attempt, &next, &r.Delayed, &r.Reason,
		&r.Unsure, &r.Kind)
	r.Queued, r.Next = engine.Moment(queued), engine.Moment(next)
	if r.Handoff.UnmarshalText(handoff) != nil {
		r.Handoff = federation.HandoffID{}
	}
	return r, err
}

// Replies to an attempt arrive within this time.
const peerDeliveryIDLife = 30 * 24 * time.Hour

// Enqueue queues a delivery that is not a message of the record. It does nothing if the same
// Message of the same Sender is pending under its OrderKey. It returns a
// [*federation.UnavailableError] if [federation.MaxPeerDeliveries] are pending for the peer.
func (s *Outboxes) Enqueue(ctx context.Context, r federation.PeerDelivery) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		var waits bool
		err := q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM delivery f JOIN document r ON r.n = f.item - `+queue.DocumentBase+`
			WHERE f.lane = ?2 AND f.destination = `+ofName+` AND f.state = 'waiting' AND r.sender = ?3 AND r.message = ?4)`,
			[]any{federation.PeerDestination(r.Peer), r.OrderKey, r.Sender, r.Message}, &waits)
		if err != nil || waits {
			return err
		}
		return Enqueue(ctx, q, r)
	})
	if err != nil {
		return fmt.Errorf("queue for %s: %w", r.Peer, err)
	}
	return nil
}

// Enqueue queues a delivery to a peer.
func Enqueue(ctx context.Context, q engine.Tx, r federation.PeerDelivery) error {
	to, err := engine.InternDestination(ctx, q, federation.ToPeer, federation.PeerDestination(r.Peer))
	if err != nil {
		return err
	}
	var full bool
	err = q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM delivery WHERE destination = ? AND state = 'waiting' LIMIT 1 OFFSET ?)`,
		[]any{to, federation.MaxPeerDeliveries - 1}, &full)
	switch {
	case err != nil:
		return err
	case full:
		return &federation.UnavailableError{What: "peer " + r.Peer, RetryAfter: time.Minute, Err: errors.New("its queue is full")}
	}
	row := queue.Row{Destination: to, Lane: r.OrderKey, Rank: federation.RankAnswer, Queued: engine.Stamp(r.Queued)}
	kind := cmp.Or(r.Kind, federation.MessageDelivery)
	if kind != federation.MessageDelivery {
		row.Delayed = queue.NoRecipient
	}
	if row.Sender, err = engine.Intern(ctx, q, federation.DID(r.Sender)); err != nil {
		return err
	}
	err = q.Row(ctx, `INSERT INTO document (kind, sender, message, handoff, document) VALUES (?, ?, ?, ?, ?) RETURNING n`,
		[]any{string(kind), r.Sender, r.Message, r.Handoff.String(), engine.NotNull(r.Document)}, &row.Item)
	if err != nil {
		return err
	}
	row.Item += queue.FirstDocument
	if err := queue.Put(ctx, q, row); err != nil {
		return err
	}
	return q.Put(ctx, `UPDATE destination SET due = 0 WHERE n = ? AND (due IS NULL OR due > 0)`, to)
}

// PeerOutboxes returns the peers with pending deliveries, ordered by name.
func (s *Outboxes) PeerOutboxes(ctx context.Context) ([]federation.PeerOutbox, error) {
	scan := func(row engine.Scanner) (p federation.PeerOutbox, err error) {
		var next int64
		err = row.Scan(&p.Name, &p.Failures, &next)
		p.Next = engine.Moment(next)
		return p, err
	}
	peers, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT substr(d.name, 6), d.failures, d.next FROM destination d WHERE d.kind = 'peer' AND `+hasWaiting+` ORDER BY d.name`)
	if err != nil {
		return nil, fmt.Errorf("read peers: %w", err)
	}
	return peers, nil
}

// PeerBacklogs returns the backlog of each peer by name.
func (s *Outboxes) PeerBacklogs(ctx context.Context) ([]federation.PeerBacklog, error) {
	scan := func(row engine.Scanner) (b federation.PeerBacklog, err error) {
		var oldest int64
		err = row.Scan(&b.Peer, &b.Rows, &oldest, &b.Dead)
		b.Oldest = engine.Moment(oldest)
		return b, err
	}
	all, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT name, pending, oldest, given_up FROM (SELECT substr(d.name, 6) AS name,
			(SELECT count(*) FROM delivery f WHERE f.destination = d.n AND f.state = 'waiting') AS pending, `+oldestOf(`d.n`)+` AS oldest,
			(SELECT count(*) FROM delivery f WHERE f.destination = d.n AND f.state = 'dead') AS given_up
		FROM destination d WHERE d.kind = 'peer') peers WHERE pending > 0 OR given_up > 0 ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("read queues: %w", err)
	}
	return all, nil
}

// PeerQueue returns the first limit deliveries to a peer in their order, without their documents.
// It omits deliveries queued after a given time, unless the time is zero. The sum in the query
// keeps the planner from an index without this order.
func (s *Outboxes) PeerQueue(ctx context.Context, peer string, before time.Time, limit int) ([]federation.PeerDelivery, error) {
	pending, err := engine.Rows(ctx, s.db.Reads(), scanPeerDelivery, `SELECT `+peerColumns(`''`)+` FROM delivery f CROSS JOIN destination d JOIN document r ON r.n = f.item - `+queue.DocumentBase+`
		WHERE f.item >= `+queue.DocumentBase+` AND f.destination + 0 = `+ofName+` AND d.n = f.destination AND f.state = 'waiting'
			AND (CAST(?3 AS bigint) = 0 OR f.queued <= ?3) ORDER BY f.item LIMIT 0 + ?2`,
		federation.PeerDestination(peer), max(limit, 0), engine.Stamp(before))
	if err != nil {
		return nil, fmt.Errorf("read the queue of %s: %w", peer, err)
	}
	return pending, nil
}

// Attempted records the ID of an attempt before it is sent, because replies may refer to the ID. It
// also deletes old IDs.
func (s *Outboxes) Attempted(ctx context.Context, row int64, id string, now time.Time) error {
	return s.changePeerDelivery(ctx, row, func(ctx context.Context, q engine.Tx, to int64, r federation.PeerDelivery) error {
		if err := q.Put(ctx, `UPDATE delivery SET attempt = attempt + 1 WHERE item = ? AND destination = ?`, row, to); err != nil {
			return err
		}
		if err := q.Put(ctx, `DELETE FROM peer_delivery_id WHERE sent < ?`, engine.Stamp(now.Add(-peerDeliveryIDLife))); err != nil {
			return err
		}
		return q.Put(ctx, `INSERT INTO peer_delivery_id (id, message, sender, sent) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			id, r.Message, r.Sender, engine.Stamp(now))
	})
}

func (s *Outboxes) endDocument(ctx context.Context, q engine.Tx, to int64, r federation.PeerDelivery, how federation.Settlement) error {
	if how.Outcome() != federation.DeliveryDelivered {
		return s.buryDocument(ctx, q, to, r, how)
	}
	if err := s.documentEnded(ctx, q, r, federation.DeliveryDelivered, how.At); err != nil {
		return err
	}
	if r.Delayed {
		n := federation.Notice{Kind: federation.NoticeDelivered, To: r.Peer, At: how.At}
		if err := s.noteDocument(ctx, q, r, n); err != nil {
			return err
		}
	}
	return dropDocument(ctx, q, r.Row)
}

// EndPeerDelivery deletes a document by its number, with its delivery and its attempts.
func EndPeerDelivery(ctx context.Context, q engine.Tx, n int64) error {
	return dropDocument(ctx, q, n+queue.FirstDocument)
}

func dropDocument(ctx context.Context, q engine.Tx, item int64) error {
	if err := queue.Drop(ctx, q, item); err != nil {
		return err
	}
	return q.Put(ctx, `DELETE FROM document WHERE n = ?`, item-queue.FirstDocument)
}

func (s *Outboxes) buryDocument(ctx context.Context, q engine.Tx, to int64, r federation.PeerDelivery, how federation.Settlement) error {
	if err := closeRow(ctx, q, to, r.Row, r.OrderKey, how); err != nil {
		return err
	}
	if err := queue.Wake(ctx, q, to, r.OrderKey); err != nil {
		return err
	}
	if err := s.documentEnded(ctx, q, r, federation.DeliveryDead, how.At); err != nil || how.Quiet {
		return err
	}
	return s.noteDocument(ctx, q, r, federation.Notice{
		Kind: federation.NoticeUndeliverable, To: r.Peer, Code: string(how.Dead), Why: how.Why, At: how.At,
	})
}

// Delayed marks a pending document as delayed, and notifies the signer of its step.
func (s *Outboxes) Delayed(ctx context.Context, row int64, now time.Time) error {
	return s.changePeerDelivery(ctx, row, func(ctx context.Context, q engine.Tx, to int64, r federation.PeerDelivery) error {
		if err := q.Put(ctx, `UPDATE delivery SET delayed = 1 WHERE item = ? AND destination = ? AND delayed = 0`, row, to); err != nil {
			return err
		}
		return s.noteDocument(ctx, q, r, federation.Notice{Kind: federation.NoticeDelayed, To: r.Peer, Why: r.Reason, At: now})
	})
}

func (s *Outboxes) documentEnded(ctx context.Context, q engine.Tx, r federation.PeerDelivery, how federation.DeliveryState, now time.Time) error {
	if s.db.Tables == nil {
		return nil
	}
	return s.db.Tables.PeerDeliveryEnded(ctx, q, r, how, now)
}

// Some networks notify the signer themselves.
func (s *Outboxes) noteDocument(ctx context.Context, q engine.Tx, r federation.PeerDelivery, n federation.Notice) error {
	var step int64
	var told bool
	err := q.Row(ctx, `SELECT coalesce(`+s.db.Parts.DocumentStep+`, 0) FROM document r WHERE r.n = ?`, []any{r.Row - queue.FirstDocument}, &step)
	if err == nil {
		err = q.Row(ctx, `SELECT `+s.db.Parts.DocumentTold+` FROM document r WHERE r.n = ?2 AND r.sender = ?1`, []any{r.Sender, r.Row - queue.FirstDocument}, &told)
	}
	if err != nil || step == 0 || told {
		return err
	}
	return inboxes.NoteStep(ctx, q, step, n)
}

func (s *Outboxes) changePeerDelivery(ctx context.Context, row int64, change func(ctx context.Context, q engine.Tx, to int64, r federation.PeerDelivery) error) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		to, r, err := waitingDocument(ctx, q, row)
		if errors.Is(err, federation.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return change(ctx, q, to, r)
	})
	if err != nil {
		return fmt.Errorf("write delivery %d: %w", row, err)
	}
	return nil
}

func waitingDocument(ctx context.Context, q engine.Tx, row int64) (to int64, r federation.PeerDelivery, err error) {
	scan := func(found engine.Scanner) (federation.PeerDelivery, error) {
		return scanPeerDelivery(after{found, &to})
	}
	rows, err := engine.Rows(ctx, q, scan, `SELECT f.destination, `+peerColumns(`r.document`)+peerTables+`WHERE f.item = ? AND f.state = 'waiting'`, row)
	if err == nil && len(rows) == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return 0, r, err
	}
	return to, rows[0], nil
}

// after scans one column before the columns of another scan.
type after struct {
	engine.Scanner
	first *int64
}

// Scan implements [engine.Scanner].
func (a after) Scan(dest ...any) error { return a.Scanner.Scan(append([]any{a.first}, dest...)...) }

// Slow returns up to limit messages queued at or before a given time whose sender was not notified
// of the delay.
func (s *Outboxes) Slow(ctx context.Context, queued time.Time, limit int) ([]federation.PeerDelivery, error) {
	slow, err := engine.Rows(ctx, s.db.Reads(), scanPeerDelivery, `SELECT `+peerColumns(`r.document`)+` FROM destination d CROSS JOIN delivery f JOIN document r ON r.n = f.item - `+queue.DocumentBase+`
		WHERE d.kind = 'peer' AND f.destination = d.n AND f.state = 'waiting' AND f.delayed = 0 AND f.queued <= ? ORDER BY d.kind, d.name, f.delayed, f.queued, f.item`+engine.AtMost, engine.Stamp(queued), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read slow relays: %w", err)
	}
	return slow, nil
}
