package deliveries

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/inboxes"
	"github.com/baton-gateway/baton/federation/store/queue"
)

// Rows are the deliveries to destinations of all kinds, for the delivery engine. Destinations are
// named by [federation.PeerDestination], [federation.WebhookName] and [federation.NoticesOf]; a
// link or another home has its own name. A row is identified by its destination and the number of
// its item. A held, ended or unknown destination has no due rows.
type Rows struct{ *Outboxes }

// Rows returns the deliveries to destinations of all kinds.
func (s *Outboxes) Rows() Rows { return Rows{s} }

// Turn is the turn of one sender at a destination.
type Turn struct {
	Sender federation.DID // or the handle of an agent; "" if nothing is due
	Lanes  []string       // with due deliveries of the sender, the next one first
}

// Held returns whether an operator holds a destination, and the start of the hold. A peer is held
// by its own name.
func (s Rows) Held(ctx context.Context, to string) (federation.PausedQueue, bool, error) {
	if kind, rest := federation.KindOf(to); kind == federation.ToPeer {
		to = rest
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scanWithheld, `SELECT name, held, reason FROM destination WHERE name = ? AND held > 0`, to)
	if err != nil || len(found) == 0 {
		return federation.PausedQueue{}, false, wrapWebhooks("read hold of "+to, err)
	}
	return found[0], true, nil
}

// Heads returns up to limit lanes whose first row is due now, the lowest [federation.Rank] first,
// and within a rank the oldest. If more than limit are due for a retry, the earliest are returned.
func (s Rows) Heads(ctx context.Context, to string, now time.Time, limit int) ([]string, error) {
	n, err := s.db.Destination(ctx, to)
	var due []string
	if err == nil && n != 0 {
		due, err = engine.Rows(ctx, s.db.Reads(), engine.ScanOne[string], headsOf, n, engine.Stamp(now), max(limit, 0))
	}
	if err != nil {
		return nil, fmt.Errorf("read due deliveries to %s: %w", to, err)
	}
	return due, nil
}

//nolint:gochecknoglobals // constants, but for their functions
var headsOf, headsOfSender = due(ofLink), due(ofSender)

// It stands for senders without a number, and is too short for a DID.
const unknownSender = federation.DID("unknown")

// Turn returns the next sender in a round robin, with up to limit of its lanes in the order of
// Heads. Senders with a due first row take turns, in the order of their first appearance in the
// record.
func (s Rows) Turn(ctx context.Context, to string, after federation.DID, now time.Time, limit int) (Turn, error) {
	turn, err := s.turn(ctx, to, after, now, limit)
	if err != nil {
		return Turn{}, fmt.Errorf("read next deliveries to %s: %w", to, err)
	}
	return turn, nil
}

func (s Rows) turn(ctx context.Context, to string, after federation.DID, now time.Time, limit int) (turn Turn, err error) {
	n, err := s.db.Destination(ctx, to)
	if err != nil || n == 0 {
		return turn, err
	}
	last, sender := int64(-1), int64(0) // 0 is the unknown sender
	if after != "" {
		if last, err = s.db.Actor(ctx, after); err != nil {
			return turn, err
		}
	}
	err = s.db.Reads().Row(ctx, nextSender, []any{n, engine.Stamp(now), last}, &sender)
	if errors.Is(err, federation.ErrNotFound) && last >= 0 {
		err = s.db.Reads().Row(ctx, nextSender, []any{n, engine.Stamp(now), -1}, &sender)
	}
	if errors.Is(err, federation.ErrNotFound) {
		return turn, nil
	}
	if err == nil {
		err = s.db.Reads().Row(ctx, `SELECT coalesce((SELECT did FROM actor WHERE n = ?1), ?2)`, []any{sender, unknownSender}, &turn.Sender)
	}
	if err == nil {
		turn.Lanes, err = engine.Rows(ctx, s.db.Reads(), engine.ScanOne[string], headsOfSender, n, engine.Stamp(now), max(limit, 0), sender)
	}
	return turn, err
}

