package registry

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/participants"
)

// AddAgent implements Agents of bridge/airc.
func (s *Registry) AddAgent(ctx context.Context, a agents.Agent) error {
	err := s.change(ctx, func(ctx context.Context, q engine.Tx) error { return addAgent(ctx, q, a) })
	if err != nil {
		return fmt.Errorf("add agent %s: %w", a.Handle, err)
	}
	return nil
}

func addAgent(ctx context.Context, q engine.Tx, a agents.Agent) error {
	if !a.Account.Since.IsZero() {
		var used bool
		err := q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM agent WHERE issuer = ? AND issuer <> '' AND subject = ? AND registered >= ?)`,
			[]any{a.Account.Issuer, a.Account.Subject, engine.Stamp(a.Account.Since)}, &used)
		if err == nil && used {
			err = federation.ErrTokenUsed
		}
		if err != nil {
			return err
		}
	}
	for _, key := range a.Keys {
		free, err := unowned(ctx, q, key)
		if err != nil {
			return err
		}
		if !free.Proved() && a.OwnDID == key.DID {
			a.OwnDID = a.DID
		}
	}
	switch holder, err := participants.HolderOf(ctx, q, a.Handle, a.Registered); {
	case err == nil && !a.Is(holder):
		return federation.ErrTaken
	case err != nil && !errors.Is(err, federation.ErrNotFound):
		return err
	}
	var n int64
	err := q.Row(ctx, `INSERT INTO agent (handle, did, own_did, capabilities, metadata, registered, kept_key,
		shows_presence, shows_context, issuer, subject, began, recovery) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (handle) DO UPDATE SET own_did = excluded.own_did, capabilities = excluded.capabilities, metadata = excluded.metadata,
			registered = excluded.registered, shows_presence = excluded.shows_presence, shows_context = excluded.shows_context,
			issuer = excluded.issuer, subject = excluded.subject, began = excluded.began, recovery = excluded.recovery, released = 0
			WHERE agent.released > 0 RETURNING n`,
		[]any{
			a.Handle, a.DID, a.OwnDID, []byte(a.Capabilities), []byte(a.Metadata), engine.Stamp(a.Registered), engine.NotNull(a.KeptKey),
			a.Shows.Presence, a.Shows.Context, a.Account.Issuer, a.Account.Subject, string(a.Began), []byte(a.Recovery),
		}, &n)
	if errors.Is(err, federation.ErrNotFound) {
		return federation.ErrTaken
	}
	if err != nil {
		return err
	}
	for _, skill := range skills(a.Capabilities) {
		err := q.Put(ctx, `INSERT INTO agent_skill (skill, agent) VALUES (?, ?) ON CONFLICT DO NOTHING`, skill, n)
		if err != nil {
			return err
		}
	}
	for i, key := range a.Keys {
		if err := addKey(ctx, q, a.Handle, i, key); err != nil {
			return err
		}
	}
	if len(a.KeptKey) == 0 {
		return nil
	}
	return participants.OwnKey(ctx, q, federation.KeptKey{ID: federation.KeyID(a.KeptKey), Owner: a.DID})
}

func skills(capabilities []byte) []string {
	var declared map[string]json.RawMessage
	var list []any
	if federation.DecodeJSON(capabilities, &declared) != nil || federation.DecodeJSON(declared["skills"], &list) != nil {
		return nil
	}
	var named []string
	for _, one := range list {
		if skill, ok := one.(string); ok {
			named = append(named, skill)
		}
	}
	return named
}

type agentName struct {
	handle string
	did    federation.DID
}

// Agent implements Agents of bridge/airc.
func (s *Registry) Agent(ctx context.Context, handle string) (agents.Agent, error) {
	return s.agents.Find(agentName{handle: handle}, func() (agents.Agent, error) {
		return s.oneAgent(ctx, `handle = ?1`, handle)
	})
}

// AgentOf implements Agents of bridge/airc. If several handles have the key, it returns the oldest.
func (s *Registry) AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error) {
	if did == "" { // as for unproved keys
		return agents.Agent{}, fmt.Errorf("read agent without a DID: %w", federation.ErrNotFound)
	}
	return s.agents.Find(agentName{did: did}, func() (agents.Agent, error) {
		return s.oneAgent(ctx, `did = ?1 OR own_did = ?1 OR handle IN (SELECT handle FROM agent_key WHERE did = ?1)`, string(did))
	})
}

func (s *Registry) oneAgent(ctx context.Context, where, arg string) (agents.Agent, error) {
	agent, err := oneAgent(ctx, s.db.Reads(), where, arg)
	if err != nil {
		return agents.Agent{}, fmt.Errorf("read agent %s: %w", arg, err)
	}
	return agent, nil
}

func oneAgent(ctx context.Context, q engine.Tx, where, arg string) (agents.Agent, error) {
	found, err := agentsWhere(ctx, q, where+` ORDER BY n LIMIT 1`, arg)
	switch {
	case err != nil:
		return agents.Agent{}, err
	case len(found) == 0:
		return agents.Agent{}, federation.ErrNotFound
	}
	return found[0], nil
}

// Capable implements Agents of bridge/airc. The agents are ordered by registration.
func (s *Registry) Capable(ctx context.Context, caps []string) ([]agents.Agent, error) {
	wanted, err := json.Marshal(caps)
	if err != nil {
		return nil, fmt.Errorf("look for agents: %w", err)
	}
	able, err := agentsWhere(ctx, s.db.Reads(), `n IN (SELECT agent FROM agent_skill JOIN (SELECT DISTINCT value FROM json_each(?1)) wanted ON skill = value
		GROUP BY agent HAVING count(*) = (SELECT count(DISTINCT value) FROM json_each(?1))) ORDER BY n`, string(wanted))
	if err != nil {
		return nil, fmt.Errorf("look for agents: %w", err)
	}
	return able, nil
}

// Handles returns up to limit handles that begin with a prefix, in order, with their DIDs.
func (s *Registry) Handles(ctx context.Context, prefix string, limit int) ([]federation.BoundName, error) {
	scan := func(row engine.Scanner) (federation.BoundName, error) {
		b := federation.BoundName{Network: agents.Link}
		return b, row.Scan(&b.Name, &b.DID)
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT handle, did FROM agent
		WHERE handle >= ?1 AND handle < ?1 || '~' AND released = 0 ORDER BY handle`+engine.AtMost, prefix, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("look for agents: %w", err)
	}
	return found, nil
}

