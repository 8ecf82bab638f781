package deliveries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
	"baton/federation/store/inboxes"
)

const peerDeliveryColumns = `n, peer, sender, message, order_key, document, handoff, queued, attempt, next, delayed, coalesce(reason, ''),
	coalesce(unsure, ''), kind`

// scanPeerDelivery reads a relay, which goes as it is: where the handoff
// that it is about cannot be read, it goes as one about none.
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

// peerDeliveryIDLife is how long the ids of attempts are kept: replies come before that.
const peerDeliveryIDLife = 30 * 24 * time.Hour

// Enqueue files a delivery without a message of the record, unless the same Message of
// the same Sender waits under its OrderKey already. It returns a [*federation.UnavailableError]
// if [federation.MaxPeerDeliveries] wait for the peer.
func (s *Outboxes) Enqueue(ctx context.Context, r federation.PeerDelivery) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		var waits bool
		err := q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM peer_delivery WHERE peer = ? AND order_key = ? AND sender = ? AND message = ? AND dead IS NULL)`,
			[]any{r.Peer, r.OrderKey, r.Sender, r.Message}, &waits)
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

// Enqueue queues a delivery to a peer in the transaction of a write.
func Enqueue(ctx context.Context, q engine.Tx, r federation.PeerDelivery) error {
	var full bool
	err := q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM peer_delivery WHERE peer = ? AND dead IS NULL LIMIT 1 OFFSET ?)`,
		[]any{r.Peer, federation.MaxPeerDeliveries - 1}, &full)
	switch {
	case err != nil:
		return err
	case full:
		return &federation.UnavailableError{What: "peer " + r.Peer, RetryAfter: time.Minute, Err: errors.New("too much waits for it")}
	}
	return q.Put(ctx, `INSERT INTO peer_delivery (peer, sender, message, order_key, document, handoff, queued, next, kind) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Peer, r.Sender, r.Message, r.OrderKey, engine.NotNull(r.Document), r.Handoff.String(), engine.Stamp(r.Queued), engine.Stamp(r.Queued),
		cmp.Or(r.Kind, federation.MessageDelivery))
}

// PeerOutboxes returns the peers with pending relays, by their names.
func (s *Outboxes) PeerOutboxes(ctx context.Context) ([]federation.PeerOutbox, error) {
	var peers []federation.PeerOutbox
	for { // one look at the index for each peer, instead of one at each row
		var last, next federation.PeerOutbox
		if len(peers) > 0 {
			last = peers[len(peers)-1]
		}
		var at int64
		err := s.db.Reads().Row(ctx, `SELECT r.peer, coalesce(p.failures, 0), coalesce(p.next, 0) FROM peer_delivery r LEFT JOIN peer_pause p ON p.peer = r.peer
			WHERE r.dead IS NULL AND r.peer > ? ORDER BY r.peer LIMIT 1`, []any{last.Name}, &next.Name, &next.Failures, &at)
		switch {
		case errors.Is(err, federation.ErrNotFound):
			return peers, nil
		case err != nil:
			return nil, fmt.Errorf("read peers: %w", err)
		}
		next.Next = engine.Moment(at)
		peers = append(peers, next)
	}
}

// Pause notes that a peer did not answer, or with no Failures that it did.
func (s *Outboxes) Pause(ctx context.Context, p federation.PeerOutbox) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		if p.Failures == 0 {
			return q.Put(ctx, `DELETE FROM peer_pause WHERE peer = ?`, p.Name)
		}
		return q.Put(ctx, `INSERT INTO peer_pause (peer, failures, next) VALUES (?, ?, ?)
			ON CONFLICT (peer) DO UPDATE SET failures = excluded.failures, next = excluded.next`, p.Name, p.Failures, engine.Stamp(p.Next))
	})
	if err != nil {
		return fmt.Errorf("note pause of %s: %w", p.Name, err)
	}
	return nil
}

// PeerBacklogs returns how the queue of each peer stands, by their names.
func (s *Outboxes) PeerBacklogs(ctx context.Context) ([]federation.PeerBacklog, error) {
	var all []federation.PeerBacklog
	for last := ""; ; last = all[len(all)-1].Peer {
		var b federation.PeerBacklog
		var oldest int64
		err := s.db.Reads().Row(ctx, `SELECT peer, (SELECT count(*) FROM peer_delivery w WHERE w.peer = r.peer AND w.dead IS NULL),
			coalesce((SELECT queued FROM peer_delivery w WHERE w.peer = r.peer AND w.dead IS NULL ORDER BY n LIMIT 1), 0),
			(SELECT count(*) FROM peer_delivery d WHERE d.peer = r.peer AND d.dead IS NOT NULL)
			FROM peer_delivery r WHERE peer > ? ORDER BY peer LIMIT 1`, []any{last}, &b.Peer, &b.Rows, &oldest, &b.Dead)
		switch {
		case errors.Is(err, federation.ErrNotFound):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("read queues: %w", err)
		}
		b.Oldest = engine.Moment(oldest)
		all = append(all, b)
	}
}

// PeerDeliveries returns up to limit rows of a peer after one, in the order in which they were queued;
// after 0 from the first.
func (s *Outboxes) PeerDeliveries(ctx context.Context, peer string, after int64, limit int) ([]federation.PeerDelivery, error) {
	return s.peerDeliveries(ctx, peerDeliveryColumns, peer, after, limit)
}

// PeerQueue is PeerDeliveries without documents.
func (s *Outboxes) PeerQueue(ctx context.Context, peer string, after int64, limit int) ([]federation.PeerDelivery, error) {
	return s.peerDeliveries(ctx, strings.Replace(peerDeliveryColumns, "document", "''", 1), peer, after, limit)
}

func (s *Outboxes) peerDeliveries(ctx context.Context, columns, peer string, after int64, limit int) ([]federation.PeerDelivery, error) {
	pending, err := engine.Rows(ctx, s.db.Reads(), scanPeerDelivery, `SELECT `+columns+` FROM peer_delivery
		WHERE peer = ? AND n > ? AND dead IS NULL ORDER BY n`+engine.AtMost, peer, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what is owed to %s: %w", peer, err)
	}
	return pending, nil
}

// Attempted notes that a row is about to be sent under an id, by which replies may name its
// message. It also deletes old ids.
func (s *Outboxes) Attempted(ctx context.Context, row int64, id string, now time.Time) error {
	return s.changePeerDelivery(ctx, row, func(ctx context.Context, q engine.Tx, r federation.PeerDelivery) error {
		if err := q.Put(ctx, `UPDATE peer_delivery SET attempt = attempt + 1 WHERE n = ?`, row); err != nil {
			return err
		}
		if err := q.Put(ctx, `DELETE FROM peer_delivery_id WHERE sent < ?`, engine.Stamp(now.Add(-peerDeliveryIDLife))); err != nil {
			return err
		}
		return q.Put(ctx, `INSERT INTO peer_delivery_id (id, message, sender, sent) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			id, r.Message, r.Sender, engine.Stamp(now))
	})
}

