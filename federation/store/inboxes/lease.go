package inboxes

import (
	"context"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

const withdrawn = `EXISTS (SELECT 1 FROM handoff h WHERE h.id = e.id AND h.over = 1)`

const waits = ` FROM inbox i JOIN event e ON e.seq = i.event
	WHERE i.did = ?1 AND i.event > coalesce((SELECT clear FROM mailbox WHERE did = ?1), 0) AND i.waiting IS NOT NULL`

// Lease leases up to limit unread entries without a lease to a device, oldest first, until a
// given time. First, regardless of the limit, it expires every unread offer of a closed handoff,
// leased or not. A lease ends with its session, if it has one. Lease returns
// [federation.ErrSessionEnded] for an ended session. Polling an empty inbox causes no write.
func (s *Inboxes) Lease(ctx context.Context, to federation.DID, device, session string, now, until time.Time, limit int) ([]federation.Lease, error) {
	if err := HasSession(ctx, s.db.Reads(), session); err != nil {
		return nil, fmt.Errorf("lease from inbox of %s: %w", to, err)
	}
	owner, err := s.db.Actor(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("lease from inbox of %s: %w", to, err)
	}
	some, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[int64], `SELECT i.event`+waits+` AND (i.until <= ?2 OR `+withdrawn+`) ORDER BY i.event LIMIT 1`,
		owner, engine.Stamp(now))
	if err != nil {
		return nil, fmt.Errorf("lease from inbox of %s: %w", to, err)
	}
	if len(some) == 0 {
		return nil, nil
	}
	leases, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) ([]federation.Lease, error) {
		return lease(ctx, q, to, owner, device, session, now, until, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("lease from inbox of %s: %w", to, err)
	}
	return leases, nil
}

func lease(ctx context.Context, q engine.Tx, to federation.DID, owner int64, device, session string, now, until time.Time, limit int) ([]federation.Lease, error) {
	if err := HasSession(ctx, q, session); err != nil {
		return nil, err
	}
	_, err := endWaiting(ctx, q, federation.DeliveryExpired, now, `did = ?1 AND event IN (SELECT i.event`+waits+` AND `+withdrawn+`)`, owner)
	if err != nil {
		return nil, err
	}
	if err := skipRead(ctx, q, owner); err != nil {
		return nil, err
	}
	scan := func(row engine.Scanner) (federation.Lease, error) {
		var e EntryScan
		var l federation.Lease
		if err := row.Scan(append(e.Dest(), &l.Delivery)...); err != nil {
			return l, err
		}
		var err error
		l.Entry, err = e.Read(to)
		l.Cursor, l.Device, l.Until = l.Entry.Cursor, device, engine.Moment(engine.Stamp(until))
		l.Delivery++
		return l, err
	}
	leases, err := engine.Rows(ctx, q, scan, `SELECT `+EntryColumns+`, i.delivery`+waits+` AND i.until <= ?2 ORDER BY i.event LIMIT 0 + ?3`,
		owner, engine.Stamp(now), max(limit, 0))
	if err != nil {
		return nil, err
	}
	for _, l := range leases {
		at, err := parseInboxPlace(to, l.Cursor)
		if err != nil {
			return nil, err
		}
		err = q.Put(ctx, `UPDATE inbox SET device = ?, delivery = ?, until = ?, session = nullif(?, '') WHERE did = ? AND event = ?`,
			device, l.Delivery, engine.Stamp(until), session, owner, at.event)
		if err != nil {
			return nil, fmt.Errorf("write lease: %w", err)
		}
	}
	return leases, nil
}

