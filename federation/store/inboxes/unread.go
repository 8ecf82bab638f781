package inboxes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// A link has shown the step of the entry: the delivery to that link reports the outcome.
const elsewhere = federation.DeliveryState("elsewhere")

const owner = `(SELECT did FROM actor WHERE n = i.did)`

// The condition is true for an entry i if the inbox is its only route to its reader (see
// [federation.InboxLink]). Either it was read there, or no link has the step, or its reader was
// seen there and no link to the reader's home delivers it. A condition of the tables of a network
// follows, which reach its participants. In a handoff of another home, that home delivers to the
// offerer and to each DID seen anywhere else.
const inboxOnly = `i.outcome <> 'elsewhere' AND (i.outcome = 'delivered'
		OR NOT EXISTS (SELECT 1 FROM delivery f JOIN destination d ON d.n = f.destination WHERE f.item = i.event AND d.kind = 'link')
			AND NOT EXISTS (SELECT 1 FROM event o JOIN handoff g ON g.id = o.handoff WHERE o.seq = i.event AND g.view ->> 'remote' IS NOT NULL AND (g.offerer = i.did
				OR EXISTS (SELECT 1 FROM binding b WHERE b.did = ` + owner + `) OR EXISTS (SELECT 1 FROM mailbox_location r WHERE r.did = ` + owner + `)))
		OR EXISTS (SELECT 1 FROM mailbox b WHERE b.did = i.did AND b.reads = 1)
			AND NOT EXISTS (SELECT 1 FROM mailbox_location r JOIN destination d ON d.name = r.home JOIN delivery f ON f.item = i.event AND f.destination = d.n WHERE r.did = ` + owner + `))
	AND NOT `

// The tables of a network do not deliver these entries.
func inboxIsWay(tables engine.SQL) string { return inboxOnly + tables.Reached }

// Deliveries selects the state of the steps of a handoff (?1) in the inboxes that are the only
// route to their DID, without the steps for a webhook. A DID that answered an offer has seen it. An
// entry unread when the handoff expired has expired with it. The link is ?4.
func Deliveries(tables engine.SQL) string {
	return `SELECT seq, id, ?4, (SELECT did FROM actor WHERE n = entry_of),
		CASE WHEN seen THEN 'delivered' WHEN missed THEN 'expired' WHEN ended = 0 THEN 'waiting' ELSE outcome END, 0, 0, '',
		CASE WHEN seen THEN answered WHEN missed THEN moved ELSE ended END
	FROM (SELECT *, answered IS NOT NULL AND (ended = 0 OR ended > answered) AS seen, lost AND (ended = 0 OR ended > moved) AS missed
		FROM (SELECT e.seq, e.id, i.did AS entry_of, i.outcome, i.ended, h.moved, h.state = 'expired' AND e.version < h.version AS lost,
				CASE WHEN e.id = h.id AND h.assignee = i.did
					THEN (SELECT a.filed FROM event a WHERE a.handoff = h.id AND a.version = CAST(h.view ->> 'answered' AS bigint)) END AS answered
			FROM handoff h JOIN event e ON e.handoff = h.id JOIN inbox i ON i.did IN (h.offerer, h.offeree, h.assignee) AND i.event = e.seq
			WHERE h.id = ?1 AND e.version > 0 AND ` + inboxIsWay(tables) + `
				AND NOT EXISTS (SELECT 1 FROM webhook k JOIN destination d ON d.name = 'webhook/' || k.id JOIN delivery p ON p.destination = d.n AND p.item = i.event
					WHERE k.did = ` + owner + ` AND k.participant = '' AND p.state IN ('waiting', 'delivered'))) entry) told`
}

// MarkShown records that a link has shown the steps of entries. Signers notified of the delay are
// notified of the delivery.
func MarkShown(ctx context.Context, q engine.Tx, now time.Time, which string, args ...any) error {
	found, err := endWaiting(ctx, q, elsewhere, now, which, args...)
	if err != nil {
		return err
	}
	return noteRead(ctx, q, found, now)
}

