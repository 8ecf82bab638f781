package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"baton/federation"
)

// deadColumns are the columns of dead letters, and where they are read from.
func (s *Record) deadColumns() string {
	return `d.n, d.link, d.peer_delivery IS NOT NULL, d.reason, d.why, d.attempt, d.queued, d.died, d.replayed, coalesce(d.event, d.peer_delivery),
		coalesce(e.id, ''), coalesce(e.handoff, r.handoff, ''), coalesce(r.message, ''), e.body, r.document
		FROM dead d LEFT JOIN peer_delivery r ON r.n = d.peer_delivery LEFT JOIN event e ON e.seq = coalesce(d.event, ` + s.parts.PeerDeliveryStep + `)`
}

// deadRow is a dead letter with what its parts are read from.
type deadRow struct {
	federation.DeadLetter
	row  int64  // row of the outbox, or of peer_delivery
	body []byte // of the event; empty where there is none
}

// scanDead reads a dead letter. An unreadable part is no error: one bad row stops no list.
func scanDead(row scanner) (d deadRow, err error) {
	var event, handoff string
	var queued, died, replayed int64
	var document []byte
	err = row.Scan(&d.ID, &d.To, &d.ToPeer, &d.Reason, &d.Why, &d.Attempt, &queued, &died, &replayed, &d.row,
		&event, &handoff, &d.Message, &d.body, &document)
	if err != nil {
		return d, err
	}
	d.Queued, d.Died, d.Replayed, d.Raw = moment(queued), moment(died), moment(replayed), document
	d.Verb = verbIn(d.body)
	if err := errors.Join(d.Event.UnmarshalText([]byte(event)), d.Handoff.UnmarshalText([]byte(handoff))); err != nil {
		d.Broken = err.Error()
	}
	return d, nil
}

// DeadLetters implements [federationtest.DeadLetters].
func (s *Record) DeadLetters(ctx context.Context, f federation.DeadFilter, before int64, limit int) ([]federation.DeadLetter, error) {
	found, err := rows(ctx, s.reads, scanDead, `SELECT `+s.deadColumns()+` WHERE (CAST(?1 AS bigint) = 0 OR d.n < ?1) AND d.n > 0 AND d.replayed = 0
		AND (?2 = '' OR d.reason = ?2) AND (?3 = '' OR d.link = ?3) ORDER BY d.n DESC LIMIT 0 + ?4`, before, string(f.Reason), f.To, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	var letters []federation.DeadLetter
	for _, d := range found {
		d.Raw = nil
		letters = append(letters, d.DeadLetter)
	}
	return letters, nil
}

// DeadLetter implements [federationtest.DeadLetters].
func (s *Record) DeadLetter(ctx context.Context, id int64) (federation.DeadLetter, error) {
	found, err := rows(ctx, s.reads, scanDead, `SELECT `+s.deadColumns()+` WHERE d.n = ?`, id)
	if err == nil && len(found) == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return federation.DeadLetter{}, fmt.Errorf("read dead letter %d: %w", id, err)
	}
	d := found[0]
	if !d.ToPeer {
		e := entryScan{body: d.body}
		entry, err := e.read()
		if err != nil {
			d.Broken, d.Raw = err.Error(), d.body
		} else {
			d.Raw, d.Signature = []byte(entry.Event.Signature.Document), entry.Event.Signature.Text
		}
	}
	if d.Tries, err = s.tries(ctx, d); err != nil {
		return federation.DeadLetter{}, fmt.Errorf("read attempts of dead letter %d: %w", id, err)
	}
	return d.DeadLetter, nil
}

func (s *Record) tries(ctx context.Context, d deadRow) ([]federation.Try, error) {
	scan := func(row scanner) (t federation.Try, err error) {
		var at int64
		err = row.Scan(&t.Number, &at, &t.Reason)
		t.At = moment(at)
		return t, err
	}
	link := d.To
	if d.ToPeer {
		link = ""
	}
	return rows(ctx, s.reads, scan, `SELECT n, at, reason FROM attempt WHERE link = ? AND item = ? ORDER BY n`, link, d.row)
}

// Revive implements [federationtest.DeadLetters].
func (s *Record) Revive(ctx context.Context, id int64, now time.Time) (bool, error) {
	revived, err := written(ctx, s, func(ctx context.Context, q *statements) (bool, error) {
		d, err := oneDead(ctx, q, id)
		if err != nil || d.replayed != 0 {
			return false, err
		}
		if revived, err := s.revive(ctx, q, d, now); err != nil || !revived {
			return false, err
		}
		_, err = q.exec(ctx, `UPDATE dead SET replayed = ? WHERE n = ?`, stamp(now), id)
		return true, err
	})
	if err != nil {
		return false, fmt.Errorf("put dead letter %d back: %w", id, err)
	}
	return revived, nil
}

