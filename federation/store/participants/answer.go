package participants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
)

const answerColumns = `did, key, digest, event, status, body, at`

func scanAnswer(row engine.Scanner) (a federation.Answer, err error) {
	var digest []byte
	var event string
	var at int64
	if err := row.Scan(&a.DID, &a.Key, &digest, &event, &a.Status, &a.Body, &at); err != nil {
		return federation.Answer{}, err
	}
	copy(a.Digest[:], digest)
	a.At = engine.Moment(at)
	return a, a.Event.UnmarshalText([]byte(event))
}

// Reserve files an answer unless there is one with its key, and returns the answer on file.
func (s *Participants) Reserve(ctx context.Context, a federation.Answer) (federation.Answer, error) {
	found, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) ([]federation.Answer, error) {
		err := q.Put(ctx, `INSERT INTO answer (`+answerColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (did, key) DO NOTHING`,
			a.DID, a.Key, a.Digest[:], a.Event.String(), a.Status, a.Body, engine.Stamp(a.At))
		if err != nil {
			return nil, err
		}
		return engine.Rows(ctx, q, scanAnswer, `SELECT `+answerColumns+` FROM answer WHERE did = ? AND key = ?`, a.DID, a.Key)
	})
	if err == nil && len(found) != 1 {
		err = errors.New("it is not there")
	}
	if err != nil {
		return federation.Answer{}, fmt.Errorf("reserve answer: %w", err)
	}
	return found[0], nil
}

// Answered puts an answer in the place of the one with its key.
func (s *Participants) Answered(ctx context.Context, a federation.Answer) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO answer (`+answerColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (did, key) DO UPDATE SET digest = excluded.digest, event = excluded.event, status = excluded.status, body = excluded.body, at = excluded.at`,
			a.DID, a.Key, a.Digest[:], a.Event.String(), a.Status, a.Body, engine.Stamp(a.At))
	})
	if err != nil {
		return fmt.Errorf("file answer: %w", err)
	}
	return nil
}

// PruneAnswers forgets up to limit answers of a time or before.
func (s *Participants) PruneAnswers(ctx context.Context, before time.Time, limit int) (int, error) {
	gone, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int64, error) {
		return q.Exec(ctx, `DELETE FROM answer WHERE (did, key) IN (SELECT did, key FROM answer WHERE at <= ? ORDER BY at`+engine.AtMost+`)`, engine.Stamp(before), max(limit, 0))
	})
	if err != nil {
		return 0, fmt.Errorf("prune answers: %w", err)
	}
	return int(gone), nil
}

// Declare replaces the declared capabilities of a DID.
func (s *Participants) Declare(ctx context.Context, did federation.DID, caps []string, now time.Time) error {
	text, err := json.Marshal(caps)
	if err == nil {
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
			return q.Put(ctx, `INSERT INTO declaration (did, caps, at) VALUES (?, ?, ?)
				ON CONFLICT (did) DO UPDATE SET caps = excluded.caps, at = excluded.at`, did, string(text), engine.Stamp(now))
		})
	}
	if err != nil {
		return fmt.Errorf("declare for %s: %w", did, err)
	}
	return nil
}

// Declaration returns the declared capabilities of a DID, nil for none.
func (s *Participants) Declaration(ctx context.Context, did federation.DID) ([]string, error) {
	var text string
	err := s.db.Reads().Row(ctx, `SELECT caps FROM declaration WHERE did = ?`, []any{did}, &text)
	if errors.Is(err, federation.ErrNotFound) {
		return nil, nil
	}
	var caps []string
	if err == nil {
		err = federation.DecodeJSON([]byte(text), &caps)
	}
	if err != nil {
		return nil, fmt.Errorf("read declaration of %s: %w", did, err)
	}
	return caps, nil
}
