package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
)

const relayColumns = `n, peer, sender, message, lane, document, handoff, queued, attempt, next, delayed, coalesce(reason, ''),
	coalesce(unsure, ''), kind`

func scanRelay(row scanner) (federation.Relay, error) {
	var r federation.Relay
	var handoff []byte
	var queued, next int64
	err := row.Scan(&r.Row, &r.Peer, &r.Sender, &r.Message, &r.Lane, &r.Document, &handoff, &queued, &r.Attempt, &next, &r.Delayed, &r.Reason,
		&r.Unsure, &r.Kind)
	r.Queued, r.Next = moment(queued), moment(next)
	return r, errors.Join(err, r.Handoff.UnmarshalText(handoff))
}

// relayIDLife is how long the ids of attempts are kept: replies come before that.
const relayIDLife = 30 * 24 * time.Hour

// Enqueue implements [federation.Relays].
func (s *Record) Enqueue(ctx context.Context, r federation.Relay) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		var waits bool
		err := q.row(ctx, `SELECT EXISTS (SELECT 1 FROM relay WHERE peer = ? AND lane = ? AND sender = ? AND message = ? AND dead IS NULL)`,
			[]any{r.Peer, r.Lane, r.Sender, r.Message}, &waits)
		if err != nil || waits {
			return err
		}
		return enqueue(ctx, q, r)
	})
	if err != nil {
		return fmt.Errorf("queue for %s: %w", r.Peer, err)
	}
	return nil
}

