package handoffs

import (
	"context"
	"errors"
	"fmt"

	"baton/federation"
	"baton/federation/store/engine"
)

// Await keeps a step with its evidence, in a handoff that still has the version that the step
// was judged at. The same step twice (see [federation.Event.Digest]) waits once. It returns
// [federation.ErrStale] if the handoff has moved since: the caller that settled the waiting
// steps at that move has not seen this one.
func (s *Logs) Await(ctx context.Context, h federation.Pending, after federation.Version) error {
	ready, err := Prepare(h.Event)
	if err != nil {
		return fmt.Errorf("hold %s: %w", h.Event.ID, err)
	}
	err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		var version federation.Version
		err := q.Row(ctx, `SELECT version FROM handoff WHERE id = ?`, []any{h.Event.Handoff.String()}, &version)
		if err != nil && !errors.Is(err, federation.ErrNotFound) {
			return fmt.Errorf("read handoff: %w", err)
		}
		if version != after {
			return federation.ErrStale
		}
		if evidence := h.Event.Evidence; evidence != nil && evidence.Bytes != nil {
			if err := KeepEvidence(ctx, q, h.Event.Handoff, *evidence); err != nil {
				return err
			}
		}
		return q.Put(ctx, `INSERT INTO pending (home, handoff, signer, id, digest, since, body)
			VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			string(h.Home), h.Event.Handoff.String(), h.Event.From, h.Event.ID.String(), ready.Digest[:], engine.Stamp(h.Since), string(ready.Body))
	})
	if err != nil {
		return fmt.Errorf("hold %s: %w", h.Event.ID, err)
	}
	return nil
}

// Awaiting returns up to limit steps that wait for a home, oldest first.
func (s *Logs) Awaiting(ctx context.Context, home federation.HomeID, limit int) ([]federation.Pending, error) {
	held, err := engine.Rows(ctx, s.db.Reads(), scanPending, `SELECT home, since, body FROM pending WHERE home = ? ORDER BY seq`+engine.AtMost, string(home), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what waits for %s: %w", home, err)
	}
	return held, nil
}

// AwaitingIn returns all steps that wait in one handoff, oldest first.
func (s *Logs) AwaitingIn(ctx context.Context, id federation.HandoffID) ([]federation.Pending, error) {
	held, err := engine.Rows(ctx, s.db.Reads(), scanPending, `SELECT home, since, body FROM pending WHERE handoff = ? ORDER BY seq`, id.String())
	if err != nil {
		return nil, fmt.Errorf("read what waits in %s: %w", id, err)
	}
	return held, nil
}

func scanPending(row engine.Scanner) (federation.Pending, error) {
	var h federation.Pending
	var home string
	var since int64
	var body []byte
	err := row.Scan(&home, &since, &body)
	if err == nil {
		h.Event, err = DecodeEvent(body)
	}
	h.Home, h.Since = federation.HomeID(home), engine.Moment(since)
	return h, err
}

// Ruled ends the wait of a step. One that does not wait is no error.
func (s *Logs) Ruled(ctx context.Context, id federation.HandoffID, from federation.DID, event federation.EventID) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error { return ReleasePending(ctx, q, id, from, event) })
	if err != nil {
		return fmt.Errorf("release %s: %w", event, err)
	}
	return nil
}

// ReleasePending ends the wait of a step.
func ReleasePending(ctx context.Context, q engine.Tx, id federation.HandoffID, from federation.DID, event federation.EventID) error {
	return q.Put(ctx, `DELETE FROM pending WHERE handoff = ? AND signer = ? AND id = ?`, id.String(), from, event.String())
}
