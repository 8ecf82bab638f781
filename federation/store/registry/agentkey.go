package registry

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store/engine"
	"baton/federation/store/participants"
)

// addKey files the n-th key of an agent, without its DID where another agent has that.
func addKey(ctx context.Context, q engine.Tx, handle string, n int, key agents.Key) error {
	key, err := unowned(ctx, q, key)
	if err != nil {
		return err
	}
	err = q.Put(ctx, `INSERT INTO agent_key (handle, n, id, did, public, created, expires) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		handle, n, key.ID, key.DID, engine.NotNull(key.Public), engine.Stamp(key.Created), engine.Stamp(key.Expires))
	if err != nil {
		return err
	}
	return ownProved(ctx, q, key)
}

// unowned returns a key without its DID where an agent has that already.
func unowned(ctx context.Context, q engine.Tx, key agents.Key) (agents.Key, error) {
	var owned bool
	err := q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM agent_key WHERE did = ?1 AND did <> '')
		OR EXISTS (SELECT 1 FROM agent WHERE did = ?1)`, []any{key.DID}, &owned)
	if owned {
		key.DID = ""
	}
	return key, err
}

// ownProved notes what follows from a proved key: that it is of its DID, and when it
// ends for that DID.
func ownProved(ctx context.Context, q engine.Tx, key agents.Key) error {
	if !key.Proved() {
		return nil
	}
	for _, end := range []time.Time{key.Expires, key.Revoked} {
		if end.IsZero() {
			continue
		}
		if err := endKey(ctx, q, key, end, key.Created); err != nil {
			return err
		}
	}
	return participants.OwnKey(ctx, q, key.Public, key.DID)
}

// endKey notes the end of a key in the history of its DID. A key that was not proved has
// no DID, and no part in any history.
func endKey(ctx context.Context, q engine.Tx, key agents.Key, end, seen time.Time) error {
	if !key.Proved() {
		return nil
	}
	return participants.PutWindow(ctx, q, key.EndWindow(end, seen))
}

// keyScan collects the columns of one key.
type keyScan struct {
	n                         int // negative where there is no key
	key                       agents.Key
	public                    []byte
	created, expires, revoked int64
}

func (s *keyScan) dest() []any {
	return []any{&s.n, &s.key.ID, &s.key.DID, &s.public, &s.created, &s.expires, &s.revoked, &s.key.Reason}
}

func (s *keyScan) read() agents.Key {
	s.key.Public, s.key.Created = ed25519.PublicKey(s.public), engine.Moment(s.created)
	s.key.Expires, s.key.Revoked = engine.Moment(s.expires), engine.Moment(s.revoked)
	return s.key
}

// RotateKey implements the port Keys of bridge/airc.
func (s *Registry) RotateKey(ctx context.Context, handle, by string, key agents.Key, now, until time.Time) (agents.Agent, error) {
	return s.changeKeys(ctx, handle, by, now, func(ctx context.Context, q engine.Tx, a agents.Agent) error {
		if slices.ContainsFunc(a.Keys, func(k agents.Key) bool { return k.ID == key.ID || k.Public.Equal(key.Public) }) {
			return federation.ErrTaken
		}
		if err := forgetKey(ctx, q, a, now); err != nil {
			return err
		}
		if err := endKeys(ctx, q, a, now, until); err != nil {
			return err
		}
		key, err := unproved(ctx, q, key)
		if err != nil {
			return err
		}
		var last int
		if err := q.Row(ctx, `SELECT coalesce(max(n), -1) FROM agent_key WHERE handle = ?`, []any{handle}, &last); err != nil {
			return err
		}
		if err := addKey(ctx, q, handle, last+1, key); err != nil {
			return err
		}
		return setOwnDID(ctx, q, a, key)
	})
}

