package store

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"

	"baton/federation"
)

// AddAgent implements [federation.Registry].
func (s *SQLite) AddAgent(ctx context.Context, a federation.Agent) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("add agent %s: %w", a.Handle, err)
	}
	// To the end, even where the caller leaves: the directory must learn of it after it
	// was written.
	err := s.write(context.WithoutCancel(ctx), func(ctx context.Context, q *statements) error { return addAgent(ctx, q, a) })
	s.directory.forget()
	if err != nil {
		return fmt.Errorf("add agent %s: %w", a.Handle, err)
	}
	return nil
}

func addAgent(ctx context.Context, q *statements, a federation.Agent) error {
	var n int64
	err := q.row(ctx, `INSERT INTO agent (handle, did, own_did, capabilities, metadata, registered, kept_key)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (handle) DO NOTHING RETURNING n`,
		[]any{
			a.Handle, a.DID, a.OwnDID, []byte(a.Capabilities), []byte(a.Metadata), stamp(a.Registered), notNull(a.KeptKey),
		}, &n)
	if errors.Is(err, federation.ErrNotFound) {
		return federation.ErrTaken
	}
	if err != nil {
		return err
	}
	_, err = q.exec(ctx, `INSERT INTO agent_skill (skill, agent)
		SELECT DISTINCT value, ? FROM json_each(?, '$.skills') WHERE type = 'text'`, n, orNull(string(a.Capabilities)))
	if err != nil {
		return err
	}
	for i, key := range a.Keys {
		_, err := q.exec(ctx, `INSERT INTO agent_key (handle, n, id, public, created) VALUES (?, ?, ?, ?, ?)`,
			a.Handle, i, key.ID, notNull(key.Public), stamp(key.Created))
		if err != nil {
			return err
		}
		if err := ownKey(ctx, q, key.Public, a.OwnDID); err != nil {
			return err
		}
	}
	return ownKey(ctx, q, a.KeptKey, a.DID)
}

// Agent implements [federation.Registry].
func (s *SQLite) Agent(ctx context.Context, handle string) (federation.Agent, error) {
	return s.oneAgent(ctx, `handle = ?1`, handle)
}

// AgentOf implements [federation.Registry]. Of several handles with one key it
// returns the oldest.
func (s *SQLite) AgentOf(ctx context.Context, did federation.DID) (federation.Agent, error) {
	return s.directory.find(ctx, did, func(ctx context.Context, did federation.DID) (federation.Agent, error) {
		return s.oneAgent(ctx, `did = ?1 OR own_did = ?1`, string(did))
	})
}

func (s *SQLite) oneAgent(ctx context.Context, where, arg string) (federation.Agent, error) {
	found, err := s.agents(ctx, where+` ORDER BY n LIMIT 1`, arg)
	if err == nil && len(found) == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return federation.Agent{}, fmt.Errorf("read agent %s: %w", arg, err)
	}
	return found[0], nil
}

// Capable implements [federation.Registry]. The agents come in the order in which
// they registered.
func (s *SQLite) Capable(ctx context.Context, caps []string) ([]federation.Agent, error) {
	wanted, err := json.Marshal(caps)
	if err != nil {
		return nil, fmt.Errorf("look for agents: %w", err)
	}
	able, err := s.agents(ctx, `n IN (SELECT agent FROM agent_skill JOIN (SELECT DISTINCT value FROM json_each(?1)) ON skill = value
		GROUP BY agent HAVING count(*) = (SELECT count(DISTINCT value) FROM json_each(?1))) ORDER BY n`, string(wanted))
	if err != nil {
		return nil, fmt.Errorf("look for agents: %w", err)
	}
	return able, nil
}

// agents reads the agents that the rest of a query finds, with their keys.
func (s *SQLite) agents(ctx context.Context, where, arg string) ([]federation.Agent, error) {
	found, err := rows(ctx, s.reads, scanAgent, `SELECT handle, did, own_did, capabilities, metadata, registered, kept_key
		FROM agent WHERE `+where, arg)
	if err != nil {
		return nil, err
	}
	for i, a := range found {
		found[i].Keys, err = rows(ctx, s.reads, scanAgentKey, `SELECT id, public, created FROM agent_key
			WHERE handle = ? ORDER BY n`, a.Handle)
		if err != nil {
			return nil, fmt.Errorf("read keys of agent %s: %w", a.Handle, err)
		}
	}
	return found, nil
}

func scanAgent(row scanner) (federation.Agent, error) {
	var a federation.Agent
	var capabilities, metadata, kept []byte
	var registered int64
	err := row.Scan(&a.Handle, &a.DID, &a.OwnDID, &capabilities, &metadata, &registered, &kept)
	a.Capabilities, a.Metadata = json.RawMessage(capabilities), json.RawMessage(metadata)
	a.Registered, a.KeptKey = moment(registered), ed25519.PublicKey(kept)
	return a, err
}

func scanAgentKey(row scanner) (federation.AgentKey, error) {
	var key federation.AgentKey
	var public []byte
	var created int64
	err := row.Scan(&key.ID, &public, &created)
	key.Public, key.Created = ed25519.PublicKey(public), moment(created)
	return key, err
}