// Postpone notes why an attempt failed, the id under which the peer may have the message
// nevertheless, and when the next attempt is.
func (s *Outboxes) Postpone(ctx context.Context, row int64, reason, unsure string, now, next time.Time) error {
	return s.changePeerDelivery(ctx, row, func(ctx context.Context, q engine.Tx, r federation.PeerDelivery) error {
		err := q.Put(ctx, `UPDATE peer_delivery SET reason = ?2, next = ?3, unsure = ?4 WHERE n = ?1`, row, reason, engine.Stamp(next), unsure)
		if err != nil || r.Attempt == 0 {
			return err
		}
		return noteTry(ctx, q, "", row, federation.Try{Number: r.Attempt, At: now, Reason: reason})
	})
}

// PeerTook takes a row out: the peer has it.
func (s *Outboxes) PeerTook(ctx context.Context, row int64, now time.Time) error {
	return s.changePeerDelivery(ctx, row, func(ctx context.Context, q engine.Tx, r federation.PeerDelivery) error {
		if err := s.peerDeliveryEnded(ctx, q, r, federation.DeliveryDelivered, now); err != nil {
			return err
		}
		if r.Delayed {
			n := federation.Notice{Kind: federation.NoticeDelivered, To: r.Peer, At: now}
			if err := s.noteRelayed(ctx, q, r, n); err != nil {
				return err
			}
		}
		return EndPeerDelivery(ctx, q, r.Row)
	})
}

// EndPeerDelivery forgets a relay with its attempts.
func EndPeerDelivery(ctx context.Context, q engine.Tx, row int64) error {
	for _, change := range []string{`DELETE FROM peer_delivery WHERE n = ?`, `DELETE FROM attempt WHERE link = '' AND item = ?`} {
		if err := q.Put(ctx, change, row); err != nil {
			return err
		}
	}
	return nil
}

// ErasePeerDelivery deletes a row, pending or given up, with its dead letter.
func ErasePeerDelivery(ctx context.Context, q engine.Tx, row int64) error {
	if err := q.Put(ctx, `DELETE FROM dead WHERE peer_delivery = ?`, row); err != nil {
		return err
	}
	return EndPeerDelivery(ctx, q, row)
}