// unproved returns a key without its DID where that is an agent's, signed a filed step or
// has a session: its owner proved it, and the proof in a rotation names no handle.
func unproved(ctx context.Context, q engine.Tx, key agents.Key) (agents.Key, error) {
	var elsewhere bool
	err := q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM binding WHERE did = ?1) OR EXISTS (SELECT 1 FROM session WHERE participant = ?1)`,
		[]any{key.DID}, &elsewhere)
	if err != nil || elsewhere {
		key.DID = ""
		return key, err
	}
	return unowned(ctx, q, key)
}

// endKeys ends the keys of an agent that have no end yet or a later one.
func endKeys(ctx context.Context, q engine.Tx, a agents.Agent, now, until time.Time) error {
	for _, key := range a.Keys {
		if !key.Revoked.IsZero() && !key.Revoked.After(until) {
			continue
		}
		if err := q.Put(ctx, `UPDATE agent_key SET revoked = ? WHERE handle = ? AND id = ?`, engine.Stamp(until), a.Handle, key.ID); err != nil {
			return err
		}
		if err := endUse(ctx, q, a, key, until, now); err != nil {
			return err
		}
	}
	return nil
}

// endUse ends a key of an agent, and everything the agent began with it.
func endUse(ctx context.Context, q engine.Tx, a agents.Agent, key agents.Key, end, now time.Time) error {
	if err := endKey(ctx, q, key, end, now); err != nil {
		return err
	}
	return participants.EndKey(ctx, q, []string{a.Handle, string(a.DID)}, federation.KeyID(key.Public), end, now)
}

// forgetKey makes room for a key of an agent that has as many as it may. There is
// always one to forget: all but the active one end within the overlap of a rotation,
// and rotations are rarer than that allows.
func forgetKey(ctx context.Context, q engine.Tx, a agents.Agent, now time.Time) error {
	if len(a.Keys) < agents.MaxKeys {
		return nil
	}
	i := slices.IndexFunc(a.Keys, func(k agents.Key) bool { return !k.Signs(now) })
	if i < 0 {
		return &federation.RefusalError{Code: federation.QuotaExceeded, Detail: "the agent has too many keys that are good"}
	}
	return q.Put(ctx, `DELETE FROM agent_key WHERE handle = ? AND id = ?`, a.Handle, a.Keys[i].ID)
}

// setOwnDID notes the DID of the primary key of an agent.
func setOwnDID(ctx context.Context, q engine.Tx, a agents.Agent, primary agents.Key) error {
	return q.Put(ctx, `UPDATE agent SET own_did = ? WHERE handle = ?`, cmp.Or(primary.DID, a.DID), a.Handle)
}

// RevokeKey implements the port Keys of bridge/airc.
func (s *Registry) RevokeKey(ctx context.Context, handle, by, kid, reason string, now time.Time) (agents.Agent, error) {
	return s.changeKeys(ctx, handle, by, now, func(ctx context.Context, q engine.Tx, a agents.Agent) error {
		key := a.Key(kid)
		switch {
		case key.ID == "":
			return federation.ErrNotFound
		case key.Status(now) == agents.KeyStatusRevoked:
			return nil
		}
		err := q.Put(ctx, `UPDATE agent_key SET revoked = ?, reason = ? WHERE handle = ? AND id = ?`,
			engine.Stamp(now), reason, handle, kid)
		if err == nil {
			err = endUse(ctx, q, a, key, now, now)
		}
		if err != nil || key.Status(now) != agents.KeyStatusActive {
			return err
		}
		return succeed(ctx, q, a, kid, now)
	})
}

// succeed puts the newest key that still signs in the place of a revoked one, and
// ends the sessions of an agent that has none.
func succeed(ctx context.Context, q engine.Tx, a agents.Agent, revoked string, now time.Time) error {
	for _, key := range slices.Backward(a.Keys) {
		if key.ID == revoked || !key.Signs(now) {
			continue
		}
		if err := q.Put(ctx, `UPDATE agent_key SET revoked = 0 WHERE handle = ? AND id = ?`, a.Handle, key.ID); err != nil {
			return err
		}
		err := q.Put(ctx, `DELETE FROM key_window WHERE did = ? AND key_id = ? AND origin = ? AND since = ?`,
			key.DID, federation.KeyID(key.Public), federation.RevokedKey, engine.Stamp(key.Revoked))
		if err != nil {
			return err
		}
		if err := participants.RestoreKey(ctx, q, []string{a.Handle, string(a.DID), string(key.DID)}, key.Revoked); err != nil {
			return err
		}
		return setOwnDID(ctx, q, a, key)
	}
	return participants.EndSessions(ctx, q, a.Handle)
}

// changeKeys changes the keys of an agent by the signature of one of them, and returns the
// agent after the change.
func (s *Registry) changeKeys(
	ctx context.Context, handle, by string, now time.Time, change func(context.Context, engine.Tx, agents.Agent) error,
) (agents.Agent, error) {
	var after agents.Agent
	err := s.change(ctx, func(ctx context.Context, q engine.Tx) error {
		before, err := oneAgent(ctx, q, `handle = ?1`, handle)
		if err != nil {
			return err
		}
		if by != "" && (before.Key(by).ID == "" || before.Key(by).Status(now) != agents.KeyStatusActive) {
			return federation.ErrStale
		}
		if err := change(ctx, q, before); err != nil {
			return err
		}
		after, err = oneAgent(ctx, q, `handle = ?1`, handle)
		return err
	})
	if err != nil {
		return agents.Agent{}, fmt.Errorf("change keys of %s: %w", handle, err)
	}
	return after, nil
}
