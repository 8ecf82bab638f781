package homes

import (
	"context"
	"encoding/json"
	"fmt"

	"baton/federation"
	"baton/federation/store/engine"
)

// KeepFork keeps a proof. Of one handoff the first is kept.
func (s *Homes) KeepFork(ctx context.Context, f federation.Fork) error {
	first, err := json.Marshal(f.First)
	if err != nil {
		return fmt.Errorf("keep fork of %s: %w", f.Handoff, err)
	}
	second, err := json.Marshal(f.Second)
	if err != nil {
		return fmt.Errorf("keep fork of %s: %w", f.Handoff, err)
	}
	err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO fork (handoff, home, version, first, second, found) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			f.Handoff.String(), string(f.Home), f.Version, string(first), string(second), engine.Stamp(f.Found))
	})
	if err != nil {
		return fmt.Errorf("keep fork of %s: %w", f.Handoff, err)
	}
	return nil
}

// Forks returns up to limit proofs against a home, newest first.
func (s *Homes) Forks(ctx context.Context, home federation.HomeID, limit int) ([]federation.Fork, error) {
	scan := func(row engine.Scanner) (f federation.Fork, err error) {
		var handoff string
		var first, second []byte
		var found int64
		if err := row.Scan(&handoff, &f.Version, &first, &second, &found); err != nil {
			return f, err
		}
		f.Home, f.Found = home, engine.Moment(found)
		if f.Handoff, err = federation.ParseEventID(handoff); err != nil {
			return f, err
		}
		if err := federation.DecodeJSON(first, &f.First); err != nil {
			return f, err
		}
		return f, federation.DecodeJSON(second, &f.Second)
	}
	forks, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT handoff, version, first, second, found FROM fork
		WHERE home = ? ORDER BY found DESC, handoff`+engine.AtMost, string(home), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read forks of %s: %w", home, err)
	}
	return forks, nil
}

// Forked reports whether there is proof that a handoff has two histories.
func (s *Homes) Forked(ctx context.Context, id federation.HandoffID) (forked bool, err error) {
	if err := s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1 FROM fork WHERE handoff = ?)`, []any{id.String()}, &forked); err != nil {
		return false, fmt.Errorf("look for forks of %s: %w", id, err)
	}
	return forked, nil
}