// dead is what is needed of a dead letter to put it back or to forget it.
type dead struct {
	link                string
	event, peerDelivery sql.NullInt64
	replayed            int64
}

func oneDead(ctx context.Context, q *statements, id int64) (d dead, err error) {
	err = q.row(ctx, `SELECT link, event, peer_delivery, replayed FROM dead WHERE n = ?`, []any{id}, &d.link, &d.event, &d.peerDelivery, &d.replayed)
	return d, err
}

// revive puts what a dead letter is about back to where it was, and reports whether it is
// wanted there.
func (s *Record) revive(ctx context.Context, q *statements, d dead, now time.Time) (bool, error) {
	hook, ofHook := webhookCalled(d.link)
	switch {
	case d.peerDelivery.Valid:
		_, err := q.exec(ctx, `UPDATE peer_delivery SET dead = NULL, next = ?2, queued = ?2, attempt = 0 WHERE n = ?1`, d.peerDelivery.Int64, stamp(now))
		return true, err
	case ofHook:
		return s.pushBack(ctx, q, d, hook, now)
	}
	return true, d.putBack(ctx, q, now)
}

// putBack puts a step into its outbox again, before later steps of its handoff. It counts as
// filed now.
func (d dead) putBack(ctx context.Context, q *statements, now time.Time) error {
	if _, err := q.exec(ctx, `DELETE FROM settled WHERE event = ? AND link = ?`, d.event.Int64, d.link); err != nil {
		return err
	}
	row := outboxRow{link: d.link, rank: federation.RankAnswer, filed: stamp(now)}
	if err := q.row(ctx, `SELECT handoff, signer, id FROM event WHERE seq = ?`, []any{d.event.Int64}, &row.handoff, &row.signer, &row.id); err != nil {
		return err
	}
	if err := putDelivery(ctx, q, row); err != nil {
		return err
	}
	return waitBehind(ctx, q, d.link, row.handoff, d.event.Int64)
}

// Discard implements [federationtest.DeadLetters].
func (s *Record) Discard(ctx context.Context, id int64, now time.Time) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		d, err := oneDead(ctx, q, id)
		if err != nil {
			return err
		}
		if _, ofHook := webhookCalled(d.link); d.event.Valid && d.replayed == 0 && !ofHook { // the entry of a webhook's inbox is still there
			n := federation.Notice{Kind: federation.NoticeUndeliverable, To: d.link, Code: string(federation.DeadOperator), At: now}
			if err := noteStep(ctx, q, d.event.Int64, n); err != nil {
				return err
			}
		}
		return forgetDead(ctx, q, id)
	})
	if err != nil {
		return fmt.Errorf("drop dead letter %d: %w", id, err)
	}
	return nil
}

// forgetDead forgets a dead letter with what is kept for it alone.
func forgetDead(ctx context.Context, q *statements, id int64) error {
	for _, change := range []string{
		`DELETE FROM attempt WHERE (link, item) IN (SELECT CASE WHEN peer_delivery IS NULL THEN link ELSE '' END, coalesce(event, peer_delivery) FROM dead WHERE n = ? AND replayed = 0)`,
		`DELETE FROM peer_delivery WHERE dead IS NOT NULL AND n = (SELECT peer_delivery FROM dead WHERE n = ?)`,
		`DELETE FROM dead WHERE n = ?`,
	} {
		if _, err := q.exec(ctx, change, id); err != nil {
			return err
		}
	}
	return nil
}

// CountDead implements [federationtest.DeadLetters].
func (s *Record) CountDead(ctx context.Context) (map[federation.DeadReason]int, error) {
	counts := make(map[federation.DeadReason]int, len(federation.DeadReasons()))
	for _, reason := range federation.DeadReasons() {
		var n int
		if err := s.reads.row(ctx, `SELECT count(*) FROM dead WHERE reason = ? AND replayed = 0`, []any{string(reason)}, &n); err != nil {
			return nil, fmt.Errorf("count dead letters: %w", err)
		}
		counts[reason] = n
	}
	return counts, nil
}

// PruneDead implements [federationtest.DeadLetters].
func (s *Record) PruneDead(ctx context.Context, before time.Time, limit int) (int, error) {
	pruned, err := written(ctx, s, func(ctx context.Context, q *statements) (int, error) {
		old, err := rows(ctx, q, scanOne[int64], `SELECT n FROM dead WHERE died <= ? ORDER BY died, n`+atMost, stamp(before), max(limit, 0))
		for _, id := range old {
			err = errors.Join(err, forgetDead(ctx, q, id))
		}
		return len(old), err
	})
	if err != nil {
		return 0, fmt.Errorf("prune dead letters: %w", err)
	}
	return pruned, nil
}
