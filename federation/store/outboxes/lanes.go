package outboxes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
	"baton/federation/store/handoffs"
)

// A lane is the queue of one handoff on a link. Only its first row has a time in the column next, 0
// before the first attempt. A row that waits for a party has its own time, and blocks no other row.

// due reads no more of an outbox than it returns, however much is due and however much waits for its
// time: what was never tried, by rank, and what is due again, by its time. The argument chooses rows.
func due(which string) string {
	return `SELECT handoff FROM (
		SELECT * FROM (SELECT handoff, rank, event FROM outbox WHERE ` + which + ` AND next = 0 ORDER BY rank, event LIMIT 0 + ?3) fresh
		UNION ALL SELECT * FROM (SELECT handoff, rank, event FROM outbox WHERE ` + which + ` AND next > 0 AND next <= ?2 ORDER BY next LIMIT 0 + ?3) again) each
	WHERE NOT EXISTS (SELECT 1 FROM held WHERE name = ?1) GROUP BY handoff ORDER BY min(rank), min(event) LIMIT 0 + ?3`
}

// The rows that [due] chooses from.
const (
	ofLink   = `link = ?1`
	ofSender = `link = ?1 AND signer = ?4`
)

// nextSender finds the first sender after another one with a due row. Each sender costs two
// searches of an index, however many rows it has.
const nextSender = `WITH RECURSIVE sender (did) AS (
		SELECT (SELECT signer FROM outbox WHERE link = ?1 AND signer > ?3 AND next IS NOT NULL ORDER BY signer LIMIT 1)
		UNION ALL SELECT (SELECT signer FROM outbox WHERE link = ?1 AND signer > did AND next IS NOT NULL ORDER BY signer LIMIT 1) FROM sender WHERE did IS NOT NULL)
	SELECT did FROM sender WHERE EXISTS (SELECT 1 FROM outbox WHERE link = ?1 AND signer = did AND next <= ?2)
		AND NOT EXISTS (SELECT 1 FROM held WHERE name = ?1) LIMIT 1`

// Heads returns up to limit handoffs whose first row on a link is due now: rows of the lowest
// [federation.Rank] first, of one rank the oldest. If more than limit are due again after a
// failure, the ones that became due first are returned. It returns none of a held link.
func (s *Outboxes) Heads(ctx context.Context, link string, now time.Time, limit int) ([]federation.HandoffID, error) {
	due, err := engine.Rows(ctx, s.db.Reads(), handoffs.ScanHandoffID, due(ofLink), link, engine.Stamp(now), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what is due to %s: %w", link, err)
	}
	return due, nil
}

// Turn returns the next sender after another one, in a circle of the DIDs that signed a due
// first row, with up to limit handoffs of these rows in the order of Heads. Nothing is due to a
// held link.
func (s *Outboxes) Turn(ctx context.Context, link string, after federation.DID, now time.Time, limit int) (federation.Turn, error) {
	var turn federation.Turn
	err := s.db.Reads().Row(ctx, nextSender, []any{link, engine.Stamp(now), after}, &turn.Sender)
	if errors.Is(err, federation.ErrNotFound) && after != "" {
		err = s.db.Reads().Row(ctx, nextSender, []any{link, engine.Stamp(now), ""}, &turn.Sender)
	}
	if errors.Is(err, federation.ErrNotFound) {
		return federation.Turn{}, nil
	}
	if err == nil {
		turn.Lanes, err = engine.Rows(ctx, s.db.Reads(), handoffs.ScanHandoffID, due(ofSender), link, engine.Stamp(now), max(limit, 0), turn.Sender)
	}
	if err != nil {
		return federation.Turn{}, fmt.Errorf("read whose turn it is at %s: %w", link, err)
	}
	return turn, nil
}

// rowOrder orders the rows of a lane. Rows that wait for a party come last, so that they never fill
// a page.
const rowOrder = `CASE WHEN f.rank = ` + rankPersonal + ` AND f.next > 0 THEN 1 ELSE 0 END, f.event`