func enqueue(ctx context.Context, q *statements, r federation.Relay) error {
	var full bool
	err := q.row(ctx, `SELECT EXISTS (SELECT 1 FROM relay WHERE peer = ? AND dead IS NULL LIMIT 1 OFFSET ?)`,
		[]any{r.Peer, federation.MaxRelays - 1}, &full)
	switch {
	case err != nil:
		return err
	case full:
		return &federation.UnavailableError{What: "registry " + r.Peer, RetryAfter: time.Minute, Err: errors.New("too much waits for it")}
	}
	_, err = q.exec(ctx, `INSERT INTO relay (peer, sender, message, lane, document, handoff, queued, next, kind) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Peer, r.Sender, r.Message, r.Lane, notNull(r.Document), r.Handoff.String(), stamp(r.Queued), stamp(r.Queued),
		cmp.Or(r.Kind, federation.MessageRelay))
	return err
}

// RelayPeers implements [federation.Relays].
func (s *Record) RelayPeers(ctx context.Context) ([]federation.RelayPeer, error) {
	var peers []federation.RelayPeer
	for { // one look at the index for each peer, instead of one at each row
		var last, next federation.RelayPeer
		if len(peers) > 0 {
			last = peers[len(peers)-1]
		}
		var at int64
		err := s.reads.row(ctx, `SELECT r.peer, coalesce(p.failures, 0), coalesce(p.next, 0) FROM relay r LEFT JOIN relay_pause p ON p.peer = r.peer
			WHERE r.dead IS NULL AND r.peer > ? ORDER BY r.peer LIMIT 1`, []any{last.Name}, &next.Name, &next.Failures, &at)
		switch {
		case errors.Is(err, federation.ErrNotFound):
			return peers, nil
		case err != nil:
			return nil, fmt.Errorf("read peers: %w", err)
		}
		next.Next = moment(at)
		peers = append(peers, next)
	}
}

// Pause implements [federation.Relays].
func (s *Record) Pause(ctx context.Context, p federation.RelayPeer) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		if p.Failures == 0 {
			_, err := q.exec(ctx, `DELETE FROM relay_pause WHERE peer = ?`, p.Name)
			return err
		}
		_, err := q.exec(ctx, `INSERT INTO relay_pause (peer, failures, next) VALUES (?, ?, ?)
			ON CONFLICT (peer) DO UPDATE SET failures = excluded.failures, next = excluded.next`, p.Name, p.Failures, stamp(p.Next))
		return err
	})
	if err != nil {
		return fmt.Errorf("note pause of %s: %w", p.Name, err)
	}
	return nil
}

// RelayBacklogs implements [federation.Relays].
func (s *Record) RelayBacklogs(ctx context.Context) ([]federation.RelayBacklog, error) {
	var all []federation.RelayBacklog
	for last := ""; ; last = all[len(all)-1].Peer {
		var b federation.RelayBacklog
		var oldest int64
		err := s.reads.row(ctx, `SELECT peer, (SELECT count(*) FROM relay w WHERE w.peer = r.peer AND w.dead IS NULL),
			coalesce((SELECT queued FROM relay w WHERE w.peer = r.peer AND w.dead IS NULL ORDER BY n LIMIT 1), 0),
			(SELECT count(*) FROM relay d WHERE d.peer = r.peer AND d.dead IS NOT NULL)
			FROM relay r WHERE peer > ? ORDER BY peer LIMIT 1`, []any{last}, &b.Peer, &b.Rows, &oldest, &b.Dead)
		switch {
		case errors.Is(err, federation.ErrNotFound):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("read queues: %w", err)
		}
		b.Oldest = moment(oldest)
		all = append(all, b)
	}
}

// Relays implements [federation.Relays].
func (s *Record) Relays(ctx context.Context, peer string, after int64, limit int) ([]federation.Relay, error) {
	owed, err := rows(ctx, s.reads, scanRelay, `SELECT `+relayColumns+` FROM relay
		WHERE peer = ? AND n > ? AND dead IS NULL ORDER BY n`+atMost, peer, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what is owed to %s: %w", peer, err)
	}
	return owed, nil
}

// Attempted implements [federation.Relays]. It is also where old ids are swept out.
func (s *Record) Attempted(ctx context.Context, row int64, id string, now time.Time) error {
	return s.relay(ctx, row, `UPDATE relay SET attempt = attempt + 1 WHERE n = ?1`, nil, func(ctx context.Context, q *statements) error {
		if _, err := q.exec(ctx, `DELETE FROM relay_id WHERE sent < ?`, stamp(now.Add(-relayIDLife))); err != nil {
			return err
		}
		_, err := q.exec(ctx, `INSERT INTO relay_id (id, message, sender, sent) SELECT ?2, message, sender, ?3 FROM relay WHERE n = ?1
			ON CONFLICT DO NOTHING`, row, id, stamp(now))
		return err
	})
}

// Postpone implements [federation.Relays].
func (s *Record) Postpone(ctx context.Context, row int64, reason, unsure string, next time.Time) error {
	return s.relay(ctx, row, `UPDATE relay SET reason = ?2, next = ?3, unsure = ?4 WHERE n = ?1`, []any{reason, stamp(next), unsure}, nil)
}

// Relayed implements [federation.Relays].
func (s *Record) Relayed(ctx context.Context, row int64) error {
	return s.relay(ctx, row, `DELETE FROM relay WHERE n = ?1`, nil, nil)
}

// Bury implements [federation.Relays].
func (s *Record) Bury(ctx context.Context, row int64, reason string, now time.Time) error {
	return s.relay(ctx, row, `UPDATE relay SET reason = ?2, dead = ?3 WHERE n = ?1`, []any{reason, stamp(now)}, nil)
}

// Delayed implements [federation.Relays].
func (s *Record) Delayed(ctx context.Context, row int64) error {
	return s.relay(ctx, row, `UPDATE relay SET delayed = 1 WHERE n = ?1`, nil, nil)
}

// relay changes one row, and what goes with it.
func (s *Record) relay(ctx context.Context, row int64, change string, args []any, more func(context.Context, *statements) error) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		if _, err := q.exec(ctx, change, append([]any{row}, args...)...); err != nil || more == nil {
			return err
		}
		return more(ctx, q)
	})
	if err != nil {
		return fmt.Errorf("write relay %d: %w", row, err)
	}
	return nil
}

// Slow implements [federation.Relays].
func (s *Record) Slow(ctx context.Context, queued time.Time, limit int) ([]federation.Relay, error) {
	slow, err := rows(ctx, s.reads, scanRelay, `SELECT `+relayColumns+` FROM relay
		WHERE dead IS NULL AND delayed = 0 AND kind = 'message' AND queued <= ? ORDER BY queued`+atMost, stamp(queued), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read slow relays: %w", err)
	}
	return slow, nil
}

// DeadRelays implements [federation.Relays].
func (s *Record) DeadRelays(ctx context.Context, limit int) ([]federation.Relay, error) {
	dead, err := rows(ctx, s.reads, scanRelay, `SELECT `+relayColumns+` FROM relay
		WHERE n IN (SELECT n FROM relay WHERE dead IS NOT NULL ORDER BY dead DESC`+atMost+`) ORDER BY dead DESC`, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read dead relays: %w", err)
	}
	return dead, nil
}