// PendingOf returns up to limit rows of one lane in order. Rows that wait for a party and are not
// hurried are last. An unreadable row is included, as Broken.
func (s Rows) PendingOf(ctx context.Context, to, lane string, limit int) ([]federation.Delivery, error) {
	var found []federation.Delivery
	var err error
	args := []any{to, lane, max(limit, 0)}
	const which = ` WHERE f.destination = ` + ofName + ` AND f.lane = ?2 AND f.state = 'waiting' ORDER BY ` + rowOrder + ` LIMIT 0 + ?3`
	switch kind, rest := federation.KindOf(to); kind {
	case federation.ToLink:
		found, err = engine.Rows(ctx, s.db.Reads(), scanDelivery, `SELECT `+deliveryColumns+which, args...)
	case federation.ToPeer:
		var documents []federation.PeerDelivery
		documents, err = engine.Rows(ctx, s.db.Reads(), scanPeerDelivery, `SELECT `+peerColumns(`r.document`)+peerTables+which, args...)
		for _, r := range documents {
			found = append(found, federation.Delivery{
				Row: r.Row, Document: &r, Queued: r.Queued, Attempt: r.Attempt, Next: r.Next, Reason: r.Reason,
			})
		}
	case federation.ToWebhook:
		found, err = s.pushesOf(ctx, rest, `SELECT f.item FROM delivery f`+which, args)
	case federation.ToReaders:
		found, err = engine.Rows(ctx, s.db.Reads(), scanToldNotice, `SELECT f.item, f.queued, f.attempt, coalesce(f.next, 0), f.reason, o.body
			FROM delivery f LEFT JOIN notice o ON o.n = f.item - `+queue.NoticeBase+``+which, args...)
	}
	if err != nil {
		return nil, fmt.Errorf("read pending deliveries to %s of %s: %w", to, lane, err)
	}
	return found, nil
}

// An unreadable notice is not an error.
func scanToldNotice(row engine.Scanner) (d federation.Delivery, err error) {
	var queued, next int64
	var body []byte
	if err := row.Scan(&d.Row, &queued, &d.Attempt, &next, &d.Reason, &body); err != nil {
		return d, err
	}
	d.Queued, d.Next, d.Notice = engine.Moment(queued), engine.Moment(next), &federation.Notice{}
	if err := federation.DecodeJSON(body, d.Notice); err != nil {
		d.Broken = err.Error()
	}
	return d, nil
}

func (s Rows) pushesOf(ctx context.Context, id, query string, args []any) ([]federation.Delivery, error) {
	hook, err := federation.ParseEventID(id)
	if err != nil {
		return nil, err
	}
	h, err := oneWebhook(ctx, s.db.Reads(), hook)
	if err != nil {
		return nil, err
	}
	items, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[int64], query, args...)
	if err != nil {
		return nil, err
	}
	var found []federation.Delivery
	for _, item := range items {
		read := s.pushes
		if item >= queue.FirstNotice && item < queue.FirstMessage {
			read = noticePushes
		}
		pushes, err := read(ctx, s.db.Reads(), h, `p.item = ?2`, item)
		if err != nil {
			return nil, err
		}
		if len(pushes) == 0 { // deleted meanwhile
			continue
		}
		p := pushes[0]
		found = append(found, federation.Delivery{
			Row: item, Push: &p, Queued: p.Queued, Attempt: p.Attempt, Next: p.Next, Reason: p.Reason, Broken: p.Broken,
		})
	}
	return found, nil
}

