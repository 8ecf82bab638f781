package participants

import (
	"context"
	"fmt"

	"baton/federation"
	"baton/federation/store/engine"
)

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
