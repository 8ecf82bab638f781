package handoffs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// KeepPending stores a step with its evidence, once per [federation.Event.Digest]. It returns
// [federation.ErrStale] if the handoff has changed since the judgement, because the pending steps
// were settled without it.
func (s *Logs) KeepPending(ctx context.Context, h federation.Pending, after federation.Version) error {
	body, err := encodeWhole(h.Event)
	if err != nil {
		return fmt.Errorf("hold %s: %w", h.Event.ID, err)
	}
	digest := h.Event.Digest()
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
			string(h.Home), h.Event.Handoff.String(), h.Event.From, h.Event.ID.String(), digest[:], engine.Stamp(h.Since), string(body))
	})
	if err != nil {
		return fmt.Errorf("hold %s: %w", h.Event.ID, err)
	}
	return nil
}

// ListPending returns up to limit steps pending at a home, oldest first.
func (s *Logs) ListPending(ctx context.Context, home federation.HomeID, limit int) ([]federation.Pending, error) {
	held, err := engine.Rows(ctx, s.db.Reads(), scanPending, `SELECT home, since, body FROM pending WHERE home = ? ORDER BY seq`+engine.AtMost, string(home), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read pending steps of home %s: %w", home, err)
	}
	return held, nil
}

// ListPendingIn returns all pending steps of one handoff, oldest first.
func (s *Logs) ListPendingIn(ctx context.Context, id federation.HandoffID) ([]federation.Pending, error) {
	held, err := engine.Rows(ctx, s.db.Reads(), scanPending, `SELECT home, since, body FROM pending WHERE handoff = ? ORDER BY seq`, id.String())
	if err != nil {
		return nil, fmt.Errorf("read pending steps of %s: %w", id, err)
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

// ResolvePending ends the pending state of a step, if it is pending.
func (s *Logs) ResolvePending(ctx context.Context, id federation.HandoffID, from federation.DID, event federation.EventID) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error { return ReleasePending(ctx, q, id, from, event) })
	if err != nil {
		return fmt.Errorf("release %s: %w", event, err)
	}
	return nil
}

// ReleasePending is ResolvePending within the transaction of a write.
func ReleasePending(ctx context.Context, q engine.Tx, id federation.HandoffID, from federation.DID, event federation.EventID) error {
	return q.Put(ctx, `DELETE FROM pending WHERE handoff = ? AND signer = ? AND id = ?`, id.String(), from, event.String())
}

const deferredColumns = `n, origin, since, tried, next, reason, body`

func scanDeferred(row engine.Scanner) (federation.Deferred, error) {
	var d federation.Deferred
	var since, next int64
	var body []byte
	err := row.Scan(&d.Row, &d.Origin, &since, &d.Tried, &next, &d.Reason, &body)
	if err == nil {
		d.Event, err = DecodeEvent(body)
	}
	d.Since, d.Next = engine.Moment(since), engine.Moment(next)
	return d, err
}

// Defer stores a step with its evidence and sets its Row. A repeated step is stored once, and is
// returned unchanged. Above the limits, Defer returns [federation.ErrDeferralFull] and stores
// nothing.
func (s *Logs) Defer(ctx context.Context, d federation.Deferred, limits federation.DeferralLimits) (federation.Deferred, error) {
	body, err := encodeWhole(d.Event)
	if err != nil {
		return federation.Deferred{}, fmt.Errorf("defer %s: %w", d.Event.ID, err)
	}
	kept, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (federation.Deferred, error) {
		q.Then(s.deferred.ForgetAll)
		return deferStep(ctx, q, d, body, limits)
	})
	if err != nil {
		return federation.Deferred{}, fmt.Errorf("defer %s: %w", d.Event.ID, err)
	}
	return kept, nil
}

