package queue

import (
	"context"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// PushWaiting queues the unread items of a webhook, whose destination is ?2 and whose owner is ?1.
// The items are the rows of a SELECT: destination, item, lane, sender and queueing time; "" for
// none. Refused deliveries of these items and of notices are queued again; without items, all
// refused deliveries are.
func PushWaiting(ctx context.Context, q engine.Tx, to int64, waiting, owner string) error {
	const again = `SET state = 'waiting', attempt = 0, reason = '', ended = 0, code = '' WHERE `
	first := ""
	if waiting != "" {
		first = ` AND item >= ` + NoticeBase + ` AND item < ` + MessageBase
		err := q.Put(ctx, `INSERT INTO delivery (destination, item, lane, sender, queued, rank, delayed)
			SELECT destination, item, lane, sender, queued, 1, 2 FROM (`+waiting+`) waiting WHERE true
			ON CONFLICT (item, destination) DO UPDATE `+again+`delivery.state = 'refused'`, owner, to)
		if err != nil {
			return err
		}
	}
	if err := q.Put(ctx, `UPDATE delivery `+again+`destination = ? AND delayed = 2 AND state = 'refused'`+first, to); err != nil {
		return err
	}
	err := q.Put(ctx, `UPDATE delivery SET next = 0 WHERE destination = ?1 AND state = 'waiting' AND item =
		(SELECT min(b.item) FROM delivery b WHERE b.lane = delivery.lane AND b.destination = delivery.destination AND b.state = 'waiting')`, to)
	if err != nil {
		return err
	}
	return SetDue(ctx, q, to, time.Time{})
}

// SetDue updates the due time of the next delivery to a destination, or of the end of a webhook. It
// is never earlier than the given time.
func SetDue(ctx context.Context, q engine.Tx, to int64, earliest time.Time) error {
	return q.Put(ctx, `UPDATE destination SET due = (SELECT CASE WHEN min(next) < ?2 THEN CAST(?2 AS bigint) ELSE min(next) END
		FROM (SELECT next FROM delivery WHERE destination = ?1 AND next IS NOT NULL
			UNION ALL SELECT w.ends FROM destination t JOIN webhook w ON w.id = substr(t.name, 9) WHERE t.n = ?1 AND t.kind = 'webhook' AND w.ends > 0) AS due)
		WHERE n = ?1 AND (kind <> 'webhook' OR EXISTS (SELECT 1 FROM webhook w WHERE w.id = substr(destination.name, 9) AND w.disabled = 0))`, to, engine.Stamp(earliest))
}

// EndWebhooks schedules the end of the webhooks selected by a condition. The time of the end is ?1
// in the condition. The worker that takes a webhook after its end disables it and notifies its
// owner.
func EndWebhooks(ctx context.Context, q engine.Tx, end time.Time, which string, args ...any) error {
	which = `disabled = 0 AND (ends = 0 OR ends > ?1) AND ` + which
	args = append([]any{engine.Stamp(end)}, args...)
	err := q.Put(ctx, `UPDATE destination SET due = CASE WHEN due < ?1 THEN due ELSE ?1 END WHERE name IN (SELECT 'webhook/' || id FROM webhook WHERE `+which+`)`, args...)
	if err != nil {
		return err
	}
	return q.Put(ctx, `UPDATE webhook SET ends = ?1 WHERE `+which, args...)
}

// Requeue makes the deliveries to a webhook (?1) selected by a condition due again, now (?2) and
// with new counts. It returns their number. Parameters of the condition begin with ?3.
func Requeue(ctx context.Context, q engine.Tx, to int64, now time.Time, which string, args ...any) (int, error) {
	n, err := q.Exec(ctx, `UPDATE delivery SET state = 'waiting', next = ?2, attempt = 0, ended = 0, reason = '', code = '',
			replayed = CASE WHEN letter IS NOT NULL AND state = 'dead' THEN ?2 ELSE replayed END WHERE destination = ?1 AND delayed = 2 AND `+which,
		append([]any{to, engine.Stamp(now)}, args...)...)
	if err != nil || n == 0 {
		return 0, err
	}
	err = q.Put(ctx, `UPDATE delivery SET next = CASE WHEN item = (SELECT min(b.item) FROM delivery b WHERE b.lane = delivery.lane AND b.destination = ?1 AND b.state = 'waiting')
			THEN coalesce(next, ?2) END WHERE destination = ?1 AND state = 'waiting'`, to, engine.Stamp(now))
	if err != nil {
		return 0, err
	}
	return int(n), SetDue(ctx, q, to, time.Time{})
}

// Refuse ends the pending deliveries of a disabled webhook, which is then not due.
func Refuse(ctx context.Context, q engine.Tx, to int64, why string, now time.Time) error {
	err := q.Put(ctx, `UPDATE delivery SET state = 'refused', next = NULL, reason = ?, ended = ? WHERE destination = ? AND state = 'waiting'`, why, engine.Stamp(now), to)
	if err != nil {
		return err
	}
	return q.Put(ctx, `UPDATE destination SET due = NULL WHERE n = ?`, to)
}

// Destination returns the destination number of a webhook.
func Destination(ctx context.Context, q engine.Tx, id federation.WebhookID) (n int64, err error) {
	err = q.Row(ctx, `SELECT n FROM destination WHERE name = ?`, []any{federation.WebhookName(id)}, &n)
	return n, err
}
