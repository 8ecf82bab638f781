package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store/engine"
)

// Consent implements the port Consents of bridge/airc.
func (s *Registry) Consent(ctx context.Context, from, to string) (agents.Consent, error) {
	edge, err := consent(ctx, s.db.Reads(), from, to)
	if err != nil {
		return agents.Consent{}, fmt.Errorf("read consent %s to %s: %w", from, to, err)
	}
	return edge, nil
}

func consent(ctx context.Context, q engine.Tx, from, to string) (agents.Consent, error) {
	edge := agents.Consent{From: from, To: to, State: agents.ConsentNone}
	var updated, barred int64
	err := q.Row(ctx, `SELECT state, updated, version, barred FROM consent WHERE sender = ? AND recipient = ?`,
		[]any{from, to}, &edge.State, &updated, &edge.Version, &barred)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return agents.Consent{}, err
	}
	edge.Updated, edge.Barred = engine.Moment(updated), engine.Moment(barred)
	return edge, nil
}

// setConsent changes an edge. One that is in that state stays as it is.
func setConsent(ctx context.Context, q engine.Tx, from, to string, state agents.ConsentState, now time.Time) error {
	err := q.Put(ctx, `INSERT INTO consent (sender, recipient, state, updated, version) VALUES (?, ?, ?, ?, 1)
		ON CONFLICT (sender, recipient) DO UPDATE SET state = excluded.state, updated = excluded.updated, version = consent.version + 1
		WHERE consent.state <> excluded.state`, from, to, state, engine.Stamp(now))
	if err != nil {
		return fmt.Errorf("write consent: %w", err)
	}
	return nil
}

// Accept implements the port Consents of bridge/airc. An accepted edge holds no message, so
// the messages held on the way back are delivered too. A way back that its own recipient
// blocked stays blocked: only that recipient may unblock it.
func (s *Registry) Accept(ctx context.Context, from, to string, now time.Time) (agents.Consent, error) {
	return s.decide(ctx, from, to, func(ctx context.Context, q engine.Tx) error {
		if err := accept(ctx, q, from, to, now); err != nil {
			return err
		}
		back, err := consent(ctx, q, to, from)
		if err != nil || back.State == agents.ConsentBlocked {
			return err
		}
		return accept(ctx, q, to, from, now)
	})
}

// AcceptOneWay implements the port Consents of bridge/airc.
func (s *Registry) AcceptOneWay(ctx context.Context, from, to string, now time.Time) (agents.Consent, error) {
	return s.decide(ctx, from, to, func(ctx context.Context, q engine.Tx) error { return accept(ctx, q, from, to, now) })
}

// accept opens one edge and delivers what was held on it, in the order it came. Messages to a
// participant of another network stay held: they are no message of an inbox here.
func accept(ctx context.Context, q engine.Tx, from, to string, now time.Time) error {
	if err := setConsent(ctx, q, from, to, agents.ConsentAccepted, now); err != nil {
		return err
	}
	if err := q.Put(ctx, `UPDATE consent SET barred = 0 WHERE sender = ? AND recipient = ?`, from, to); err != nil {
		return fmt.Errorf("write consent: %w", err)
	}
	if !agents.ReadHere(to) {
		return nil
	}
	waiting, err := engine.Rows(ctx, q, scanHeld, `SELECT n, low, high FROM message WHERE edge = ? AND recipient = ? ORDER BY n`, from, to)
	if err != nil {
		return fmt.Errorf("read held messages: %w", err)
	}
	for _, h := range waiting {
		if err := deliver(ctx, q, h, to, now); err != nil {
			return err
		}
		err := q.Put(ctx, `DELETE FROM unseen WHERE handoff = (SELECT handoff FROM message WHERE n = ? AND event = handoff)`, h.n)
		if err != nil {
			return fmt.Errorf("note seen offer: %w", err)
		}
	}
	return nil
}

