package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
	"baton/federation/store/handoffs"
	"baton/federation/store/inboxes"
)

// deadColumns are the columns of dead letters, and where they are read from.
func (s *Outboxes) deadColumns() string {
	return `d.n, d.link, d.peer_delivery IS NOT NULL, d.reason, d.why, d.attempt, d.queued, d.died, d.replayed, coalesce(d.event, d.peer_delivery),
		coalesce(e.id, ''), coalesce(e.handoff, r.handoff, ''), coalesce(r.message, ''), ` + handoffs.EventColumns + `, r.document
		FROM dead d LEFT JOIN peer_delivery r ON r.n = d.peer_delivery LEFT JOIN event e ON e.seq = coalesce(d.event, ` + s.db.Parts.PeerDeliveryStep + `)`
}

// deadRow is a dead letter with what its parts are read from.
type deadRow struct {
	federation.DeadLetter
	row   int64 // row of the outbox, or of peer_delivery
	event handoffs.EventScan
}

// scanDead reads a dead letter. An unreadable part is no error: one bad row stops no list.
func scanDead(row engine.Scanner) (d deadRow, err error) {
	var event, handoff string
	var queued, died, replayed int64
	var document []byte
	dest := []any{
		&d.ID, &d.To, &d.ToPeer, &d.Reason, &d.Why, &d.Attempt, &queued, &died, &replayed, &d.row,
		&event, &handoff, &d.Message,
	}
	err = row.Scan(append(append(dest, d.event.Dest()...), &document)...)
	if err != nil {
		return d, err
	}
	d.Queued, d.Died, d.Replayed, d.Raw = engine.Moment(queued), engine.Moment(died), engine.Moment(replayed), document
	d.Verb = verbOf(d.event)
	if err := errors.Join(d.Event.UnmarshalText([]byte(event)), d.Handoff.UnmarshalText([]byte(handoff))); err != nil {
		d.Broken = err.Error()
	}
	return d, nil
}