// MarkRead records that entries were read. Signers notified of the delay are notified of the
// delivery.
func MarkRead(ctx context.Context, q engine.Tx, now time.Time, which string, args ...any) (int, error) {
	found, err := endWaiting(ctx, q, federation.DeliveryDelivered, now, which, args...)
	if err != nil {
		return 0, err
	}
	return len(found), noteRead(ctx, q, found, now)
}

func noteRead(ctx context.Context, q engine.Tx, found []entry, now time.Time) error {
	for _, e := range found {
		if !e.slow {
			continue
		}
		if err := noteTo(ctx, q, e.did, e.event, federation.Notice{Kind: federation.NoticeDelivered, At: now}); err != nil {
			return err
		}
	}
	return nil
}

func noteTo(ctx context.Context, q engine.Tx, did, event int64, n federation.Notice) error {
	if err := q.Row(ctx, `SELECT did FROM actor WHERE n = ?`, []any{did}, &n.To); err != nil {
		return err
	}
	return NoteStep(ctx, q, event, n)
}

// Read records that some steps were shown to a DID. They count as read and delivered, and a signer
// notified of the delay is notified of the delivery. It ignores steps not in the inbox.
func (s *Inboxes) Read(ctx context.Context, to federation.DID, events []federation.EventID, now time.Time) error {
	return s.endSteps(ctx, to, events, func(ctx context.Context, q engine.Tx, owner int64, ids string) error {
		_, err := MarkRead(ctx, q, now, stepsIn, owner, ids)
		return err
	})
}

// The IDs of the events are in the parameter after the DID, a JSON array.
const stepsIn = `did = ?1 AND event IN (SELECT e.seq FROM json_each(?2) j JOIN event e ON e.id = j.value)`

// ExpireUnread expires steps that were never shown to a DID; they remain readable. It notifies
// their signers; for an offer, the home notifies its offerer.
func (s *Inboxes) ExpireUnread(ctx context.Context, to federation.DID, events []federation.EventID, now time.Time) error {
	return s.endSteps(ctx, to, events, func(ctx context.Context, q engine.Tx, owner int64, ids string) error {
		found, err := endWaiting(ctx, q, federation.DeliveryExpired, now, stepsIn, owner, ids)
		if err != nil {
			return err
		}
		for _, e := range found {
			if err := s.noteLapse(ctx, q, e, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// ExpireUnreadMessages expires up to limit messages filed at or before a given time, and notifies
// their senders if the inbox was the only route to the recipient.
func (s *Inboxes) ExpireUnreadMessages(ctx context.Context, before, now time.Time, limit int) (int, error) {
	return engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int, error) {
		found, err := endWaiting(ctx, q, federation.DeliveryExpired, now, `event IN (SELECT e.seq FROM event e JOIN inbox n ON n.event = e.seq AND n.did = e.recipient
			WHERE e.state = 'said' AND e.filed <= ?1 AND n.waiting IS NOT NULL ORDER BY e.filed, e.seq LIMIT 0 + ?2)`, engine.Stamp(before), max(limit, 0))
		for _, e := range found {
			if err == nil {
				err = s.noteLapse(ctx, q, e, now)
			}
		}
		return len(found), err
	})
}

// A polling reader gets the same entries repeatedly, so entries that are no longer unread cause no
// write.
func (s *Inboxes) endSteps(ctx context.Context, to federation.DID, events []federation.EventID,
	end func(ctx context.Context, q engine.Tx, owner int64, ids string) error,
) error {
	if n, _, err := s.Waiting(ctx, to); err != nil || n == 0 || len(events) == 0 {
		return err
	}
	ids, err := json.Marshal(events)
	var owner int64
	if err == nil {
		owner, err = s.db.Actor(ctx, to)
	}
	if err == nil {
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error { return end(ctx, q, owner, string(ids)) })
	}
	if err != nil {
		return fmt.Errorf("mark inbox of %s: %w", to, err)
	}
	return nil
}

// noteLapse notifies the signer of an unread step if the inbox was its only route to the DID.
// The home reports the expiry of an offer.
func (s *Inboxes) noteLapse(ctx context.Context, q engine.Tx, e entry, now time.Time) error {
	var tell bool
	err := q.Row(ctx, `SELECT e.id <> e.handoff AND `+inboxIsWay(s.db.Parts)+` FROM inbox i JOIN event e ON e.seq = i.event WHERE i.did = ? AND i.event = ?`,
		[]any{e.did, e.event}, &tell)
	if err != nil || !tell {
		return err
	}
	return noteTo(ctx, q, e.did, e.event, federation.Notice{
		Kind: federation.NoticeUndeliverable, Code: string(federation.DeadExpired), Why: "it was not read", At: now,
	})
}

// Writing the notices of one page delays a filing by about a millisecond. If none is delayed, a
// page of the newest entries is examined each time.
const delayPage = 16

type unread struct {
	did   int64
	event int64
	filed int64
}

// Delay notifies the signers of unread entries. It checks each entry once, and stores its position
// in the record.
func (s *Inboxes) Delay(ctx context.Context, before, now time.Time, limit int) (delayed int, err error) {
	for more := true; more && delayed < limit; {
		var found []unread
		if found, more, err = s.unreadSince(ctx, before); err != nil || len(found) == 0 {
			return delayed, err
		}
		n, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int, error) {
			return s.delayEach(ctx, q, found, limit-delayed, now)
		})
		if err != nil {
			return delayed, fmt.Errorf("notify signers of unread entries: %w", err)
		}
		delayed += n
	}
	return delayed, nil
}

