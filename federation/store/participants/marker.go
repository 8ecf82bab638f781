package participants

import (
	"context"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// KeepMarker records the time up to which a DID has read a channel or a correspondent, and returns
// the stored time. A marker never moves backwards. A DID keeps its newest [federation.MaxMarkers]
// markers.
func (s *Participants) KeepMarker(ctx context.Context, did federation.DID, target string, at time.Time) (time.Time, error) {
	kept, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (kept int64, err error) {
		err = q.Put(ctx, `INSERT INTO marker (did, target, at) VALUES (?, ?, ?) ON CONFLICT (did, target) DO UPDATE SET at = excluded.at WHERE marker.at < excluded.at`,
			did, target, engine.Stamp(at))
		if err != nil {
			return 0, err
		}
		err = q.Put(ctx, `DELETE FROM marker WHERE did = ?1 AND target <> ?2 AND target NOT IN (SELECT target FROM marker WHERE did = ?1 ORDER BY at DESC, target LIMIT 0 + ?3)`,
			did, target, federation.MaxMarkers)
		if err != nil {
			return 0, err
		}
		err = q.Row(ctx, `SELECT at FROM marker WHERE did = ? AND target = ?`, []any{did, target}, &kept)
		return kept, err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("keep read marker of %s: %w", did, err)
	}
	return engine.Moment(kept), nil
}

// Markers returns the time up to which a DID has read each target.
func (s *Participants) Markers(ctx context.Context, did federation.DID) (map[string]time.Time, error) {
	markers := map[string]time.Time{}
	scan := func(row engine.Scanner) (string, error) {
		var target string
		var at int64
		err := row.Scan(&target, &at)
		markers[target] = engine.Moment(at)
		return target, err
	}
	if _, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT target, at FROM marker WHERE did = ?`, did); err != nil {
		return nil, fmt.Errorf("read markers of %s: %w", did, err)
	}
	return markers, nil
}