// Bury gives a row up, and keeps it as a [federation.DeadLetter].
func (s *Outboxes) Bury(ctx context.Context, row int64, reason federation.DeadReason, why string, now time.Time) error {
	return s.changePeerDelivery(ctx, row, func(ctx context.Context, q engine.Tx, r federation.PeerDelivery) error {
		return s.buryPeerDelivery(ctx, q, r, federation.Settlement{Dead: reason, Why: why, At: now})
	})
}

func (s *Outboxes) buryPeerDelivery(ctx context.Context, q engine.Tx, r federation.PeerDelivery, how federation.Settlement) error {
	if err := q.Put(ctx, `UPDATE peer_delivery SET reason = ?2, dead = ?3 WHERE n = ?1`, r.Row, how.Why, engine.Stamp(how.At)); err != nil {
		return err
	}
	if err := s.peerDeliveryEnded(ctx, q, r, federation.DeliveryDead, how.At); err != nil {
		return err
	}
	if err := bury(ctx, q, deadLetter{link: r.Peer, peerDelivery: r.Row, attempt: r.Attempt, queued: engine.Stamp(r.Queued)}, how); err != nil || how.Quiet {
		return err
	}
	return s.noteRelayed(ctx, q, r, federation.Notice{
		Kind: federation.NoticeUndeliverable, To: r.Peer, Code: string(how.Dead), Why: how.Why, At: how.At,
	})
}

// Delayed notes that the sender of a row has a notice of the delay.
func (s *Outboxes) Delayed(ctx context.Context, row int64, now time.Time) error {
	return s.changePeerDelivery(ctx, row, func(ctx context.Context, q engine.Tx, r federation.PeerDelivery) error {
		if err := q.Put(ctx, `UPDATE peer_delivery SET delayed = 1 WHERE n = ?`, row); err != nil {
			return err
		}
		return s.noteRelayed(ctx, q, r, federation.Notice{Kind: federation.NoticeDelayed, To: r.Peer, Why: r.Reason, At: now})
	})
}

// peerDeliveryEnded notes how a relay ended where the network keeps its steps.
func (s *Outboxes) peerDeliveryEnded(ctx context.Context, q engine.Tx, r federation.PeerDelivery, how federation.DeliveryState, now time.Time) error {
	if s.db.Tables == nil {
		return nil
	}
	return s.db.Tables.PeerDeliveryEnded(ctx, q, r, how, now)
}

// noteRelayed files a notice about the step that a relay carries, to a signer that the
// network does not tell itself.
func (s *Outboxes) noteRelayed(ctx context.Context, q engine.Tx, r federation.PeerDelivery, n federation.Notice) error {
	var step int64
	var told bool
	err := q.Row(ctx, `SELECT coalesce(`+s.db.Parts.PeerDeliveryStep+`, 0) FROM peer_delivery r WHERE r.n = ?`, []any{r.Row}, &step)
	if err == nil {
		err = q.Row(ctx, `SELECT `+s.db.Parts.PeerDeliveryTold+` FROM peer_delivery r WHERE r.n = ?2 AND r.sender = ?1`, []any{r.Sender, r.Row}, &told)
	}
	if err != nil || step == 0 || told {
		return err
	}
	return inboxes.NoteStep(ctx, q, step, n)
}

// changePeerDelivery changes one row that was not given up. One that is gone is passed over.
func (s *Outboxes) changePeerDelivery(ctx context.Context, row int64, change func(context.Context, engine.Tx, federation.PeerDelivery) error) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		found, err := engine.Rows(ctx, q, scanPeerDelivery, `SELECT `+peerDeliveryColumns+` FROM peer_delivery WHERE n = ? AND dead IS NULL`, row)
		if err != nil || len(found) == 0 {
			return err
		}
		return change(ctx, q, found[0])
	})
	if err != nil {
		return fmt.Errorf("write delivery %d: %w", row, err)
	}
	return nil
}

// Slow returns up to limit messages that were queued at or before a time, and whose sender
// has no notice of the delay.
func (s *Outboxes) Slow(ctx context.Context, queued time.Time, limit int) ([]federation.PeerDelivery, error) {
	slow, err := engine.Rows(ctx, s.db.Reads(), scanPeerDelivery, `SELECT `+peerDeliveryColumns+` FROM peer_delivery
		WHERE dead IS NULL AND delayed = 0 AND kind = 'message' AND queued <= ? ORDER BY queued, n`+engine.AtMost, engine.Stamp(queued), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read slow relays: %w", err)
	}
	return slow, nil
}
