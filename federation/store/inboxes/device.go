package inboxes

import (
	"context"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
)

// clearBatch is how many entries stop waiting in one write: a device that comes back
// after months must not hold up the others.
const clearBatch = 512

// Devices returns the devices of a DID by name.
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

// Advance notes that a device has read its inbox up to a cursor: the entries up to it stop
// waiting, for every device, as after [Inboxes.Read]. The first Advance makes the device, and no
// Advance moves it back. With no name only the waiting ends. It returns
// [federation.ErrTooManyDevices] for one device too many, and a [*federation.CursorError] for a
// cursor of another inbox.
func (s *Inboxes) Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error {
	more, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (bool, error) {
		at, err := inboxPlaceOf(ctx, q, of, upTo)
		if err == nil && device != "" {
			err = advance(ctx, q, of, device, at, now)
		}
		if err != nil {
			return false, err
		}
		return stopWaiting(ctx, q, of, at, now)
	})
	for err == nil && more {
		more, err = engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (bool, error) {
			at, err := parseInboxPlace(of, upTo)
			if err != nil {
				return false, err
			}
			return stopWaiting(ctx, q, of, at, now)
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

// stopWaiting ends the waiting of the next entries up to a place, and reports
// whether there are more.
func stopWaiting(ctx context.Context, q engine.Tx, of federation.DID, at inboxPlace, now time.Time) (more bool, err error) {
	if err := skipRead(ctx, q, of); err != nil {
		return false, err
	}
	changed, err := MarkRead(ctx, q, now, `did = ?1 AND event IN (SELECT event FROM inbox
		WHERE did = ?1 AND event > (SELECT clear FROM mailbox WHERE did = ?1) AND event <= ?2 AND waiting IS NOT NULL
		ORDER BY event LIMIT 0 + ?3)`, of, at.event, clearBatch)
	return changed == clearBatch, err
}

// Forget deletes a device, or returns [federation.ErrNotFound]. Its leases go on.
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