func (s *Inboxes) unreadSince(ctx context.Context, before time.Time) (found []unread, more bool, err error) {
	var at unread
	err = s.db.Reads().Row(ctx, `SELECT event, did FROM looked WHERE id = 1`, nil, &at.event, &at.did)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return nil, false, fmt.Errorf("read how far inboxes were looked at: %w", err)
	}
	scan := func(row engine.Scanner) (u unread, err error) {
		err = row.Scan(&u.did, &u.event, &u.filed)
		return u, err
	}
	found, err = engine.Rows(ctx, s.db.Reads(), scan, `SELECT i.did, i.event, e.filed FROM inbox i JOIN event e ON e.seq = i.event
		WHERE i.waiting IS NOT NULL AND i.event >= ?1 AND (i.event > ?1 OR i.did > ?2) ORDER BY i.event, i.did LIMIT 0 + ?3`,
		at.event, at.did, delayPage)
	if err != nil {
		return nil, false, fmt.Errorf("find unread entries: %w", err)
	}
	// Events are numbered in filing order, so the first too recent one ends the scan.
	if i := slices.IndexFunc(found, func(u unread) bool { return u.filed > engine.Stamp(before) }); i >= 0 {
		return found[:i], false, nil
	}
	return found, len(found) == delayPage, nil
}

// delayEach notifies the signers of up to limit unread entries whose only route is the inbox,
// and stores the position. A DID that answered an offer has seen it.
func (s *Inboxes) delayEach(ctx context.Context, q engine.Tx, found []unread, limit int, now time.Time) (delayed int, err error) {
	var last unread
	for _, u := range found {
		if delayed == limit {
			break
		}
		n, err := q.Exec(ctx, `UPDATE inbox AS i SET slow = 1 WHERE i.did = ? AND i.event = ? AND i.waiting IS NOT NULL AND i.slow = 0 AND `+inboxIsWay(s.db.Parts)+`
			AND NOT EXISTS (SELECT 1 FROM event o JOIN handoff h ON h.id = o.id WHERE o.seq = i.event AND h.assignee = i.did)`, u.did, u.event)
		if err == nil && n > 0 {
			err = noteTo(ctx, q, u.did, u.event, federation.Notice{Kind: federation.NoticeDelayed, Why: "it was not read", At: now})
		}
		if err != nil {
			return 0, err
		}
		delayed, last = delayed+int(n), u
	}
	err = q.Put(ctx, `INSERT INTO looked (id, event, did) VALUES (1, ?, ?) ON CONFLICT (id) DO UPDATE SET event = excluded.event, did = excluded.did
		WHERE looked.event < excluded.event OR looked.event = excluded.event AND looked.did < excluded.did`, last.event, last.did)
	return delayed, err
}
