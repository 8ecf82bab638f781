package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
)

// Consent implements [federation.Registry].
func (s *SQLite) Consent(ctx context.Context, from, to string) (federation.Consent, error) {
	edge, err := consent(ctx, s.reads, from, to)
	if err != nil {
		return federation.Consent{}, fmt.Errorf("read consent %s to %s: %w", from, to, err)
	}
	return edge, nil
}

func consent(ctx context.Context, q *statements, from, to string) (federation.Consent, error) {
	edge := federation.Consent{From: from, To: to, State: federation.ConsentNone}
	var updated int64
	err := q.row(ctx, `SELECT state, updated, version FROM consent WHERE sender = ? AND recipient = ?`,
		[]any{from, to}, &edge.State, &updated, &edge.Version)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return federation.Consent{}, err
	}
	edge.Updated = moment(updated)
	return edge, nil
}

// setConsent changes an edge. One that is in that state stays as it is.
func setConsent(ctx context.Context, q *statements, from, to string, state federation.ConsentState, now time.Time) error {
	_, err := q.exec(ctx, `INSERT INTO consent (sender, recipient, state, updated, version) VALUES (?, ?, ?, ?, 1)
		ON CONFLICT DO UPDATE SET state = excluded.state, updated = excluded.updated, version = version + 1
		WHERE state <> excluded.state`, from, to, state, stamp(now))
	if err != nil {
		return fmt.Errorf("write consent: %w", err)
	}
	return nil
}

// Accept implements [federation.Registry]. An accepted edge holds nothing, so
// what was held on the way back is delivered too. A way back that its own
// recipient blocked stays blocked: that is not for the other one to undo.
func (s *SQLite) Accept(ctx context.Context, from, to string, now time.Time) (federation.Consent, error) {
	return s.decide(ctx, from, to, func(ctx context.Context, q *statements) error {
		if err := accept(ctx, q, from, to, now); err != nil {
			return err
		}
		back, err := consent(ctx, q, to, from)
		if err != nil || back.State == federation.ConsentBlocked {
			return err
		}
		return accept(ctx, q, to, from, now)
	})
}

// accept opens one edge and delivers what was held on it, in the order it came.
func accept(ctx context.Context, q *statements, from, to string, now time.Time) error {
	if err := setConsent(ctx, q, from, to, federation.ConsentAccepted, now); err != nil {
		return err
	}
	held, err := rows(ctx, q, scanOne[int64], `SELECT n FROM message WHERE edge = ? AND recipient = ? ORDER BY n`, from, to)
	if err != nil {
		return fmt.Errorf("read held messages: %w", err)
	}
	for _, n := range held {
		if _, err := deliver(ctx, q, n); err != nil {
			return err
		}
	}
	return nil
}

// Block implements [federation.Registry].
func (s *SQLite) Block(ctx context.Context, from, to string, now time.Time) (federation.Consent, error) {
	return s.decide(ctx, from, to, func(ctx context.Context, q *statements) error {
		if err := setConsent(ctx, q, from, to, federation.ConsentBlocked, now); err != nil {
			return err
		}
		_, err := q.exec(ctx, `DELETE FROM message WHERE edge = ? AND recipient = ?`, from, to)
		return err
	})
}

// decide applies a decision about an edge and returns the edge after it.
func (s *SQLite) decide(ctx context.Context, from, to string, decision func(context.Context, *statements) error) (federation.Consent, error) {
	var edge federation.Consent
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		if err := decision(ctx, q); err != nil {
			return err
		}
		var err error
		edge, err = consent(ctx, q, from, to)
		return err
	})
	if err != nil {
		return federation.Consent{}, fmt.Errorf("decide consent %s to %s: %w", from, to, err)
	}
	return edge, nil
}
