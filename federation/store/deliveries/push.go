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

const pushColumns = `p.item, p.state, p.queued, p.attempt, coalesce(p.next, 0), p.reason, p.ended`

type pushScan struct {
	push                federation.Push
	queued, next, ended int64
}

func (s *pushScan) dest() []any {
	p := &s.push
	return []any{&p.Item, &p.State, &s.queued, &p.Attempt, &s.next, &p.Reason, &s.ended}
}

func (s *pushScan) read() federation.Push {
	s.push.Queued, s.push.Next, s.push.Ended = engine.Moment(s.queued), engine.Moment(s.next), engine.Moment(s.ended)
	return s.push
}

// The first parameter of the query is the number of the destination.
func (s *Outboxes) pushes(ctx context.Context, q engine.Tx, h federation.Webhook, where string, args ...any) ([]federation.Push, error) {
	to, err := queue.Destination(ctx, q, h.ID)
	if err != nil {
		return nil, err
	}
	args = append([]any{to}, args...)
	if h.Participant != "" {
		return s.contentPushes(ctx, q, h, where, args...)
	}
	if !h.Handoff.IsZero() {
		return engine.Rows(ctx, q, scanFollowedStep, `SELECT `+pushColumns+`, e.id, e.handoff, `+handoffs.EntryColumns+`
			FROM delivery p JOIN event e ON e.seq = p.item WHERE p.destination = ?1 AND `+where, args...)
	}
	args = append(args, h.DID)
	return engine.Rows(ctx, q, scanPushedStep(h.DID), fmt.Sprintf(`SELECT `+pushColumns+`, e.id, e.handoff, `+inboxes.EntryColumns+`
		FROM delivery p JOIN event e ON e.seq = p.item JOIN inbox i ON i.did = (SELECT n FROM actor WHERE did = ?%d) AND i.event = p.item WHERE p.destination = ?1 AND `+where, len(args)), args...)
}

func noticePushes(ctx context.Context, q engine.Tx, h federation.Webhook, where string, args ...any) ([]federation.Push, error) {
	scan := func(row engine.Scanner) (federation.Push, error) {
		var s pushScan
		var place uint64
		var body []byte
		if err := row.Scan(append(s.dest(), &place, &body)...); err != nil {
			return federation.Push{}, err
		}
		p := s.read()
		if unread := federation.DecodeJSON(body, &p.Notice); unread != nil { // one bad row must not stop the others
			p.Broken = unread.Error()
		}
		p.Notice.Cursor = inboxes.NoticePositions(h.DID).At(place)
		return p, nil
	}
	to, err := queue.Destination(ctx, q, h.ID)
	if err != nil {
		return nil, err
	}
	return engine.Rows(ctx, q, scan, fmt.Sprintf(`SELECT `+pushColumns+`, n.n, n.body FROM delivery p JOIN notice n ON n.n = p.item - %d
		WHERE p.destination = ?1 AND p.item >= %d AND `+where, int64(queue.FirstNotice), int64(queue.FirstNotice)), append([]any{to}, args...)...)
}

func scanPushedStep(of federation.DID) func(engine.Scanner) (federation.Push, error) {
	return func(row engine.Scanner) (federation.Push, error) {
		var e inboxes.EntryScan
		return scanStep(row, e.Dest(), func() (federation.Entry, error) { return e.Read(of) })
	}
}

func scanFollowedStep(row engine.Scanner) (federation.Push, error) {
	var e handoffs.EntryScan
	return scanStep(row, e.Dest(), e.Read)
}

// An unreadable entry is not an error.
func scanStep(row engine.Scanner, entry []any, read func() (federation.Entry, error)) (federation.Push, error) {
	var s pushScan
	var id, handoff string
	if err := row.Scan(append(append(s.dest(), &id, &handoff), entry...)...); err != nil {
		return federation.Push{}, err
	}
	p := s.read()
	var err error
	if p.Entry, err = read(); err != nil {
		p.Broken = err.Error()
		err = errors.Join(p.Entry.Event.ID.UnmarshalText([]byte(id)), p.Entry.Event.Handoff.UnmarshalText([]byte(handoff)))
	}
	return p, err
}

func (s *Outboxes) contentPushes(ctx context.Context, q engine.Tx, h federation.Webhook, where string, args ...any) ([]federation.Push, error) {
	if s.db.Tables == nil {
		return nil, nil
	}
	scan := func(row engine.Scanner) (federation.Push, error) {
		var s pushScan
		if err := row.Scan(s.dest()...); err != nil {
			return federation.Push{}, err
		}
		return s.read(), nil
	}
	found, err := engine.Rows(ctx, q, scan, `SELECT `+pushColumns+` FROM delivery p WHERE p.destination = ?1 AND `+where, args...)
	for i := range found {
		p := &found[i]
		if err == nil {
			p.Content, p.Broken, err = s.db.Tables.Content(ctx, q, h.Participant, p.Item-queue.FirstMessage)
		}
	}
	return found, err
}

