package participants

import (
	"context"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
)

// Learn implements [federation.Keys].
func (s *Participants) Learn(ctx context.Context, report federation.KeyReport) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		kept, err := history(ctx, q, report.DID)
		if err != nil {
			return err
		}
		changed, err := report.Apply(kept)
		if err != nil {
			return err
		}
		for _, w := range changed {
			if err := PutWindow(ctx, q, w); err != nil {
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
func (s *Participants) Revoke(ctx context.Context, did federation.DID, keyID string, at time.Time) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return PutWindow(ctx, q, federation.KeyWindow{
			DID: did, KeyID: keyID, Origin: federation.RevokedKey, Since: at, Seen: at,
		})
	})
	if err != nil {
		return fmt.Errorf("revoke key %s of %s: %w", keyID, did, err)
	}
	return nil
}

// History implements [federation.Keys].
func (s *Participants) History(ctx context.Context, did federation.DID) (federation.KeyHistory, error) {
	windows, err := history(ctx, s.db.Reads(), did)
	if err != nil {
		return nil, fmt.Errorf("read keys of %s: %w", did, err)
	}
	return windows, nil
}

func history(ctx context.Context, q engine.Tx, did federation.DID) (federation.KeyHistory, error) {
	return engine.Rows(ctx, q, scanWindow, `SELECT did, key_id, origin, via, since, seen, until, public FROM key_window
		WHERE did = ? ORDER BY since, key_id, origin, via`, did)
}

func scanWindow(row engine.Scanner) (federation.KeyWindow, error) {
	var w federation.KeyWindow
	var since, seen, until int64
	var public []byte
	err := row.Scan(&w.DID, &w.KeyID, &w.Origin, &w.Via, &since, &seen, &until, &public)
	w.Since, w.Seen, w.Until, w.Public = engine.Moment(since), engine.Moment(seen), engine.Moment(until), public
	return w, err
}

// PutWindow records the validity period of a key in the history of a DID. If the key is revoked, it
// also ends everything that the DID began with the key.
func PutWindow(ctx context.Context, q engine.Tx, w federation.KeyWindow) error {
	err := q.Put(ctx, `INSERT INTO key_window (did, key_id, origin, via, since, seen, until, public)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (did, key_id, origin, via, since) DO UPDATE SET seen = excluded.seen, until = excluded.until`,
		w.DID, w.KeyID, w.Origin, w.Via, engine.Stamp(w.Since), engine.Stamp(w.Seen), engine.Stamp(w.Until), engine.NotNull(w.Public))
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	if w.Origin != federation.RevokedKey {
		return nil
	}
	if err := EndKey(ctx, q, []string{string(w.DID)}, w.KeyID, w.Since, w.Seen); err != nil {
		return fmt.Errorf("end what began with the key: %w", err)
	}
	return nil
}