// DeadLetters returns up to limit dead letters that were not put back, the newest first, before
// an id, or from the start with 0. A letter whose step cannot be read is among them, without the
// unreadable part.
func (s *Outboxes) DeadLetters(ctx context.Context, f federation.DeadFilter, before int64, limit int) ([]federation.DeadLetter, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanDead, `SELECT `+s.deadColumns()+` WHERE (CAST(?1 AS bigint) = 0 OR d.n < ?1) AND d.n > 0 AND d.replayed = 0
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

// DeadLetter returns one whole, or [federation.ErrNotFound].
func (s *Outboxes) DeadLetter(ctx context.Context, id int64) (federation.DeadLetter, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanDead, `SELECT `+s.deadColumns()+` WHERE d.n = ?`, id)
	if err == nil && len(found) == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return federation.DeadLetter{}, fmt.Errorf("read dead letter %d: %w", id, err)
	}
	d := found[0]
	if !d.ToPeer {
		ev, err := d.event.Read()
		if err != nil {
			d.Broken, d.Raw = err.Error(), d.event.Body
		} else {
			d.Raw, d.Signature = []byte(ev.Signature.Document), ev.Signature.Text
		}
	}
	if d.Tries, err = s.tries(ctx, d); err != nil {
		return federation.DeadLetter{}, fmt.Errorf("read attempts of dead letter %d: %w", id, err)
	}
	return d.DeadLetter, nil
}

func (s *Outboxes) tries(ctx context.Context, d deadRow) ([]federation.Try, error) {
	scan := func(row engine.Scanner) (t federation.Try, err error) {
		var at int64
		err = row.Scan(&t.Number, &at, &t.Reason)
		t.At = engine.Moment(at)
		return t, err
	}
	link := d.To
	if d.ToPeer {
		link = ""
	}
	return engine.Rows(ctx, s.db.Reads(), scan, `SELECT n, at, reason FROM attempt WHERE link = ? AND item = ? ORDER BY n`, link, d.row)
}

// Revive puts a dead letter back to be delivered now, at its place in the order of its handoff,
// and reports whether it did. It does not change a delivery that is pending again or has arrived.
// It returns [federation.ErrNotFound] for an unknown id.
func (s *Outboxes) Revive(ctx context.Context, id int64, now time.Time) (bool, error) {
	revived, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (bool, error) {
		d, err := oneDead(ctx, q, id)
		if err != nil || d.replayed != 0 {
			return false, err
		}
		if revived, err := s.revive(ctx, q, d, now); err != nil || !revived {
			return false, err
		}
		err = q.Put(ctx, `UPDATE dead SET replayed = ? WHERE n = ?`, engine.Stamp(now), id)
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

func oneDead(ctx context.Context, q engine.Tx, id int64) (d dead, err error) {
	err = q.Row(ctx, `SELECT link, event, peer_delivery, replayed FROM dead WHERE n = ?`, []any{id}, &d.link, &d.event, &d.peerDelivery, &d.replayed)
	return d, err
}

// revive puts what a dead letter is about back to where it was, and reports whether it is
// wanted there.
func (s *Outboxes) revive(ctx context.Context, q engine.Tx, d dead, now time.Time) (bool, error) {
	hook, ofHook := webhookCalled(d.link)
	switch {
	case d.peerDelivery.Valid:
		err := q.Put(ctx, `UPDATE peer_delivery SET dead = NULL, next = ?2, queued = ?2, attempt = 0 WHERE n = ?1`, d.peerDelivery.Int64, engine.Stamp(now))
		return true, err
	case ofHook:
		return s.pushBack(ctx, q, d, hook, now)
	}
	return true, d.putBack(ctx, q, now)
}

// putBack puts a step into its outbox again, before later steps of its handoff. It counts as
// filed now.
func (d dead) putBack(ctx context.Context, q engine.Tx, now time.Time) error {
	if err := q.Put(ctx, `DELETE FROM settled WHERE event = ? AND link = ?`, d.event.Int64, d.link); err != nil {
		return err
	}
	row := Row{Link: d.link, Rank: federation.RankAnswer, Filed: engine.Stamp(now)}
	if err := q.Row(ctx, `SELECT handoff, signer, id FROM event WHERE seq = ?`, []any{d.event.Int64}, &row.Handoff, &row.Signer, &row.ID); err != nil {
		return err
	}
	if err := Put(ctx, q, row); err != nil {
		return err
	}
	return waitBehind(ctx, q, d.link, row.Handoff, d.event.Int64)
}

// Discard deletes a dead letter and files a notice to its signer. It returns
// [federation.ErrNotFound] as Revive does.
func (s *Outboxes) Discard(ctx context.Context, id int64, now time.Time) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		d, err := oneDead(ctx, q, id)
		if err != nil {
			return err
		}
		if _, ofHook := webhookCalled(d.link); d.event.Valid && d.replayed == 0 && !ofHook { // the entry of a webhook's inbox is still there
			n := federation.Notice{Kind: federation.NoticeUndeliverable, To: d.link, Code: string(federation.DeadOperator), At: now}
			if err := inboxes.NoteStep(ctx, q, d.event.Int64, n); err != nil {
				return err
			}
		}
		return ForgetDead(ctx, q, id)
	})
	if err != nil {
		return fmt.Errorf("drop dead letter %d: %w", id, err)
	}
	return nil
}

// ForgetDead forgets a dead letter with what is kept for it alone.
func ForgetDead(ctx context.Context, q engine.Tx, id int64) error {
	for _, change := range []string{
		`DELETE FROM attempt WHERE (link, item) IN (SELECT CASE WHEN peer_delivery IS NULL THEN link ELSE '' END, coalesce(event, peer_delivery) FROM dead WHERE n = ? AND replayed = 0)`,
		`DELETE FROM peer_delivery WHERE dead IS NOT NULL AND n = (SELECT peer_delivery FROM dead WHERE n = ?)`,
		`DELETE FROM dead WHERE n = ?`,
	} {
		if err := q.Put(ctx, change, id); err != nil {
			return err
		}
	}
	return nil
}

// CountDead counts the dead letters that were not put back.
func (s *Outboxes) CountDead(ctx context.Context) (map[federation.DeadReason]int, error) {
	counts := make(map[federation.DeadReason]int, len(federation.DeadReasons()))
	for _, reason := range federation.DeadReasons() {
		var n int
		if err := s.db.Reads().Row(ctx, `SELECT count(*) FROM dead WHERE reason = ? AND replayed = 0`, []any{string(reason)}, &n); err != nil {
			return nil, fmt.Errorf("count dead letters: %w", err)
		}
		counts[reason] = n
	}
	return counts, nil
}

// PruneDead forgets up to limit that died at or before a time.
func (s *Outboxes) PruneDead(ctx context.Context, before time.Time, limit int) (int, error) {
	pruned, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int, error) {
		old, err := engine.Rows(ctx, q, engine.ScanOne[int64], `SELECT n FROM dead WHERE died <= ? ORDER BY died, n`+engine.AtMost, engine.Stamp(before), max(limit, 0))
		for _, id := range old {
			err = errors.Join(err, ForgetDead(ctx, q, id))
		}
		return len(old), err
	})
	if err != nil {
		return 0, fmt.Errorf("prune dead letters: %w", err)
	}
	return pruned, nil
}
