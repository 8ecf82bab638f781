package registry

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store/engine"
	"baton/federation/store/participants"
)

// AddAgent implements the port Agents of bridge/airc.
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
	return participants.OwnKey(ctx, q, a.KeptKey, a.DID)
}

// skills returns what an agent says it can do: the strings in "skills" of what it
// registered.
func skills(capabilities []byte) []string {
	var declared map[string]json.RawMessage
	var list []any
	if federation.DecodeJSON(capabilities, &declared) != nil || federation.DecodeJSON(declared["skills"], &list) != nil {
		return nil // registered without any
	}
	var named []string
	for _, one := range list {
		if skill, ok := one.(string); ok {
			named = append(named, skill)
		}
	}
	return named
}

// agentName is what an agent is looked up by: one of the two.
type agentName struct {
	handle string
	did    federation.DID
}

// Agent implements the port Agents of bridge/airc.
func (s *Registry) Agent(ctx context.Context, handle string) (agents.Agent, error) {
	return s.agents.Find(agentName{handle: handle}, func() (agents.Agent, error) {
		return s.oneAgent(ctx, `handle = ?1`, handle)
	})
}

// AgentOf implements the port Agents of bridge/airc. Of several handles with one key it
// returns the oldest.
func (s *Registry) AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error) {
	if did == "" { // as keys have that were not proved
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

// Capable implements the port Agents of bridge/airc. The agents come in the order in which
// they registered.
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

// SetShows implements the port Agents of bridge/airc.
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
		return fmt.Errorf("set what %s shows: %w", handle, err)
	}
	return nil
}

// agentsWhere reads the agents that the rest of a query finds, in the order in which they
// registered, with their keys: a row for each key, and one for an agent without keys.
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

// scanAgent reads an agent with one of its keys.
func scanAgent(row engine.Scanner) (agents.Agent, error) {
	var a agents.Agent
	var capabilities, metadata, kept, recovery []byte
	var registered, released int64
	var key keyScan
	err := row.Scan(append([]any{
		&a.Handle, &a.DID, &a.OwnDID, &capabilities, &metadata, &registered, &kept,
		&a.Shows.Presence, &a.Shows.Context, &a.Account.Issuer, &a.Account.Subject, &released, &a.Began, &recovery,
	}, key.dest()...)...)
	a.Capabilities, a.Metadata = json.RawMessage(capabilities), json.RawMessage(metadata)
	a.Registered, a.Released, a.KeptKey, a.Recovery = engine.Moment(registered), engine.Moment(released), ed25519.PublicKey(kept), ed25519.PublicKey(recovery)
	if key.n >= 0 {
		a.Keys = []agents.Key{key.read()}
	}
	return a, err
}
