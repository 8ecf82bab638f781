package store

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"

	"baton/federation"
)

// AddAgent implements [federation.Registry].
func (s *SQLite) AddAgent(ctx context.Context, a federation.Agent) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error { return addAgent(ctx, q, a) })
	if err != nil {
		return fmt.Errorf("add agent %s: %w", a.Handle, err)
	}
	return nil
}

func addAgent(ctx context.Context, q *statements, a federation.Agent) error {
	added, err := q.exec(ctx, `INSERT INTO agent (handle, did, own_did, capabilities, metadata, registered, kept_key)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (handle) DO NOTHING`,
		a.Handle, a.DID, a.OwnDID, []byte(a.Capabilities), []byte(a.Metadata), stamp(a.Registered), notNull(a.KeptKey))
	if err != nil {
		return err
	}
	if added == 0 {
		return federation.ErrTaken
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
	return s.oneAgent(ctx, `did = ?1 OR own_did = ?1`, string(did))
}

func (s *SQLite) oneAgent(ctx context.Context, where, arg string) (federation.Agent, error) {
	var a federation.Agent
	var capabilities, metadata, kept []byte
	var registered int64
	err := s.reads.row(ctx, `SELECT handle, did, own_did, capabilities, metadata, registered, kept_key
		FROM agent WHERE `+where+` ORDER BY n LIMIT 1`, []any{arg},
		&a.Handle, &a.DID, &a.OwnDID, &capabilities, &metadata, &registered, &kept)
	if err != nil {
		return federation.Agent{}, fmt.Errorf("read agent %s: %w", arg, err)
	}
	a.Capabilities, a.Metadata = json.RawMessage(capabilities), json.RawMessage(metadata)
	a.Registered, a.KeptKey = moment(registered), ed25519.PublicKey(kept)
	a.Keys, err = rows(ctx, s.reads, scanAgentKey, `SELECT id, public, created FROM agent_key
		WHERE handle = ? ORDER BY n`, a.Handle)
	if err != nil {
		return federation.Agent{}, fmt.Errorf("read keys of agent %s: %w", a.Handle, err)
	}
	return a, nil
}

func scanAgentKey(row scanner) (federation.AgentKey, error) {
	var key federation.AgentKey
	var public []byte
	var created int64
	err := row.Scan(&key.ID, &public, &created)
	key.Public, key.Created = ed25519.PublicKey(public), moment(created)
	return key, err
}