// Pushes returns up to limit deliveries to a webhook, pending and ended, newest first, before a
// position (0: the start).
func (s *Outboxes) Pushes(ctx context.Context, id federation.WebhookID, before int64, limit int) ([]federation.Push, error) {
	h, err := oneWebhook(ctx, s.db.Reads(), id)
	var found, rest []federation.Push
	const page = `p.delayed = 2 AND (CAST(?2 AS bigint) = 0 OR p.item < ?2) ORDER BY p.item DESC LIMIT 0 + ?3`
	if err == nil {
		found, err = noticePushes(ctx, s.db.Reads(), h, page, before, max(limit, 0))
	}
	if err == nil && len(found) < limit {
		rest, err = s.pushes(ctx, s.db.Reads(), h, page, before, limit-len(found))
	}
	if err != nil {
		return nil, fmt.Errorf("read deliveries of webhook %s: %w", id, err)
	}
	return append(found, rest...), nil
}

// The row is 0 for other content and for notices.
func (s *Outboxes) pushedStep(ctx context.Context, q engine.Tx, id federation.WebhookID, to, item int64) (h federation.Webhook, step int64, err error) {
	if h, err = oneWebhook(ctx, q, id); err != nil || item < queue.FirstNotice {
		return h, item, err
	}
	err = q.Row(ctx, `SELECT coalesce(`+s.db.Parts.ItemStep+`, 0) FROM delivery f WHERE f.item = ? AND f.destination = ?`, []any{item, to}, &step)
	return h, step, err
}

func (s *Outboxes) endPush(ctx context.Context, q engine.Tx, id federation.WebhookID, to, item int64, how federation.Settlement) error {
	var attempt int
	var lane string
	err := q.Row(ctx, `SELECT attempt, lane FROM delivery WHERE item = ? AND destination = ? AND state = 'waiting'`, []any{item, to}, &attempt, &lane)
	if errors.Is(err, federation.ErrNotFound) {
		return nil // already ended, or its webhook was deleted
	}
	if err != nil {
		return err
	}
	h, step, err := s.pushedStep(ctx, q, id, to, item)
	if err != nil {
		return err
	}
	delivered := how.Outcome() == federation.DeliveryDelivered
	if step == 0 {
		how.Dead = "" // only a step leaves a dead letter
	}
	if delivered {
		how.Why = ""
	}
	if err := closeRow(ctx, q, to, item, lane, how); err != nil {
		return err
	}
	if err := queue.Wake(ctx, q, to, lane); err != nil {
		return err
	}
	if !delivered {
		attempt++
		if err := q.Put(ctx, `UPDATE delivery SET attempt = ? WHERE item = ? AND destination = ?`, attempt, item, to); err != nil {
			return err
		}
	}
	if delivered && h.Participant == "" && step != 0 {
		if _, err := inboxes.MarkRead(ctx, q, how.At, `did = (SELECT n FROM actor WHERE did = ?1) AND event = ?2`, h.DID, item); err != nil {
			return err
		}
	}
	if how.Dead == "" {
		return q.Put(ctx, `DELETE FROM attempt WHERE item = ? AND destination = ?`, item, to)
	}
	return noteTry(ctx, q, to, item, federation.Attempt{Number: attempt, At: how.At, Reason: how.Why})
}

// PushAgain queues the delivery with a [federation.Push.Ref] again, or with "" all undelivered
// ones, and resets their counts. It returns their number, or [federation.ErrNotFound] for an
// unknown webhook.
func (s *Outboxes) PushAgain(ctx context.Context, id federation.WebhookID, ref string, now time.Time) (again int, err error) {
	err = s.changeWebhook(ctx, id, func(ctx context.Context, q engine.Tx) error {
		h, err := oneWebhook(ctx, q, id)
		if err != nil {
			return err
		}
		if !h.Disabled.IsZero() {
			return nil
		}
		which, args := `state <> 'delivered'`, []any(nil)
		if ref != "" {
			which = fmt.Sprintf(`item IN (SELECT seq FROM event WHERE id = ?3 UNION ALL SELECT n + %d FROM notice WHERE reader = ?4 AND event || '/' || kind = ?3)`, int64(queue.FirstNotice))
			args = []any{ref, h.DID}
		}
		if ref != "" && h.Participant != "" {
			which, args = `item IN (`+s.db.Parts.ItemsNamed+`)`, []any{ref, h.Participant}
		}
		to, err := queue.Destination(ctx, q, id)
		if err == nil {
			again, err = queue.Requeue(ctx, q, to, now, which, args...)
		}
		return err
	})
	return again, err
}
