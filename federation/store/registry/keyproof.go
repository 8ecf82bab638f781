package registry

import (
	"context"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store/engine"
)

// ProveKey implements the port Keys of bridge/airc.
func (s *Registry) ProveKey(ctx context.Context, handle, kid string, did federation.DID, now time.Time) (agents.Agent, error) {
	return s.changeKeys(ctx, handle, "", now, func(ctx context.Context, q engine.Tx, a agents.Agent) error {
		key := a.Key(kid)
		switch {
		case key.ID == "":
			return federation.ErrNotFound
		case key.Proved():
			return nil
		}
		key.DID = did
		key, err := unowned(ctx, q, key)
		if err != nil || !key.Proved() {
			return err
		}
		if err := q.Put(ctx, `UPDATE agent_key SET did = ? WHERE handle = ? AND id = ?`, did, handle, kid); err != nil {
			return err
		}
		if a.Primary(now).ID == kid {
			if err := setOwnDID(ctx, q, a, key); err != nil {
				return err
			}
		}
		return ownProved(ctx, q, key)
	})
}

// Unproved returns up to limit handles of agents of this registry with keys that sign now
// and were not proved, in their order, and how many there are in all. Agents of other
// registries have addresses for handles, and no keys here.
func (s *Registry) Unproved(ctx context.Context, now time.Time, limit int) (handles []string, total int, err error) {
	const which = `FROM agent_key WHERE did = '' AND (revoked = 0 OR revoked > ?1) AND (expires = 0 OR expires > ?1)`
	if err := s.db.Reads().Row(ctx, `SELECT count(DISTINCT handle) `+which, []any{engine.Stamp(now)}, &total); err != nil {
		return nil, 0, fmt.Errorf("count agents without a proved key: %w", err)
	}
	scan := func(row engine.Scanner) (handle string, err error) { err = row.Scan(&handle); return handle, err }
	handles, err = engine.Rows(ctx, s.db.Reads(), scan, `SELECT DISTINCT handle `+which+` ORDER BY handle LIMIT 0 + ?2`, engine.Stamp(now), limit)
	if err != nil {
		return nil, 0, fmt.Errorf("list agents without a proved key: %w", err)
	}
	return handles, total, nil
}
