package queue

import (
	"context"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
)

// QueueWaiting queues all that waits for a webhook (?2) whose owner is ?1. The waiting items are
// the rows of a SELECT: webhook, item, order key and the time that it was queued; "" for none.
// Refused deliveries of these items and of notices, or of any item if none is selected, wait
// again.
func QueueWaiting(ctx context.Context, q engine.Tx, id federation.WebhookID, waiting, owner string) error {
	const again = `SET state = 'waiting', attempt = 0, reason = '', ended = 0 WHERE `
	first := int64(0)
	if waiting != "" {
		first = FirstNotice
		err := q.Put(ctx, `INSERT INTO push (webhook, item, order_key, queued) `+waiting+`
			ON CONFLICT (webhook, item) DO UPDATE `+again+`push.state = 'refused'`, owner, id.String())
		if err != nil {
			return err
		}
	}
	if err := q.Put(ctx, `UPDATE push `+again+`webhook = ? AND state = 'refused' AND item >= ?`, id.String(), first); err != nil {
		return err
	}
	err := q.Put(ctx, `UPDATE push SET next = 0 WHERE webhook = ?1 AND item =
		(SELECT min(b.item) FROM push b WHERE b.webhook = push.webhook AND b.order_key = push.order_key AND b.state = 'waiting')`, id.String())
	if err != nil {
		return err
	}
	return SetDue(ctx, q, id, time.Time{})
}

// SetDue updates the time at which the next delivery to a webhook or its end is due, not before a
// time.
func SetDue(ctx context.Context, q engine.Tx, id federation.WebhookID, earliest time.Time) error {
	return q.Put(ctx, `UPDATE webhook SET due = (SELECT CASE WHEN min(next) < ?2 THEN CAST(?2 AS bigint) ELSE min(next) END
		FROM (SELECT next FROM push WHERE webhook = ?1 AND next IS NOT NULL UNION ALL SELECT ends FROM webhook WHERE id = ?1 AND ends > 0) AS due)
		WHERE id = ?1 AND disabled = 0`, id.String(), engine.Stamp(earliest))
}

// EndWebhooks schedules the end of the webhooks selected by a condition. The time of the end is ?1
// in the condition. The worker that takes a webhook after its end disables it and notifies its
// owner.
func EndWebhooks(ctx context.Context, q engine.Tx, end time.Time, which string, args ...any) error {
	return q.Put(ctx, `UPDATE webhook SET ends = ?1, due = CASE WHEN due < ?1 THEN due ELSE ?1 END
		WHERE disabled = 0 AND (ends = 0 OR ends > ?1) AND `+which, append([]any{engine.Stamp(end)}, args...)...)
}

// Fail records a failed attempt and the time of the next one, and returns the number of attempts.
// It returns [federation.ErrNotFound] for a delivery that does not wait.
func Fail(ctx context.Context, q engine.Tx, id federation.WebhookID, item int64, f federation.Failure) (attempt int, err error) {
	err = q.Row(ctx, `UPDATE push SET attempt = attempt + 1, reason = ?, next = ? WHERE webhook = ? AND item = ? AND state = 'waiting' RETURNING attempt`,
		[]any{f.Reason, engine.Stamp(f.Next), id.String(), item}, &attempt)
	return attempt, err
}

// End ends a delivery, and returns the number of its attempts that failed and when it was queued.
// Its errors are the errors of Fail.
func End(ctx context.Context, q engine.Tx, id federation.WebhookID, item int64, how federation.Settlement) (attempt int, queued int64, err error) {
	reason, counted := how.Why, 1
	if how.Outcome() == federation.DeliveryDelivered {
		reason, counted = "", 0
	}
	var order string
	err = q.Row(ctx, `UPDATE push SET state = ?, next = NULL, reason = ?, ended = ?, attempt = attempt + ? WHERE webhook = ? AND item = ? AND state = 'waiting' RETURNING attempt, queued, order_key`,
		[]any{how.Outcome(), reason, engine.Stamp(how.At), counted, id.String(), item}, &attempt, &queued, &order)
	if err == nil {
		err = advance(ctx, q, id.String(), order)
	}
	return attempt, queued, err
}

// Requeue has the deliveries to a webhook (?1) that a condition selects made again, now (?2) and
// with new counts. It returns their number. Parameters of the condition begin with ?3.
func Requeue(ctx context.Context, q engine.Tx, id federation.WebhookID, now time.Time, which string, args ...any) (int, error) {
	n, err := q.Exec(ctx, `UPDATE push SET state = 'waiting', next = ?2, attempt = 0, ended = 0, reason = '' WHERE webhook = ?1 AND `+which,
		append([]any{id.String(), engine.Stamp(now)}, args...)...)
	if err != nil || n == 0 {
		return 0, err
	}
	return int(n), SetDue(ctx, q, id, time.Time{})
}

// Refuse ends the waiting deliveries of a webhook that was disabled. The webhook is not due.
func Refuse(ctx context.Context, q engine.Tx, id federation.WebhookID, why string, now time.Time) error {
	err := q.Put(ctx, `UPDATE push SET state = 'refused', next = NULL, reason = ?, ended = ? WHERE webhook = ? AND state = 'waiting'`, why, engine.Stamp(now), id.String())
	if err != nil {
		return err
	}
	return q.Put(ctx, `UPDATE webhook SET due = NULL WHERE id = ?`, id.String())
}

// DropAll deletes the deliveries of a webhook that was deleted.
func DropAll(ctx context.Context, q engine.Tx, id federation.WebhookID) error {
	return q.Put(ctx, `DELETE FROM push WHERE webhook = ?`, id.String())
}
