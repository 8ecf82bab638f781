// Package queue queues deliveries to webhooks in the record. The write that files or deletes an
// entry of an inbox, a notice, a step or a message calls it in its transaction.
//
// The deliveries to a webhook that have one order key are made in their order: the first waiting
// one has a time, and the deliveries behind it have none.
package queue

import (
	"context"

	"baton/federation"
	"baton/federation/store/engine"
)

// FirstNotice is where the items of notices begin: the n-th notice is n after it. No
// record has as many steps.
const FirstNotice = 1 << 52

// The webhooks of an inbox, of a handoff that they follow, and of a participant of a network (?1).
const (
	ofInbox       = `did = ?1 AND participant = '' AND handoff = ''`
	ofHandoff     = `handoff = ?1 AND handoff <> ''`
	ofParticipant = `participant = ?1 AND participant <> ''`
)

// HasInbox returns the condition that a webhook gets the arrivals of an inbox. The DID is an
// expression with the name of its table.
func HasInbox(did string) string {
	return `EXISTS (SELECT 1 FROM webhook w WHERE w.did = ` + did + ` AND w.participant = '' AND w.handoff = '')`
}

// HasInboxes returns the condition that a webhook gets the arrivals of one of several inboxes. The
// DIDs are a parameter, a JSON array.
func HasInboxes(dids string) string {
	return `EXISTS (SELECT 1 FROM webhook w WHERE w.did IN (SELECT value FROM json_each(` + dids + `)) AND w.participant = '' AND w.handoff = '')`
}

// HasFollower returns the condition that a webhook follows a handoff, which is a parameter.
func HasFollower(handoff string) string {
	return `EXISTS (SELECT 1 FROM webhook w WHERE w.handoff = ` + handoff + ` AND w.handoff <> '')`
}

// HasParticipant returns the condition that a webhook gets the messages of a participant of a
// network, an expression.
func HasParticipant(name string) string {
	return `EXISTS (SELECT 1 FROM webhook w WHERE w.participant = ` + name + ` AND w.participant <> '')`
}

// Item is the content of a delivery.
type Item struct {
	Row    int64  // event.seq, the row in the tables of a network, or n of a notice
	Order  string // its order key: the handoff, or the sender of a message without one
	Queued int64
}

// QueueEntry queues the deliveries of an entry to the webhooks of its inbox.
func QueueEntry(ctx context.Context, q engine.Tx, did federation.DID, entry Item) error {
	return queue(ctx, q, entry, ofInbox, did)
}

// QueueStep queues the deliveries of a step to the webhooks that follow its handoff.
func QueueStep(ctx context.Context, q engine.Tx, step Item) error {
	return queue(ctx, q, step, ofHandoff, step.Order)
}

// QueueNotice queues the deliveries of a notice to the webhooks of its reader's inbox.
func QueueNotice(ctx context.Context, q engine.Tx, reader federation.DID, notice Item) error {
	notice.Row += FirstNotice
	return queue(ctx, q, notice, ofInbox, reader)
}

// QueueMessage queues the deliveries of a message to the webhooks of its recipient, a participant
// of a network.
func QueueMessage(ctx context.Context, q engine.Tx, recipient string, message Item) error {
	return queue(ctx, q, message, ofParticipant, recipient)
}

func queue(ctx context.Context, q engine.Tx, item Item, which string, owner any) error {
	hooks, err := engine.Rows(ctx, q, engine.ScanOne[string], `SELECT id FROM webhook WHERE `+which+` AND disabled = 0`, owner)
	for _, hook := range hooks {
		if err == nil {
			err = q.Put(ctx, `INSERT INTO push (webhook, item, order_key, queued, next) VALUES (?1, ?2, ?3, ?4,
				CASE WHEN EXISTS (SELECT 1 FROM push WHERE webhook = ?1 AND order_key = ?3 AND state = 'waiting') THEN NULL ELSE 0 END)`,
				hook, item.Row, item.Order, item.Queued)
		}
		if err == nil {
			err = q.Put(ctx, `UPDATE webhook SET due = 0 WHERE id = ?1 AND (due IS NULL OR due > 0)
				AND EXISTS (SELECT 1 FROM push WHERE webhook = ?1 AND item = ?2 AND next = 0)`, hook, item.Row)
		}
	}
	return err
}