// PendingOf returns up to limit rows of one handoff in order. Rows that wait for a party and
// were not hurried come last. An unreadable row is included, as Broken.
func (s *Outboxes) PendingOf(ctx context.Context, link string, id federation.HandoffID, limit int) ([]federation.Delivery, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanDelivery, `SELECT `+deliveryColumns+`
		WHERE f.link = ?2 AND f.event IN (SELECT f.event FROM outbox f WHERE f.handoff = ?1 AND f.link || '' = ?2 ORDER BY `+rowOrder+` LIMIT 0 + ?3)
		ORDER BY `+rowOrder, id.String(), link, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what %s is owed of %s: %w", link, id, err)
	}
	return found, nil
}

// stuckLook bounds what is looked at for one DID: each step of a busy participant asks, while
// anything waits.
const stuckLook = 256

// The looks for a lane that waits: among the handoffs of a participant, for a busy one among the
// handoffs that wait, and for any.
const (
	stuckOfParty = `SELECT f.handoff FROM (SELECT handoff FROM party WHERE did = ?3 LIMIT 0 + ?4) p CROSS JOIN outbox f
		WHERE f.link = ?1 AND f.event = (SELECT min(l.event) FROM outbox l WHERE l.handoff = p.handoff AND l.link = ?1) AND f.next > ?2
		ORDER BY f.rank, f.event LIMIT 1`
	stuckWithParty = `SELECT f.handoff FROM (SELECT handoff, rank, event FROM outbox WHERE link = ?1 AND next > ?2 ORDER BY next, rank, event LIMIT 0 + ?4) f
		JOIN handoff h ON h.id = f.handoff WHERE (SELECT count(*) FROM (SELECT 1 FROM party WHERE did = ?3 LIMIT 0 + ?4) few) = ?4
			AND ?3 IN (h.offerer, h.view ->> 'offeree', h.view ->> 'assignee')
		ORDER BY f.rank, f.event LIMIT 1`
	stuckFirst = `SELECT handoff FROM outbox WHERE link = ?1 AND next > ?2 ORDER BY next, rank, event LIMIT 1`
)

// Stuck returns a handoff whose first row is due after now: the first one of the DID, in the
// order of Heads, if it has any, else the next due one. Of a DID with hundreds of handoffs, and
// hundreds of pending rows, it may miss one. It returns [federation.ErrNotFound] if no row waits.
func (s *Outboxes) Stuck(ctx context.Context, link string, did federation.DID, now time.Time) (id federation.HandoffID, err error) {
	first, ofDID := []any{link, engine.Stamp(now)}, []any{link, engine.Stamp(now), did, stuckLook}
	looks := []struct {
		query string
		args  []any
	}{{stuckOfParty, ofDID}, {stuckWithParty, ofDID}, {stuckFirst, first}}
	if did == "" {
		looks = looks[2:]
	}
	for _, look := range looks {
		var text string
		if err = s.db.Reads().Row(ctx, look.query, look.args, &text); err == nil {
			return id, id.UnmarshalText([]byte(text))
		}
		if !errors.Is(err, federation.ErrNotFound) {
			break
		}
	}
	return id, fmt.Errorf("read what waits for %s: %w", link, err)
}

// Hurry makes the first row of every handoff on a link due at once. Attempts stay counted.
func (s *Outboxes) Hurry(ctx context.Context, link string) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `UPDATE outbox SET next = 0 WHERE link = ? AND next IS NOT NULL AND next > 0`, link)
	})
	if err != nil {
		return fmt.Errorf("hurry outbox of %s: %w", link, err)
	}
	return nil
}

// HurryMessages makes the pending messages and steps of a link for a DID due at once, and returns
// their number; "" means all of the link.
func (s *Outboxes) HurryMessages(ctx context.Context, link string, to federation.DID) (int, error) {
	const which = `link = ?1 AND next IS NOT NULL AND next > 0
		AND (?2 = '' OR EXISTS (SELECT 1 FROM inbox i WHERE i.did = ?2 AND i.event = outbox.event))`
	var waiting int
	err := s.db.Reads().Row(ctx, `SELECT count(*) FROM outbox WHERE `+which, []any{link, to}, &waiting)
	if err == nil && waiting > 0 {
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
			return q.Put(ctx, `UPDATE outbox SET next = 0 WHERE `+which, link, to)
		})
	}
	if err != nil {
		return 0, fmt.Errorf("hurry messages of %s: %w", link, err)
	}
	return waiting, nil
}
