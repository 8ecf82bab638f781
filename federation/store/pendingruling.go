package store

import (
	"context"
	"errors"
	"fmt"

	"baton/federation"
)

// Await implements [federationtest.PendingRulings].
func (s *Record) Await(ctx context.Context, h federation.Pending, after federation.Version) error {
	ready, err := prepare(h.Event)
	if err != nil {
		return fmt.Errorf("hold %s: %w", h.Event.ID, err)
	}
	err = s.write(ctx, func(ctx context.Context, q *statements) error {
		var version federation.Version
		err := q.row(ctx, `SELECT version FROM handoff WHERE id = ?`, []any{h.Event.Handoff.String()}, &version)
		if err != nil && !errors.Is(err, federation.ErrNotFound) {
			return fmt.Errorf("read handoff: %w", err)
		}
		if version != after {
			return federation.ErrStale
		}
		if evidence := h.Event.Evidence; evidence != nil && evidence.Bytes != nil {
			if err := keep(ctx, q, h.Event.Handoff, *evidence); err != nil {
				return err
			}
		}
		_, err = q.exec(ctx, `INSERT INTO pending (home, handoff, signer, id, digest, since, body)
			VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			string(h.Home), h.Event.Handoff.String(), h.Event.From, h.Event.ID.String(), ready.digest[:], stamp(h.Since), string(ready.body))
		return err
	})
	if err != nil {
		return fmt.Errorf("hold %s: %w", h.Event.ID, err)
	}
	return nil
}

// Awaiting implements [federationtest.PendingRulings].
func (s *Record) Awaiting(ctx context.Context, home federation.HomeID, limit int) ([]federation.Pending, error) {
	held, err := rows(ctx, s.reads, scanPending, `SELECT home, since, body FROM pending WHERE home = ? ORDER BY seq`+atMost, string(home), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what waits for %s: %w", home, err)
	}
	return held, nil
}

// AwaitingIn implements [federationtest.PendingRulings].
func (s *Record) AwaitingIn(ctx context.Context, id federation.HandoffID) ([]federation.Pending, error) {
	held, err := rows(ctx, s.reads, scanPending, `SELECT home, since, body FROM pending WHERE handoff = ? ORDER BY seq`, id.String())
	if err != nil {
		return nil, fmt.Errorf("read what waits in %s: %w", id, err)
	}
	return held, nil
}

func scanPending(row scanner) (federation.Pending, error) {
	var h federation.Pending
	var home string
	var since int64
	var body []byte
	err := row.Scan(&home, &since, &body)
	if err == nil {
		h.Event, err = decodeEvent(body)
	}
	h.Home, h.Since = federation.HomeID(home), moment(since)
	return h, err
}

// Ruled implements [federationtest.PendingRulings].
func (s *Record) Ruled(ctx context.Context, id federation.HandoffID, from federation.DID, event federation.EventID) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error { return release(ctx, q, id, from, event) })
	if err != nil {
		return fmt.Errorf("release %s: %w", event, err)
	}
	return nil
}

// release ends the wait of a step.
func release(ctx context.Context, q *statements, id federation.HandoffID, from federation.DID, event federation.EventID) error {
	return q.put(ctx, `DELETE FROM pending WHERE handoff = ? AND signer = ? AND id = ?`, id.String(), from, event.String())
}