// DropEntry deletes the deliveries of an entry to the webhooks of its inbox, with their attempts.
func DropEntry(ctx context.Context, q engine.Tx, did federation.DID, event int64) error {
	gone, err := drop(ctx, q, `item = ?2 AND webhook IN (SELECT id FROM webhook WHERE `+ofInbox+`)`, did, event)
	for _, hook := range gone {
		if err == nil {
			err = q.Put(ctx, `DELETE FROM attempt WHERE link = ? AND item = ?`, federation.WebhookLink+"/"+hook, event)
		}
	}
	return err
}

// DropNotice deletes the deliveries of a notice to the webhooks of its reader's inbox.
func DropNotice(ctx context.Context, q engine.Tx, reader string, n int64) error {
	_, err := drop(ctx, q, `item = ?2 AND webhook IN (SELECT id FROM webhook WHERE `+ofInbox+`)`, reader, n+FirstNotice)
	return err
}

// DropMessage deletes the deliveries of a message to the webhooks of its recipient.
func DropMessage(ctx context.Context, q engine.Tx, recipient string, row int64) error {
	_, err := drop(ctx, q, `item = ?2 AND webhook IN (SELECT id FROM webhook WHERE `+ofParticipant+`)`, recipient, row)
	return err
}

// DropAttempts deletes the attempts to give a step to the webhooks of a participant, whose message
// carries it.
func DropAttempts(ctx context.Context, q engine.Tx, participant, event, handoff string) error {
	return q.Put(ctx, `DELETE FROM attempt WHERE link IN (SELECT '`+federation.WebhookLink+`/' || id FROM webhook WHERE `+ofParticipant+`)
		AND item IN (SELECT seq FROM event WHERE id = ?2 AND handoff || '' = ?3)`, participant, event, handoff)
}

// DropWaitingMessage deletes the waiting deliveries of a message to the webhooks of its recipient.
func DropWaitingMessage(ctx context.Context, q engine.Tx, recipient string, row int64) error {
	_, err := drop(ctx, q, `item = ?2 AND state = 'waiting' AND webhook IN (SELECT id FROM webhook WHERE `+ofParticipant+`)`, recipient, row)
	return err
}

// drop deletes the deliveries that a condition selects, and returns their webhooks.
func drop(ctx context.Context, q engine.Tx, which string, args ...any) (hooks []string, err error) {
	type row struct{ webhook, order, state string }
	scan := func(s engine.Scanner) (r row, err error) { return r, s.Scan(&r.webhook, &r.order, &r.state) }
	gone, err := engine.Rows(ctx, q, scan, `DELETE FROM push WHERE `+which+` RETURNING webhook, order_key, state`, args...)
	for _, r := range gone {
		hooks = append(hooks, r.webhook)
		if err != nil || r.state != string(federation.DeliveryWaiting) {
			continue
		}
		if err = advance(ctx, q, r.webhook, r.order); err == nil {
			err = q.Put(ctx, `UPDATE webhook SET due = 0 WHERE id = ? AND due IS NOT NULL`, r.webhook)
		}
	}
	return hooks, err
}

// advance makes the first waiting delivery with an order key due, after the end of the one before
// it.
func advance(ctx context.Context, q engine.Tx, webhook, order string) error {
	return q.Put(ctx, `UPDATE push SET next = 0 WHERE webhook = ?1 AND next IS NULL AND item =
		(SELECT min(item) FROM push WHERE webhook = ?1 AND order_key = ?2 AND state = 'waiting')`, webhook, order)
}
