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

// OwnKeys returns the newest mark of each name, ordered by name.
func (s *Participants) OwnKeys(ctx context.Context) ([]federation.KeyMark, error) {
	marks, err := ReadOwnKeys(ctx, s.db.Reads())
	if err != nil {
		return nil, fmt.Errorf("read own keys: %w", err)
	}
	return marks, nil
}

// ReadOwnKeys returns the keys that the record was written with.
func ReadOwnKeys(ctx context.Context, q engine.Tx) ([]federation.KeyMark, error) {
	scan := func(row engine.Scanner) (m federation.KeyMark, err error) {
		var since int64
		err = row.Scan(&m.Name, &m.Fingerprint, &since)
		m.Since = engine.Moment(since)
		return m, err
	}
	return engine.Rows(ctx, q, scan, `SELECT name, fingerprint, since FROM own_key WHERE name > '' ORDER BY name`)
}

// MarkOwnKeys notes the keys of the writers of the record from now on. A mark equal to the newest
// of its name keeps its time.
func (s *Participants) MarkOwnKeys(ctx context.Context, marks []federation.KeyMark) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		for _, m := range marks {
			err := q.Put(ctx, `INSERT INTO own_key (name, fingerprint, since) VALUES (?, ?, ?)
				ON CONFLICT (name) DO UPDATE SET fingerprint = excluded.fingerprint, since = excluded.since
				WHERE own_key.fingerprint <> excluded.fingerprint`, m.Name, m.Fingerprint, engine.Stamp(m.Since))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("mark own keys: %w", err)
	}
	return nil
}

// Used reports whether the record holds a handoff or an agent.
func (s *Participants) Used(ctx context.Context) (bool, error) {
	var used bool
	err := s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1 FROM handoff WHERE id > '') OR `+s.db.Parts.Used, nil, &used)
	if err != nil {
		return false, fmt.Errorf("look for handoffs and participants: %w", err)
	}
	return used, nil
}