// HasSession returns [federation.ErrSessionEnded] for an ended session. Writes call it in their
// transaction. The empty session never ends.
func HasSession(ctx context.Context, q engine.Tx, id string) error {
	if id == "" {
		return nil
	}
	var has bool
	err := q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM session WHERE id = ? AND ends <> 1)`, []any{id}, &has)
	if err == nil && !has {
		err = federation.ErrSessionEnded
	}
	return err
}

// Stores the position before the first unread entry, so that old entries are not scanned
// repeatedly.
func skipRead(ctx context.Context, q engine.Tx, owner int64) error {
	err := q.Put(ctx, `UPDATE mailbox SET clear = coalesce((SELECT i.event FROM inbox i
			WHERE i.did = mailbox.did AND i.event > mailbox.clear AND i.waiting IS NOT NULL ORDER BY i.event LIMIT 1) - 1, event)
		WHERE did = ?`, owner)
	if err != nil {
		return fmt.Errorf("skip read entries: %w", err)
	}
	return nil
}

// Ack marks an entry as read, like [Inboxes.Read]. An expired lease is accepted, but if the entry
// was leased again, Ack returns [federation.ErrLeaseLost]. A repeated Ack changes nothing.
func (s *Inboxes) Ack(ctx context.Context, to federation.DID, hold federation.LeaseToken, now time.Time) error {
	return s.held(ctx, to, hold, func(ctx context.Context, q engine.Tx, holder []any) (int64, error) {
		const holds = `did = ?1 AND event = ?2 AND device = ?3 AND delivery = ?4`
		if n, err := MarkRead(ctx, q, now, holds, holder...); n > 0 || err != nil {
			return int64(n), err
		}
		var before int64
		err := q.Row(ctx, `SELECT count(*) FROM inbox WHERE `+holds, holder, &before)
		return before, err
	})
}

// Nack returns an entry, which no device gets before a given time. It returns
// [federation.ErrLeaseLost] like Ack, and if the entry was read or expired.
func (s *Inboxes) Nack(ctx context.Context, to federation.DID, hold federation.LeaseToken, again time.Time) error {
	return s.held(ctx, to, hold, func(ctx context.Context, q engine.Tx, holder []any) (int64, error) {
		return q.Exec(ctx, `UPDATE inbox SET device = NULL, until = ?5
			WHERE did = ?1 AND event = ?2 AND device = ?3 AND delivery = ?4 AND waiting IS NOT NULL`, append(holder, engine.Stamp(again))...)
	})
}

// Extend moves the end of a lease. It returns the errors of Nack.
func (s *Inboxes) Extend(ctx context.Context, to federation.DID, hold federation.LeaseToken, until time.Time) error {
	return s.held(ctx, to, hold, func(ctx context.Context, q engine.Tx, holder []any) (int64, error) {
		return q.Exec(ctx, `UPDATE inbox SET until = ?5
			WHERE did = ?1 AND event = ?2 AND device = ?3 AND delivery = ?4 AND waiting IS NOT NULL`, append(holder, engine.Stamp(until))...)
	})
}

// The change receives the name of the device, and returns the number of entries found.
func (s *Inboxes) held(ctx context.Context, to federation.DID, hold federation.LeaseToken,
	change func(ctx context.Context, q engine.Tx, holder []any) (int64, error),
) error {
	at, err := parseInboxPlace(to, hold.Cursor)
	if err != nil || at.event == 0 {
		return fmt.Errorf("lease of %s: %w", to, federation.ErrLeaseLost)
	}
	owner, err := s.db.Actor(ctx, to)
	if err != nil {
		return fmt.Errorf("lease of %s: %w", to, err)
	}
	err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		found, err := change(ctx, q, []any{owner, at.event, hold.Device, hold.Delivery})
		if err == nil && found == 0 {
			err = federation.ErrLeaseLost
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("lease of %s: %w", to, err)
	}
	return nil
}

// A device that returns after months must not delay the others.
const clearBatch = 512

// Devices returns the devices of a DID, ordered by name.
func (s *Inboxes) Devices(ctx context.Context, of federation.DID) ([]federation.Device, error) {
	scan := func(row engine.Scanner) (d federation.Device, err error) {
		var at inboxPlace
		var since, seen int64
		err = row.Scan(&d.Name, &at.event, &at.number, &since, &seen)
		d.Cursor, d.Since, d.Seen = at.cursor(of), engine.Moment(since), engine.Moment(seen)
		return d, err
	}
	devices, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT name, event, number, since, seen FROM device WHERE did = ? ORDER BY name`, of)
	if err != nil {
		return nil, fmt.Errorf("read devices of %s: %w", of, err)
	}
	return devices, nil
}

// Advance records that a device has read its inbox up to a cursor: the entries up to it are read
// for all devices. The first Advance creates the device, and a position never moves back. Without a
// device name, the entries are only marked as read. It returns [federation.ErrTooManyDevices] at
// the limit, and a [*federation.CursorError] for a cursor of another inbox.
func (s *Inboxes) Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error {
	owner, err := s.db.Actor(ctx, of)
	if err != nil {
		return fmt.Errorf("advance device of %s: %w", of, err)
	}
	more, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (bool, error) {
		at, err := inboxPlaceOf(ctx, q, of, owner, upTo)
		if err == nil && device != "" {
			err = advance(ctx, q, of, device, at, now)
		}
		if err != nil {
			return false, err
		}
		return stopWaiting(ctx, q, owner, at, now)
	})
	for err == nil && more {
		more, err = engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (bool, error) {
			at, err := parseInboxPlace(of, upTo)
			if err != nil {
				return false, err
			}
			return stopWaiting(ctx, q, owner, at, now)
		})
	}
	if err != nil {
		return fmt.Errorf("advance device of %s: %w", of, err)
	}
	return nil
}

func advance(ctx context.Context, q engine.Tx, of federation.DID, device string, at inboxPlace, now time.Time) error {
	changed, err := q.Exec(ctx, `UPDATE device SET event = max(event, ?3), number = max(number, ?4), seen = max(seen, ?5)
		WHERE did = ?1 AND name = ?2`, of, device, at.event, at.number, engine.Stamp(now))
	if err != nil || changed > 0 {
		return err
	}
	added, err := q.Exec(ctx, `INSERT INTO device (did, name, event, number, since, seen)
		SELECT ?1, ?2, ?3, ?4, ?5, ?5 WHERE (SELECT count(*) FROM device WHERE did = ?1) < ?6`,
		of, device, at.event, at.number, engine.Stamp(now), federation.MaxDevices)
	if err == nil && added == 0 {
		err = federation.ErrTooManyDevices
	}
	return err
}

func stopWaiting(ctx context.Context, q engine.Tx, owner int64, at inboxPlace, now time.Time) (more bool, err error) {
	if err := skipRead(ctx, q, owner); err != nil {
		return false, err
	}
	changed, err := MarkRead(ctx, q, now, `did = ?1 AND event IN (SELECT event FROM inbox
		WHERE did = ?1 AND event > (SELECT clear FROM mailbox WHERE did = ?1) AND event <= ?2 AND waiting IS NOT NULL
		ORDER BY event LIMIT 0 + ?3)`, owner, at.event, clearBatch)
	return changed == clearBatch, err
}

// Forget deletes a device, or returns [federation.ErrNotFound]. Its leases continue.
func (s *Inboxes) Forget(ctx context.Context, of federation.DID, device string) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		forgotten, err := q.Exec(ctx, `DELETE FROM device WHERE did = ? AND name = ?`, of, device)
		if err == nil && forgotten == 0 {
			err = federation.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("forget device of %s: %w", of, err)
	}
	return nil
}