// Block implements the port Consents of bridge/airc.
func (s *Registry) Block(ctx context.Context, from, to string, now time.Time) (agents.Consent, error) {
	return s.decide(ctx, from, to, func(ctx context.Context, q engine.Tx) error {
		before, err := consent(ctx, q, from, to)
		if err != nil || before.State == agents.ConsentBlocked {
			return err
		}
		if err := setConsent(ctx, q, from, to, agents.ConsentBlocked, now); err != nil {
			return err
		}
		err = q.Put(ctx, `UPDATE consent SET answered = ? WHERE sender = ? AND recipient = ?`,
			before.State == agents.ConsentPending, from, to)
		if err != nil {
			return err
		}
		return discard(ctx, q, from, to)
	})
}

// discard throws away what is held on an edge.
func discard(ctx context.Context, q engine.Tx, from, to string) error {
	return q.Put(ctx, `DELETE FROM message WHERE edge = ? AND recipient = ?`, from, to)
}

// Unblock implements the port Consents of bridge/airc.
func (s *Registry) Unblock(ctx context.Context, from, to string, now time.Time) (agents.Consent, error) {
	return s.decide(ctx, from, to, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `UPDATE consent SET state = ?, updated = ?, version = version + 1, answered = 0,
			barred = CASE answered WHEN 0 THEN barred ELSE ? END WHERE sender = ? AND recipient = ? AND state = ?`,
			agents.ConsentNone, engine.Stamp(now), engine.Stamp(now.Add(agents.UnblockBar)), from, to, agents.ConsentBlocked)
	})
}

// Contacts implements the port Consents of bridge/airc.
func (s *Registry) Contacts(ctx context.Context, handle string, limit int) ([]string, error) {
	contacts, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[string], `SELECT c.recipient FROM consent c
		JOIN consent back ON back.sender = c.recipient AND back.recipient = c.sender
		WHERE c.sender = ? AND c.state = 'accepted' AND back.state = 'accepted' ORDER BY c.recipient`+engine.AtMost, handle, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read contacts of %s: %w", handle, err)
	}
	return contacts, nil
}

// Pending implements the port Consents of bridge/airc.
func (s *Registry) Pending(ctx context.Context, to string, limit int) ([]agents.Consent, error) {
	scan := func(row engine.Scanner) (agents.Consent, error) {
		edge := agents.Consent{To: to, State: agents.ConsentPending}
		var updated int64
		err := row.Scan(&edge.From, &updated, &edge.Version)
		edge.Updated = engine.Moment(updated)
		return edge, err
	}
	pending, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT sender, updated, version FROM consent
		WHERE recipient = ? AND state = 'pending' ORDER BY asked, sender`+engine.AtMost, to, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read requests to %s: %w", to, err)
	}
	return pending, nil
}

// Edges implements the port Consents of bridge/airc.
func (s *Registry) Edges(ctx context.Context, to, after string, limit int) ([]agents.Consent, error) {
	scan := func(row engine.Scanner) (agents.Consent, error) {
		edge := agents.Consent{To: to}
		var updated, barred int64
		err := row.Scan(&edge.From, &edge.State, &updated, &edge.Version, &barred)
		edge.Updated, edge.Barred = engine.Moment(updated), engine.Moment(barred)
		return edge, err
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT sender, state, updated, version, barred FROM consent
		WHERE recipient = ? AND sender > ? AND state <> 'none' ORDER BY sender`+engine.AtMost, to, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read senders to %s: %w", to, err)
	}
	return found, nil
}

// decide applies a decision about an edge and returns the edge after it.
func (s *Registry) decide(ctx context.Context, from, to string, decision func(context.Context, engine.Tx) error) (agents.Consent, error) {
	edge, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (agents.Consent, error) {
		if err := decision(ctx, q); err != nil {
			return agents.Consent{}, err
		}
		return consent(ctx, q, from, to)
	})
	if err != nil {
		return agents.Consent{}, fmt.Errorf("decide consent %s to %s: %w", from, to, err)
	}
	return edge, nil
}
