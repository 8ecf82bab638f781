// Package queue writes the rows of the table delivery, in the transaction of the write that files
// or deletes an item: a step, a message, a notice or a document.
//
// The deliveries of one lane to one destination are made in the order of their items. The first
// pending one has a time, and the deliveries behind it have none. A delivery that waits for an
// absent party does not block the others.
package queue

import (
	"context"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// Numbers of items. A step, a receipt and a text have their event.seq, and other items begin at
// these numbers. No record has that many steps.
const (
	FirstNotice   = 1 << 52 // of notice.n
	FirstMessage  = 2 << 52 // the row of a message in the tables of a network
	FirstDocument = 3 << 52 // of document.n
)

// The same numbers in SQL.
const (
	NoticeBase   = `4503599627370496`
	MessageBase  = `9007199254740992`
	DocumentBase = `13510798882111488`
)

// Whether the sender of a delivery is notified of a delay.
const (
	NotNotified = 0
	Notified    = 1
	NoRecipient = 2 // no recipient of a notice
)

// Personal is the SQL value of [federation.RankPersonal].
const Personal = `5`

// Row is a pending delivery in its written form.
type Row struct {
	Destination int64
	Item        int64
	Lane        string
	Sender      int64 // the actor whose share it uses; 0 for an unknown one
	Rank        federation.Rank
	Queued      int64
	Attempt     int
	Delayed     int // see the constants for notified senders
}

// Waits behind the older rows of its lane.
const put = `INSERT INTO delivery (item, destination, lane, sender, rank, queued, attempt, delayed, next)
	SELECT e.seq, CAST(?1 AS bigint), ?2, CAST(?3 AS bigint), CAST(?4 AS bigint), CAST(?5 AS bigint), CAST(?6 AS bigint), CAST(?7 AS bigint),
		CASE WHEN EXISTS (SELECT 1 FROM delivery b WHERE b.lane = ?2 AND b.destination = ?1 AND b.state = 'waiting' AND b.item < e.seq AND b.rank <> ` + Personal + `) THEN NULL ELSE 0 END `

func (r Row) args(item ...any) []any {
	return append([]any{r.Destination, r.Lane, r.Sender, int(r.Rank), r.Queued, r.Attempt, r.Delayed}, item...)
}

// Put writes a row. An ended row of the same item and destination becomes pending again, with the
// reason of its end. A pending row stays unchanged.
func Put(ctx context.Context, q engine.Tx, r Row) error {
	return q.Put(ctx, put+`FROM (SELECT CAST(?8 AS bigint) AS seq) e WHERE true
		ON CONFLICT (item, destination) DO UPDATE SET queued = excluded.queued, attempt = excluded.attempt, delayed = excluded.delayed, next = excluded.next,
			state = 'waiting', rank = excluded.rank, unsure = '', ended = 0, code = '' WHERE delivery.state <> 'waiting'`, r.args(r.Item)...)
}

// PutStep is Put for a step given by its ID, so that the transaction does not need its number. No
// outbox may contain the step yet.
func PutStep(ctx context.Context, q engine.Tx, r Row, id string) error {
	return q.Put(ctx, put+`FROM event e WHERE e.id = ?8 AND e.signer = ?3 ON CONFLICT (item, destination) DO NOTHING`, r.args(id)...)
}

// Advance makes the first row of a lane due, after the end of the previous row.
func Advance(ctx context.Context, q engine.Tx, destination int64, lane string) error {
	return q.Put(ctx, `UPDATE delivery SET next = 0 WHERE destination = ?1 AND next IS NULL AND item =
		(SELECT min(item) FROM delivery WHERE lane = ?2 AND destination = ?1 AND state = 'waiting' AND rank <> `+Personal+`)`, destination, lane)
}

// Wake makes a registry or a webhook due immediately if the first row of a lane was never tried.
// The destination may still wait for the time of the previous row.
func Wake(ctx context.Context, q engine.Tx, destination int64, lane string) error {
	return q.Put(ctx, `UPDATE destination SET due = 0 WHERE n = ?1 AND due > 0
		AND EXISTS (SELECT 1 FROM delivery WHERE lane = ?2 AND destination = ?1 AND state = 'waiting' AND next = 0)`, destination, lane)
}

// WaitBehind makes the later rows of a lane wait for an item.
func WaitBehind(ctx context.Context, q engine.Tx, destination int64, lane string, item int64) error {
	return q.Put(ctx, `UPDATE delivery SET next = NULL WHERE lane = ?2 AND destination = ?1 AND state = 'waiting' AND item > ?3 AND next IS NOT NULL AND rank <> `+Personal,
		destination, lane, item)
}

const (
	ofInbox       = `w.did = ?1 AND w.participant = '' AND w.handoff = ''`
	ofHandoff     = `w.handoff = ?1 AND w.handoff <> ''`
	ofParticipant = `w.participant = ?1 AND w.participant <> ''`
)

// ToWebhook is the number of the destination of a webhook w.
const ToWebhook = `(SELECT t.n FROM destination t WHERE t.name = 'webhook/' || w.id)`

// HasInbox returns the condition that a webhook receives the entries of an inbox. The DID is an
// expression with the name of its table.
func HasInbox(did string) string {
	return `EXISTS (SELECT 1 FROM webhook w WHERE w.did = ` + did + ` AND w.participant = '' AND w.handoff = '')`
}

// HasInboxes returns the condition that a webhook receives the entries of one of several inboxes.
// The DIDs are a parameter, a JSON array. Without webhooks the array is not read, which would take
// longer than the other queries of a step.
func HasInboxes(dids string) string {
	return `CASE WHEN EXISTS (SELECT 1 FROM webhook WHERE id > '') THEN EXISTS (
		SELECT 1 FROM webhook w WHERE w.did IN (SELECT value FROM json_each(` + dids + `)) AND w.participant = '' AND w.handoff = '') ELSE 1 = 0 END`
}

// HasFollower returns the condition that a webhook follows a handoff, given as a parameter.
func HasFollower(handoff string) string {
	return `EXISTS (SELECT 1 FROM webhook w WHERE w.handoff = ` + handoff + ` AND w.handoff <> '')`
}

// HasParticipant returns the condition that a webhook receives the messages of a network
// participant, given as an expression.
func HasParticipant(name string) string {
	return `EXISTS (SELECT 1 FROM webhook w WHERE w.participant = ` + name + ` AND w.participant <> '')`
}

// PushEntry queues the deliveries of an entry to the webhooks of its inbox. It sets the Destination
// of each row.
func PushEntry(ctx context.Context, q engine.Tx, did federation.DID, entry Row) error {
	return toWebhooks(ctx, q, entry, ofInbox, did)
}

// PushStep queues the deliveries of a step to the webhooks that follow its handoff.
func PushStep(ctx context.Context, q engine.Tx, step Row) error {
	return toWebhooks(ctx, q, step, ofHandoff, step.Lane)
}

// PushMessage queues the deliveries of a message to the webhooks of its recipient, a participant of
// a network.
func PushMessage(ctx context.Context, q engine.Tx, recipient string, message Row) error {
	return toWebhooks(ctx, q, message, ofParticipant, recipient)
}

func toWebhooks(ctx context.Context, q engine.Tx, row Row, which string, owner any) error {
	hooks, err := engine.Rows(ctx, q, engine.ScanOne[int64], `SELECT d.n FROM webhook w JOIN destination d ON d.name = 'webhook/' || w.id WHERE `+which+` AND w.disabled = 0`, owner)
	row.Rank, row.Delayed = federation.RankAnswer, NoRecipient
	for _, hook := range hooks {
		row.Destination = hook
		if err == nil {
			err = Put(ctx, q, row)
		}
		if err == nil {
			err = q.Put(ctx, `UPDATE destination SET due = 0 WHERE n = ?1 AND (due IS NULL OR due > 0)
				AND EXISTS (SELECT 1 FROM delivery WHERE destination = ?1 AND item = ?2 AND next = 0)`, hook, row.Item)
		}
	}
	return err
}

// Drop deletes all deliveries of an item, with their attempts. Its lanes continue without it.
func Drop(ctx context.Context, q engine.Tx, item int64) error {
	return drop(ctx, q, `item = ?1`, item)
}

// DropEntry deletes the deliveries of an entry to the webhooks of its inbox, with their attempts.
func DropEntry(ctx context.Context, q engine.Tx, did federation.DID, event int64) error {
	return drop(ctx, q, `item = ?2 AND destination IN (SELECT `+ToWebhook+` FROM webhook w WHERE `+ofInbox+`)`, did, event)
}

// DropWaitingMessage deletes the pending deliveries of a message to the webhooks of its recipient.
func DropWaitingMessage(ctx context.Context, q engine.Tx, row int64) error {
	return drop(ctx, q, `item = ?1 AND state = 'waiting'`, row+FirstMessage)
}

// DropTo deletes the deliveries to a deleted webhook, and its destination.
func DropTo(ctx context.Context, q engine.Tx, destination int64) error {
	for _, change := range []string{
		`DELETE FROM attempt WHERE (item, destination) IN (SELECT item, destination FROM delivery WHERE destination = ? AND delayed = 2)`,
		`DELETE FROM delivery WHERE destination = ? AND delayed = 2`,
		`DELETE FROM destination WHERE n = ?`,
	} {
		if err := q.Put(ctx, change, destination); err != nil {
			return err
		}
	}
	return nil
}

func drop(ctx context.Context, q engine.Tx, which string, args ...any) error {
	type row struct {
		item, destination int64
		lane, state       string
	}
	scan := func(s engine.Scanner) (r row, err error) {
		return r, s.Scan(&r.item, &r.destination, &r.lane, &r.state)
	}
	gone, err := engine.Rows(ctx, q, scan, `DELETE FROM delivery WHERE `+which+` RETURNING item, destination, lane, state`, args...)
	for _, r := range gone {
		if err == nil {
			err = q.Put(ctx, `DELETE FROM attempt WHERE item = ? AND destination = ?`, r.item, r.destination)
		}
		if err != nil || r.state != string(federation.DeliveryWaiting) {
			continue
		}
		if err = Advance(ctx, q, r.destination, r.lane); err == nil {
			err = q.Put(ctx, `UPDATE destination SET due = 0 WHERE n = ? AND due IS NOT NULL`, r.destination)
		}
	}
	return err
}

// PushNotice queues a notice for its reader. If it is in an inbox, PushNotice also queues its
// deliveries to the webhooks of that inbox.
func PushNotice(ctx context.Context, q engine.Tx, link string, reader, signer federation.DID, notice Row, called bool) error {
	err := q.Row(ctx, `SELECT coalesce((SELECT n FROM actor WHERE did = ?), 0)`, []any{signer}, &notice.Sender) // invented DIDs get no number
	if err != nil {
		return err
	}
	readers := federation.NoticesOf(link)
	to, err := engine.InternDestination(ctx, q, federation.ToReaders, readers)
	if err != nil {
		return err
	}
	q.Filed(readers)
	notice.Item += FirstNotice
	copied := notice
	copied.Destination, copied.Lane, copied.Rank, copied.Delayed = to, string(reader), federation.RankAnswer, NoRecipient
	if err := Put(ctx, q, copied); err != nil || !called {
		return err
	}
	q.Filed(federation.WebhookLink)
	return PushEntry(ctx, q, reader, notice)
}