// Stuck returns a lane whose first row is due after now, or [federation.ErrNotFound]. It prefers
// the first lane of the handoffs of a DID, in the order of Heads, to the lane that is due next. For
// a DID with hundreds of handoffs and hundreds of pending rows, it may miss one.
func (s Rows) Stuck(ctx context.Context, to string, did federation.DID, now time.Time) (lane string, err error) {
	n, err := s.db.Destination(ctx, to)
	var party int64
	if err == nil {
		party, err = s.db.Actor(ctx, did)
	}
	if err != nil {
		return "", fmt.Errorf("read pending deliveries to %s: %w", to, err)
	}
	first, ofDID := []any{n, engine.Stamp(now)}, []any{n, engine.Stamp(now), party, stuckLook}
	ofParty, withParty, ofAnyone := stuckLooks()
	looks := []struct {
		query string
		args  []any
	}{{ofParty, ofDID}, {withParty, ofDID}, {ofAnyone, first}}
	if party == 0 {
		looks = looks[2:]
	}
	for _, look := range looks {
		err = s.db.Reads().Row(ctx, look.query, look.args, &lane)
		if err == nil {
			return lane, nil
		}
		if !errors.Is(err, federation.ErrNotFound) {
			break
		}
	}
	return "", fmt.Errorf("read pending deliveries to %s: %w", to, err)
}

// Settle ends rows as delivered, refused, or abandoned, and applies the outcome to their items. It
// files dead letters, and notices to the signers of steps. An item shown by a link, or accepted by
// a webhook, is no longer unread in an inbox.
func (s Rows) Settle(ctx context.Context, to string, rows []int64, how federation.Settlement) error {
	switch kind, rest := federation.KindOf(to); kind {
	case federation.ToPeer:
		return s.change(ctx, to, rows, func(ctx context.Context, q engine.Tx, to, row int64) error {
			_, r, err := waitingDocument(ctx, q, row)
			if errors.Is(err, federation.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			return s.endDocument(ctx, q, to, r, how)
		})
	case federation.ToWebhook:
		id, err := federation.ParseEventID(rest)
		if err != nil {
			return fmt.Errorf("write outbox of %s: %w", to, err)
		}
		return s.change(ctx, to, rows, func(ctx context.Context, q engine.Tx, to, row int64) error {
			return s.endPush(ctx, q, id, to, row, how)
		})
	case federation.ToReaders:
		return s.change(ctx, to, rows, func(ctx context.Context, q engine.Tx, to, row int64) error {
			return inboxes.EndNotice(ctx, q, to, row, how)
		})
	case federation.ToLink:
	}
	return s.settleSteps(ctx, to, rows, how)
}

// Hurry makes the first row of every lane of a destination due at once, and ends its pause. It
// keeps the counts of attempts.
func (s Rows) Hurry(ctx context.Context, to string) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		if kind, _ := federation.KindOf(to); kind == federation.ToPeer || kind == federation.ToWebhook {
			if err := q.Put(ctx, `UPDATE destination SET next = 0, due = 0 WHERE name = ? AND due IS NOT NULL`, to); err != nil {
				return err
			}
		}
		return q.Put(ctx, `UPDATE delivery SET next = 0 WHERE destination = `+ofName+` AND next > 0`, to)
	})
	if err != nil {
		return fmt.Errorf("reschedule outbox of %s: %w", to, err)
	}
	return nil
}

// Take leases up to room destinations of a kind to the caller until Unlock or the time until, the
// longest waiting first: destinations with a due delivery, and webhooks past their end. It skips
// held and paused destinations. If nothing is due, it does not write.
func (s Rows) Take(ctx context.Context, kind federation.DestinationKind, now, until time.Time, room int) ([]federation.Destination, error) {
	scan := func(row engine.Scanner) (d federation.Destination, err error) {
		err = row.Scan(&d.Name, &d.Failures)
		return d, err
	}
	const due = `SELECT d.name, d.failures FROM destination d WHERE d.due <= ?1 AND d.taken <= ?1 AND d.kind || '' = ?2 AND d.next <= ?1 AND d.held = 0
		AND NOT EXISTS (SELECT 1 FROM destination h WHERE d.kind = 'peer' AND h.name = substr(d.name, 6) AND h.held > 0) ORDER BY d.due, d.n LIMIT 0 + ?3`
	some, err := engine.Rows(ctx, s.db.Reads(), scan, due, engine.Stamp(now), string(kind), min(max(room, 0), 1))
	if err != nil || len(some) == 0 {
		return nil, wrapWebhooks("read due destinations", err)
	}
	taken, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) ([]federation.Destination, error) {
		taken, err := engine.Rows(ctx, q, scan, due, engine.Stamp(now), string(kind), room)
		for _, d := range taken {
			if err == nil {
				err = q.Put(ctx, `UPDATE destination SET taken = ? WHERE name = ?`, engine.Stamp(until), d.Name)
			}
		}
		return taken, err
	})
	if err != nil {
		return nil, wrapWebhooks("lease due destinations", err)
	}
	return taken, nil
}