func deferStep(ctx context.Context, q engine.Tx, d federation.Deferred, body []byte, limits federation.DeferralLimits) (federation.Deferred, error) {
	digest := d.Event.Digest()
	waiting, err := engine.Rows(ctx, q, scanDeferred, `SELECT `+deferredColumns+` FROM deferred WHERE signer = ? AND digest = ? AND signature = ?`,
		d.Event.From, digest[:], d.Event.Signature.Text)
	if err != nil {
		return d, err
	}
	if len(waiting) > 0 {
		return waiting[0], nil
	}
	if err := deferralQuota(ctx, q, d, limits); err != nil {
		return d, err
	}
	if evidence := d.Event.Evidence; evidence != nil && evidence.Bytes != nil {
		if err := KeepEvidence(ctx, q, d.Event.Handoff, *evidence); err != nil {
			return d, err
		}
		bare := *evidence
		bare.Bytes = nil
		d.Event.Evidence = &bare
	}
	err = q.Row(ctx, `INSERT INTO deferred (origin, network, handoff, signer, id, digest, signature, since, next, reason, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING n`,
		[]any{
			d.Origin, d.Event.Arrival.Network, d.Event.Handoff.String(), d.Event.From, d.Event.ID.String(), digest[:],
			d.Event.Signature.Text, engine.Stamp(d.Since), engine.Stamp(d.Next), d.Reason, string(body),
		}, &d.Row)
	if err != nil {
		return d, err
	}
	d.Since, d.Next = engine.Moment(engine.Stamp(d.Since)), engine.Moment(engine.Stamp(d.Next))
	return d, countDeferred(ctx, q, d.Origin, d.Event.Arrival.Network, 1)
}

func deferralQuota(ctx context.Context, q engine.Tx, d federation.Deferred, limits federation.DeferralLimits) error {
	var ofOrigin, all int
	err := q.Row(ctx, `SELECT coalesce((SELECT steps FROM deferred_count WHERE origin = ?), 0),
		coalesce((SELECT steps FROM deferred_count WHERE origin = ''), 0)`, []any{d.Origin}, &ofOrigin, &all)
	switch {
	case err != nil:
		return err
	case limits.PerOrigin > 0 && ofOrigin >= limits.PerOrigin, limits.Total > 0 && all >= limits.Total:
		return federation.ErrDeferralFull
	case limits.PerUser == 0 || d.Event.Arrival.Name == "" || ofOrigin < limits.PerUser:
		return nil
	}
	var ofUser int
	err = q.Row(ctx, `SELECT count(*) FROM deferred WHERE origin = ? AND body -> 'arrival' ->> 'name' = ?`,
		[]any{d.Origin, d.Event.Arrival.Name}, &ofUser)
	if err == nil && ofUser >= limits.PerUser {
		return federation.ErrDeferralFull
	}
	return err
}

func countDeferred(ctx context.Context, q engine.Tx, origin, network string, change int) error {
	return q.Put(ctx, `INSERT INTO deferred_count (origin, network, steps) VALUES (?1, ?2, ?3), ('', '', ?3)
		ON CONFLICT (origin) DO UPDATE SET steps = deferred_count.steps + excluded.steps`, origin, network, change)
}

// DeferredIn returns all deferred steps of one handoff, in order of arrival.
func (s *Logs) DeferredIn(ctx context.Context, id federation.HandoffID) ([]federation.Deferred, error) {
	if some, err := s.mayBeDeferred(ctx); !some || err != nil {
		return nil, err
	}
	waiting, err := engine.Rows(ctx, s.db.Reads(), scanDeferred, `SELECT `+deferredColumns+` FROM deferred WHERE handoff = ? ORDER BY n`, id.String())
	if err != nil {
		return nil, fmt.Errorf("read deferred steps of %s: %w", id, err)
	}
	return waiting, nil
}

