package registry

import (
	"context"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store/engine"
)

// unverified says of a message m that it is held and that its sender begins with
// [agents.Unverified], which would be a parameter here: between ">" and "@" in ASCII.
const unverified = `m.edge > '>' AND m.edge < '@'`

// HeldRelays implements the port Messages of bridge/airc.
func (s *Registry) HeldRelays(ctx context.Context, from, to string, after int64, limit int) ([]agents.Held, error) {
	scan := func(row engine.Scanner) (h agents.Held, err error) {
		var m messageScan
		if err = row.Scan(append([]any{&h.ID}, m.dest()...)...); err == nil {
			h.Message, err = m.read()
		}
		return h, err
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT m.n, `+messageColumns+` FROM message m
		WHERE `+unverified+` AND (?1 = '' OR m.edge = ?1) AND (?2 = '' OR m.recipient = ?2) AND m.n > ?3 ORDER BY m.n LIMIT 0 + ?4`,
		from, to, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read held relays: %w", err)
	}
	return found, nil
}

// HeldRelay implements the port Messages of bridge/airc.
func (s *Registry) HeldRelay(ctx context.Context, id int64) (agents.Message, error) {
	m, err := oneMessage(ctx, s.db.Reads(), `m.n = ? AND `+unverified, id)
	if err != nil {
		return agents.Message{}, fmt.Errorf("read held relay %d: %w", id, err)
	}
	return m, nil
}

// DeliverHeld implements the port Messages of bridge/airc.
func (s *Registry) DeliverHeld(ctx context.Context, id int64, now time.Time) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		h := held{n: id}
		var to string
		err := q.Row(ctx, `SELECT m.low, m.high, m.recipient FROM message m WHERE m.n = ? AND `+unverified, []any{id}, &h.low, &h.high, &to)
		if err != nil {
			return err
		}
		return deliver(ctx, q, h, to, now)
	})
	if err != nil {
		return fmt.Errorf("deliver held relay %d: %w", id, err)
	}
	return nil
}

// DropHeld deletes a held relay. It returns [federation.ErrNotFound] for one that is not held.
func (s *Registry) DropHeld(ctx context.Context, id int64, now time.Time) error {
	gone, err := s.dropHeldRelays(ctx, now, ` AND m.n = ?`, id)
	if err == nil && gone == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("drop held relay %d: %w", id, err)
	}
	return nil
}

// ExpireHeld deletes up to limit held relays that arrived at or before a time, and returns how many.
func (s *Registry) ExpireHeld(ctx context.Context, before, now time.Time, limit int) (int, error) {
	gone, err := s.dropHeldRelays(ctx, now, ` AND m.received <= ? ORDER BY m.n`+engine.AtMost, engine.Stamp(before), max(limit, 0))
	if err != nil {
		return 0, fmt.Errorf("expire held relays: %w", err)
	}
	return gone, nil
}

// dropHeldRelays drops the held relays that the rest of a query finds, and returns how many.
func (s *Registry) dropHeldRelays(ctx context.Context, now time.Time, which string, args ...any) (int, error) {
	type row struct {
		n        int64
		from, to string
	}
	scan := func(found engine.Scanner) (r row, err error) {
		err = found.Scan(&r.n, &r.from, &r.to)
		return r, err
	}
	return engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int, error) {
		rows, err := engine.Rows(ctx, q, scan, `SELECT m.n, m.sender, m.recipient FROM message m WHERE `+unverified+which, args...)
		for _, r := range rows {
			if err == nil {
				err = dropFirstContact(ctx, q, r.n, r.from, r.to, now)
			}
		}
		return len(rows), err
	})
}