// EndLeases ends the leases of destinations of a kind left by another process. Only the process
// that serves the kind may call it.
func (s *Outboxes) EndLeases(ctx context.Context, kind federation.DestinationKind) error {
	const left = ` FROM destination WHERE due IS NOT NULL AND taken > 0 AND kind || '' = ?1`
	var some bool
	if err := s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1`+left+`)`, []any{string(kind)}, &some); err != nil || !some {
		return wrapWebhooks("read leases", err)
	}
	return wrapWebhooks("end leases", s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `UPDATE destination SET taken = 0 WHERE n IN (SELECT n`+left+`)`, string(kind))
	}))
}

// NextDue returns the first time after the given one at which a delivery to a destination of a kind
// is due, or zero. A leased delivery is due at the end of its lease.
func (s Rows) NextDue(ctx context.Context, kind federation.DestinationKind, after time.Time) (time.Time, error) {
	due, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[int64], `SELECT max(max(due, next), taken) FROM destination WHERE due IS NOT NULL AND due > ?1 AND kind || '' = ?2
		UNION ALL SELECT max(max(due, next), taken) FROM destination WHERE due <= ?1 AND (next > ?1 OR taken > ?1) AND kind || '' = ?2 ORDER BY 1 LIMIT 1`, engine.Stamp(after), string(kind))
	if err != nil || len(due) == 0 {
		return time.Time{}, wrapWebhooks("read next due time", err)
	}
	return engine.Moment(due[0]), nil
}

// NextTo returns the first time after the given one at which a delivery to a destination is due, or
// zero.
func (s Rows) NextTo(ctx context.Context, to string, after time.Time) (time.Time, error) {
	var next int64
	n, err := s.db.Destination(ctx, to)
	if err == nil && n != 0 {
		err = s.db.Reads().Row(ctx, `SELECT coalesce(min(next), 0) FROM delivery WHERE destination = ?1 AND next > ?2`, []any{n, engine.Stamp(after)}, &next)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read when a delivery to %s is due: %w", to, err)
	}
	return engine.Moment(next), nil
}

// Unlock ends the lease. Pending deliveries to the destination are not due before at, which may be
// in the future; later deliveries are not affected.
func (s Rows) Unlock(ctx context.Context, to string, at time.Time) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		var n int64
		err := q.Row(ctx, `SELECT n FROM destination WHERE name = ?`, []any{to}, &n)
		if errors.Is(err, federation.ErrNotFound) {
			return nil // removed meanwhile
		}
		if err == nil {
			err = q.Put(ctx, `UPDATE destination SET taken = 0 WHERE n = ?`, n)
		}
		if err != nil {
			return err
		}
		return queue.SetDue(ctx, q, n, at)
	})
	if err != nil {
		return fmt.Errorf("release %s: %w", to, err)
	}
	return nil
}

// Pause records that a destination did not respond, or with 0 failures that it did.
func (s Rows) Pause(ctx context.Context, to string, failures int, next time.Time) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `UPDATE destination SET failures = ?, next = ? WHERE name = ?`, failures, engine.Stamp(next), to)
	})
	if err != nil {
		return fmt.Errorf("record pause of %s: %w", to, err)
	}
	return nil
}
