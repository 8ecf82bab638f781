package deliveries

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
	"github.com/baton-gateway/baton/federation/store/inboxes"
	"github.com/baton-gateway/baton/federation/store/queue"
)

// This is the seq of the event of row f, or NULL: of a step, or of a document r or a message that
// contains a step.
func itemStep(parts engine.SQL) string {
	return `CASE WHEN f.item < ` + queue.NoticeBase + ` THEN f.item WHEN f.item >= ` + queue.DocumentBase + ` THEN ` + parts.DocumentStep + ` ELSE ` + parts.ItemStep + ` END`
}

func (s *Outboxes) deadColumns() string {
	return `f.letter, d.name, d.kind, f.state, f.code, f.reason, f.attempt, f.queued, f.ended, f.replayed, f.item, f.destination,
		coalesce(e.id, ''), coalesce(e.handoff, r.handoff, ''), coalesce(r.message, ''), ` + handoffs.EventColumns + `, r.document
		FROM delivery f JOIN destination d ON d.n = f.destination LEFT JOIN document r ON r.n = f.item - ` + queue.DocumentBase + ` LEFT JOIN event e ON e.seq = ` + itemStep(s.db.Parts)
}

type deadRow struct {
	federation.DeadLetter
	item, to int64
	event    handoffs.EventScan
}

// An unreadable part is ignored.
func scanDead(row engine.Scanner) (d deadRow, err error) {
	var event, handoff string
	var queued, ended int64
	var replayed int64
	var document []byte
	var kind federation.DestinationKind
	var state federation.DeliveryState
	dest := []any{
		&d.ID, &d.To, &kind, &state, &d.Reason, &d.Why, &d.Attempt, &queued, &ended, &replayed, &d.item, &d.to,
		&event, &handoff, &d.Message,
	}
	err = row.Scan(append(append(dest, d.event.Dest()...), &document)...)
	if err != nil {
		return d, err
	}
	if d.ToPeer = kind == federation.ToPeer; d.ToPeer {
		d.To = d.To[len(federation.PeerDestination("")):]
	}
	d.Queued, d.Died, d.Replayed, d.Raw = engine.Moment(queued), engine.Moment(ended), engine.Moment(replayed), document
	d.Verb = verbOf(d.event)
	if err := errors.Join(d.Event.UnmarshalText([]byte(event)), d.Handoff.UnmarshalText([]byte(handoff))); err != nil {
		d.Broken = err.Error()
	}
	return d, nil
}

// DeadLetters returns up to limit dead letters that were not replayed, newest first, before an ID
// (0: the start). An unreadable step is left out of its letter.
func (s *Outboxes) DeadLetters(ctx context.Context, f federation.DeadFilter, before int64, limit int) ([]federation.DeadLetter, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanDead, `SELECT `+s.deadColumns()+` WHERE (CAST(?1 AS bigint) = 0 OR f.letter < ?1) AND f.letter > 0 AND f.state || '' = 'dead'
		AND (?2 = '' OR f.code = ?2) AND (?3 = '' OR d.name IN (?3, ?5)) ORDER BY f.letter DESC LIMIT 0 + ?4`, before, string(f.Reason), f.To, max(limit, 0), federation.PeerDestination(f.To))
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

// DeadLetter returns one complete dead letter, or [federation.ErrNotFound].
func (s *Outboxes) DeadLetter(ctx context.Context, id int64) (federation.DeadLetter, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanDead, `SELECT `+s.deadColumns()+` WHERE f.letter = ?`, id)
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

func (s *Outboxes) tries(ctx context.Context, d deadRow) ([]federation.Attempt, error) {
	scan := func(row engine.Scanner) (t federation.Attempt, err error) {
		var at int64
		err = row.Scan(&t.Number, &at, &t.Reason)
		t.At = engine.Moment(at)
		return t, err
	}
	return engine.Rows(ctx, s.db.Reads(), scan, `SELECT n, at, reason FROM attempt WHERE item = ? AND destination = ? ORDER BY n`, d.item, d.to)
}

type dead struct {
	item, to   int64
	lane, name string
	kind       federation.DestinationKind
	state      federation.DeliveryState
}

func oneDead(ctx context.Context, q engine.Tx, id int64) (d dead, err error) {
	err = q.Row(ctx, `SELECT f.item, f.destination, f.lane, d.name, d.kind, f.state FROM delivery f JOIN destination d ON d.n = f.destination WHERE f.letter = ?`, []any{id},
		&d.item, &d.to, &d.lane, &d.name, &d.kind, &d.state)
	return d, err
}