// SetShows implements Agents of bridge/airc.
func (s *Registry) SetShows(ctx context.Context, handle string, shows agents.Shows) error {
	err := s.change(ctx, func(ctx context.Context, q engine.Tx) error {
		changed, err := q.Exec(ctx, `UPDATE agent SET shows_presence = ?, shows_context = ? WHERE handle = ?`,
			shows.Presence, shows.Context, handle)
		if err == nil && changed == 0 {
			err = federation.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("set presence visibility of %s: %w", handle, err)
	}
	return nil
}

// The agents are ordered by registration.
func agentsWhere(ctx context.Context, q engine.Tx, where, arg string) ([]agents.Agent, error) {
	rows, err := engine.Rows(ctx, q, scanAgent, `SELECT a.handle, a.did, a.own_did, a.capabilities, a.metadata, a.registered, a.kept_key,
			a.shows_presence, a.shows_context, a.issuer, a.subject, a.released, a.began, a.recovery,
			coalesce(k.n, -1), coalesce(k.id, ''), coalesce(k.did, ''), k.public, coalesce(k.created, 0), coalesce(k.expires, 0), coalesce(k.revoked, 0), coalesce(k.reason, '')
		FROM (SELECT * FROM agent WHERE `+where+`) a LEFT JOIN agent_key k ON k.handle = a.handle ORDER BY a.n, k.n`, arg)
	if err != nil {
		return nil, err
	}
	var found []agents.Agent
	for _, row := range rows {
		if last := len(found) - 1; last >= 0 && found[last].Handle == row.Handle {
			found[last].Keys = append(found[last].Keys, row.Keys...)
			continue
		}
		found = append(found, row)
	}
	return found, nil
}

func scanAgent(row engine.Scanner) (agents.Agent, error) {
	var a agents.Agent
	var capabilities, metadata, kept, recovery []byte
	var registered, released int64
	var key keyScan
	err := row.Scan(append([]any{
		&a.Handle, &a.DID, &a.OwnDID, &capabilities, &metadata, &registered, &kept,
		&a.Shows.Presence, &a.Shows.Context, &a.Account.Issuer, &a.Account.Subject, &released, &a.Began, &recovery,
	}, []any{&key.n, &key.key.ID, &key.key.DID, &key.public, &key.created, &key.expires, &key.revoked, &key.key.Reason}...)...)
	a.Capabilities, a.Metadata = json.RawMessage(capabilities), json.RawMessage(metadata)
	a.Registered, a.Released, a.KeptKey, a.Recovery = engine.Moment(registered), engine.Moment(released), ed25519.PublicKey(kept), ed25519.PublicKey(recovery)
	if key.n >= 0 {
		key.key.Public, key.key.Created = ed25519.PublicKey(key.public), engine.Moment(key.created)
		key.key.Expires, key.key.Revoked = engine.Moment(key.expires), engine.Moment(key.revoked)
		a.Keys = []agents.Key{key.key}
	}
	return a, err
}

// The DID is omitted if another agent already has it.
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

func unowned(ctx context.Context, q engine.Tx, key agents.Key) (agents.Key, error) {
	var owned bool
	err := q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM agent_key WHERE did = ?1 AND did <> '')
		OR EXISTS (SELECT 1 FROM agent WHERE did = ?1)`, []any{key.DID}, &owned)
	if owned {
		key.DID = ""
	}
	return key, err
}

// ownProved records the consequences of a proved key: its DID, and the end of the key for that
// DID.
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
	return participants.OwnKey(ctx, q, federation.KeptKey{ID: federation.KeyID(key.Public), Owner: key.DID})
}

// An unproved key has no DID and no history.
func endKey(ctx context.Context, q engine.Tx, key agents.Key, end, seen time.Time) error {
	if !key.Proved() {
		return nil
	}
	return participants.PutWindow(ctx, q, key.EndWindow(end, seen))
}

type keyScan struct {
	n                         int // negative without a key
	key                       agents.Key
	public                    []byte
	created, expires, revoked int64
}

// RotateKey implements Keys of bridge/airc.
func (s *Registry) RotateKey(ctx context.Context, handle, by string, key agents.Key, now, until time.Time) (agents.Agent, error) {
	return s.changeKeys(ctx, handle, by, now, func(ctx context.Context, q engine.Tx, a agents.Agent) error {
		if slices.ContainsFunc(a.Keys, func(k agents.Key) bool { return k.ID == key.ID || k.Public.Equal(key.Public) }) {
			return federation.ErrTaken
		}
		if err := forgetKey(ctx, q, a, now); err != nil {
			return err
		}
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

// The DID is removed if it has an agent, a filed step or a session. Then its owner has proved it,
// and the proof in a rotation has no handle.
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

func endUse(ctx context.Context, q engine.Tx, a agents.Agent, key agents.Key, end, now time.Time) error {
	if err := endKey(ctx, q, key, end, now); err != nil {
		return err
	}
	return participants.EndKey(ctx, q, []string{a.Handle, string(a.DID)}, federation.KeyID(key.Public), end, now)
}

// There is always a key to delete at the limit, because all keys except the active one end within
// the overlap of a rotation, and rotations are rate-limited.
func forgetKey(ctx context.Context, q engine.Tx, a agents.Agent, now time.Time) error {
	if len(a.Keys) < agents.MaxKeys {
		return nil
	}
	i := slices.IndexFunc(a.Keys, func(k agents.Key) bool { return !k.Signs(now) })
	if i < 0 {
		return &federation.RefusalError{Code: federation.QuotaExceeded, Detail: "the agent has too many active keys"}
	}
	return q.Put(ctx, `DELETE FROM agent_key WHERE handle = ? AND id = ?`, a.Handle, a.Keys[i].ID)
}

func setOwnDID(ctx context.Context, q engine.Tx, a agents.Agent, primary agents.Key) error {
	return q.Put(ctx, `UPDATE agent SET own_did = ? WHERE handle = ?`, cmp.Or(primary.DID, a.DID), a.Handle)
}

// RevokeKey implements Keys of bridge/airc.
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

// The successor is the newest key that still signs. Without one, the sessions of the agent end.
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

// ProveKey implements Keys of bridge/airc.
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

// Unproved returns up to limit handles of local agents with active unproved keys, in order, and
// their total number.
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
