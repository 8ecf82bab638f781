package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
)

// StartSession implements [federationtest.Sessions].
func (s *Record) StartSession(ctx context.Context, session federation.Session) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		_, err := q.exec(ctx, `INSERT INTO session (id, participant, generation, expires) VALUES (?, ?, ?, ?)`,
			session.ID, session.Participant, session.Generation, stamp(session.Expires))
		return err
	})
	if err != nil {
		return fmt.Errorf("start session of %s: %w", session.Participant, err)
	}
	return nil
}

// AdvanceSession implements [federationtest.Sessions]. It is also where expired
// families are swept out, whosesoever they are.
func (s *Record) AdvanceSession(ctx context.Context, id string, generation uint64, now, expires time.Time) (federation.Session, error) {
	session, err := written(ctx, s, func(ctx context.Context, q *statements) (federation.Session, error) {
		if _, err := q.exec(ctx, `DELETE FROM session WHERE expires <= ?`, stamp(now)); err != nil {
			return federation.Session{}, err
		}
		next := federation.Session{ID: id, Generation: generation + 1, Expires: moment(stamp(expires))}
		err := q.row(ctx, `UPDATE session SET generation = ?, expires = ? WHERE id = ? AND generation = ? RETURNING participant`,
			[]any{next.Generation, stamp(expires), id, generation}, &next.Participant)
		if !errors.Is(err, federation.ErrNotFound) {
			return next, err
		}
		ended, err := q.exec(ctx, `DELETE FROM session WHERE id = ?`, id)
		if err == nil && ended == 0 {
			err = federation.ErrNotFound
		}
		return federation.Session{}, err // no error where it ended one, which would undo the end of the family
	})
	if err == nil && session.ID == "" {
		err = federation.ErrTokenUsed
	}
	if err != nil {
		return federation.Session{}, fmt.Errorf("advance session: %w", err)
	}
	return session, nil
}

// EndSessions ends the sessions of a participant.
func EndSessions(ctx context.Context, t Tx, participant string) error {
	_, err := t.Exec(ctx, `DELETE FROM session WHERE participant = ?`, participant)
	return err
}