// Revive makes a dead letter due now, at its place in its lane, and reports whether it did. It does
// not change deliveries that are pending again, completed, or for a disabled webhook. It returns
// [federation.ErrNotFound] for an unknown ID.
func (s *Outboxes) Revive(ctx context.Context, id int64, now time.Time) (bool, error) {
	revived, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (bool, error) {
		d, err := oneDead(ctx, q, id)
		if err != nil || d.state != federation.DeliveryDead {
			return false, err
		}
		if d.kind == federation.ToWebhook {
			var called bool
			err := q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM webhook WHERE id = substr(?1, 9) AND disabled = 0)`, []any{d.name}, &called)
			if err != nil || !called {
				return false, err
			}
			n, err := queue.Requeue(ctx, q, d.to, now, `item = ?3`, d.item)
			return n > 0, err
		}
		row := queue.Row{Destination: d.to, Item: d.item, Lane: d.lane, Rank: federation.RankAnswer, Queued: engine.Stamp(now)}
		if d.kind == federation.ToPeer {
			if err := q.Row(ctx, `SELECT delayed FROM delivery WHERE item = ? AND destination = ?`, []any{d.item, d.to}, &row.Delayed); err != nil {
				return false, err
			}
		}
		if err := queue.Put(ctx, q, row); err != nil {
			return false, err
		}
		if err := q.Put(ctx, `UPDATE delivery SET replayed = ? WHERE item = ? AND destination = ?`, engine.Stamp(now), d.item, d.to); err != nil {
			return false, err
		}
		if err := queue.WaitBehind(ctx, q, d.to, d.lane, d.item); err != nil || d.kind != federation.ToPeer {
			return true, err
		}
		return true, queue.SetDue(ctx, q, d.to, time.Time{})
	})
	if err != nil {
		return false, fmt.Errorf("put dead letter %d back: %w", id, err)
	}
	return revived, nil
}

// Discard deletes a dead letter. For a delivery to a link, it notifies the signer. It returns
// [federation.ErrNotFound] for an unknown ID.
func (s *Outboxes) Discard(ctx context.Context, id int64, now time.Time) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		d, err := oneDead(ctx, q, id)
		if err != nil {
			return err
		}
		if d.kind == federation.ToLink && d.state == federation.DeliveryDead { // a webhook's inbox still has the entry
			n := federation.Notice{Kind: federation.NoticeUndeliverable, To: d.name, Code: string(federation.DeadOperator), At: now}
			if err := inboxes.NoteStep(ctx, q, d.item, n); err != nil {
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

// ForgetDead deletes a dead letter with its dependent rows.
func ForgetDead(ctx context.Context, q engine.Tx, id int64) error {
	d, err := oneDead(ctx, q, id)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return nil
	case err != nil:
		return err
	case d.state == federation.DeliveryDead && d.item >= queue.FirstDocument:
		return dropDocument(ctx, q, d.item)
	case d.state == federation.DeliveryDead:
		err = q.Put(ctx, `DELETE FROM attempt WHERE item = ? AND destination = ?`, d.item, d.to)
	}
	if err != nil {
		return err
	}
	return q.Put(ctx, `UPDATE delivery SET letter = NULL, replayed = 0 WHERE letter = ?`, id)
}

// CountDead counts the dead letters that were not replayed.
func (s *Outboxes) CountDead(ctx context.Context) (map[federation.DeadReason]int, error) {
	type count struct {
		reason federation.DeadReason
		n      int
	}
	scan := func(row engine.Scanner) (c count, err error) {
		err = row.Scan(&c.reason, &c.n)
		return c, err
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT code, count(*) FROM delivery WHERE state = 'dead' AND letter > 0 GROUP BY code`)
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	counts := make(map[federation.DeadReason]int, len(federation.DeadReasons()))
	for _, reason := range federation.DeadReasons() {
		counts[reason] = 0
	}
	for _, c := range found {
		counts[c.reason] = c.n
	}
	return counts, nil
}

// PruneDead deletes up to limit dead letters that were filed or replayed at or before a given time.
func (s *Outboxes) PruneDead(ctx context.Context, before time.Time, limit int) (int, error) {
	pruned, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int, error) {
		old, err := engine.Rows(ctx, q, engine.ScanOne[int64], `SELECT letter FROM delivery WHERE letter > 0 AND CASE WHEN replayed > 0 THEN replayed ELSE ended END <= ?
			ORDER BY letter`+engine.AtMost, engine.Stamp(before), max(limit, 0))
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
