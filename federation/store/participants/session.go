package participants

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
)

// StartSession implements [federationtest.Sessions].
func (s *Participants) StartSession(ctx context.Context, session federation.Session) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO session (id, participant, generation, expires) VALUES (?, ?, ?, ?)`,
			session.ID, session.Participant, session.Generation, engine.Stamp(session.Expires))
	})
	if err != nil {
		return fmt.Errorf("start session of %s: %w", session.Participant, err)
	}
	return nil
}

// HasSession implements [federationtest.Sessions].
func (s *Participants) HasSession(ctx context.Context, participant string, now time.Time) (has bool, err error) {
	err = s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1 FROM session WHERE participant = ? AND expires > ?)`,
		[]any{participant, engine.Stamp(now)}, &has)
	if err != nil {
		return false, fmt.Errorf("look for a session of %s: %w", participant, err)
	}
	return has, nil
}

// AdvanceSession implements [federationtest.Sessions]. It is also where expired
// families are swept out, whosesoever they are.
func (s *Participants) AdvanceSession(ctx context.Context, id string, generation uint64, now, expires time.Time) (federation.Session, error) {
	session, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (federation.Session, error) {
		if err := q.Put(ctx, `DELETE FROM session WHERE expires <= ?`, engine.Stamp(now)); err != nil {
			return federation.Session{}, err
		}
		next := federation.Session{ID: id, Generation: generation + 1, Expires: engine.Moment(engine.Stamp(expires))}
		err := q.Row(ctx, `UPDATE session SET generation = ?, expires = ? WHERE id = ? AND generation = ? RETURNING participant`,
			[]any{next.Generation, engine.Stamp(expires), id, generation}, &next.Participant)
		if !errors.Is(err, federation.ErrNotFound) {
			return next, err
		}
		ended, err := q.Exec(ctx, `DELETE FROM session WHERE id = ?`, id)
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
func EndSessions(ctx context.Context, t engine.Tx, participant string) error {
	_, err := t.Exec(ctx, `DELETE FROM session WHERE participant = ?`, participant)
	return err
}
