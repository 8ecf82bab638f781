package store

import (
	"context"
	"fmt"
	"time"

	"baton/federation"
)

// Learn implements [federation.Keys].
func (s *Record) Learn(ctx context.Context, report federation.KeyReport) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		kept, err := history(ctx, q, report.DID)
		if err != nil {
			return err
		}
		changed, err := report.Apply(kept)
		if err != nil {
			return err
		}
		for _, w := range changed {
			if err := putWindow(ctx, q, w); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("learn keys of %s: %w", report.DID, err)
	}
	return nil
}

// Revoke implements [federation.Keys].
func (s *Record) Revoke(ctx context.Context, did federation.DID, keyID string, at time.Time) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		return putWindow(ctx, q, federation.KeyWindow{
			DID: did, KeyID: keyID, Origin: federation.RevokedKey, Since: at, Seen: at,
		})
	})
	if err != nil {
		return fmt.Errorf("revoke key %s of %s: %w", keyID, did, err)
	}
	return nil
}

// History implements [federation.Keys].
func (s *Record) History(ctx context.Context, did federation.DID) (federation.KeyHistory, error) {
	windows, err := history(ctx, s.reads, did)
	if err != nil {
		return nil, fmt.Errorf("read keys of %s: %w", did, err)
	}
	return windows, nil
}

func history(ctx context.Context, q *statements, did federation.DID) (federation.KeyHistory, error) {
	return rows(ctx, q, scanWindow, `SELECT did, key_id, origin, via, since, seen, until, public FROM key_window
		WHERE did = ? ORDER BY since, key_id, origin, via`, did)
}

func scanWindow(row scanner) (federation.KeyWindow, error) {
	var w federation.KeyWindow
	var since, seen, until int64
	var public []byte
	err := row.Scan(&w.DID, &w.KeyID, &w.Origin, &w.Via, &since, &seen, &until, &public)
	w.Since, w.Seen, w.Until, w.Public = moment(since), moment(seen), moment(until), public
	return w, err
}

func putWindow(ctx context.Context, q *statements, w federation.KeyWindow) error {
	_, err := q.exec(ctx, `INSERT INTO key_window (did, key_id, origin, via, since, seen, until, public)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (did, key_id, origin, via, since) DO UPDATE SET seen = excluded.seen, until = excluded.until`,
		w.DID, w.KeyID, w.Origin, w.Via, stamp(w.Since), stamp(w.Seen), stamp(w.Until), notNull(w.Public))
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	return nil
}