// The answer is cached, because each new step checks for earlier ones, and usually there is none.
func (s *Logs) mayBeDeferred(ctx context.Context) (bool, error) {
	if s.deferred.Off() {
		return true, nil
	}
	some, err := s.deferred.Find(struct{}{}, func() (some bool, err error) {
		err = s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1 FROM deferred WHERE n > 0)`, nil, &some)
		return some, err
	})
	if err != nil {
		return false, fmt.Errorf("find deferred steps: %w", err)
	}
	return some, nil
}

// DeferredDue returns up to limit handoffs with a deferred step due at or before a given time,
// longest due first.
func (s *Logs) DeferredDue(ctx context.Context, at time.Time, limit int) ([]federation.HandoffID, error) {
	due, err := engine.Rows(ctx, s.db.Reads(), ScanHandoffID, `SELECT handoff FROM deferred d WHERE next <= ?
		AND NOT EXISTS (SELECT 1 FROM deferred e WHERE e.handoff = d.handoff AND (e.next, e.n) < (d.next, d.n))
		ORDER BY next, n`+engine.AtMost, engine.Stamp(at), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what is to be judged again: %w", err)
	}
	return due, nil
}

// DeferredStep returns the first deferred step with an event ID, or [federation.ErrNotFound].
func (s *Logs) DeferredStep(ctx context.Context, id federation.EventID) (federation.Deferred, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanDeferred, `SELECT `+deferredColumns+` FROM deferred WHERE id = ? ORDER BY n LIMIT 1`, id.String())
	if err == nil && len(found) == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return federation.Deferred{}, fmt.Errorf("read deferred %s: %w", id, err)
	}
	return found[0], nil
}

// DeferAgain records why a step could not be judged again, and the time of the next attempt. It
// ignores a step whose deferral has ended.
func (s *Logs) DeferAgain(ctx context.Context, row int64, next time.Time, reason string) error {
	return s.deferral(ctx, "put off", `UPDATE deferred SET tried = tried + 1, next = ?, reason = ? WHERE n = ?`, engine.Stamp(next), reason, row)
}

// HastenDeferred makes the steps of a signer due at the given time, unless they are due earlier.
func (s *Logs) HastenDeferred(ctx context.Context, signer federation.DID, at time.Time) error {
	return s.deferral(ctx, "hasten", `UPDATE deferred SET next = ?1 WHERE signer = ?2 AND next > ?1`, engine.Stamp(at), signer)
}

func (s *Logs) deferral(ctx context.Context, what, query string, args ...any) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, query, args...)
	})
	if err != nil {
		return fmt.Errorf("%s deferred steps: %w", what, err)
	}
	return nil
}

// EndDeferral ends the deferral of a step, if it is deferred. The evidence of a step whose handoff
// was never opened is deleted with the last deferred step of that handoff.
func (s *Logs) EndDeferral(ctx context.Context, row int64) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return s.DropDeferral(ctx, q, row)
	})
	if err != nil {
		return fmt.Errorf("release deferred step: %w", err)
	}
	return nil
}

// DropDeferral is EndDeferral within the transaction of a write.
func (s *Logs) DropDeferral(ctx context.Context, q engine.Tx, row int64) error {
	q.Then(s.deferred.ForgetAll)
	var handoff, origin, network string
	err := q.Row(ctx, `DELETE FROM deferred WHERE n = ? RETURNING handoff, origin, network`, []any{row}, &handoff, &origin, &network)
	if errors.Is(err, federation.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := countDeferred(ctx, q, origin, network, -1); err != nil {
		return err
	}
	return q.Put(ctx, `DELETE FROM evidence WHERE handoff = ?1 AND NOT EXISTS (SELECT 1 FROM handoff WHERE id = ?1)
		AND NOT EXISTS (SELECT 1 FROM deferred WHERE handoff = ?1)`, handoff)
}

// CountDeferred counts the deferred steps by their network.
func (s *Logs) CountDeferred(ctx context.Context) (map[string]int, error) {
	type count struct {
		network string
		steps   int
	}
	scan := func(row engine.Scanner) (c count, err error) {
		err = row.Scan(&c.network, &c.steps)
		return c, err
	}
	counts, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT network, steps FROM deferred_count WHERE origin > '' ORDER BY origin`)
	if err != nil {
		return nil, fmt.Errorf("count deferred steps: %w", err)
	}
	of := map[string]int{}
	for _, c := range counts {
		if c.steps > 0 {
			of[c.network] += c.steps
		}
	}
	return of, nil
}
