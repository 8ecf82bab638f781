package federationtest

import (
	"context"
	"maps"
	"slices"
	"time"

	"baton/federation"
)

// RotateKey implements [federation.Registry].
func (m *Memory) RotateKey(ctx context.Context, handle, by string, key federation.AgentKey, now, until time.Time) (federation.Agent, error) {
	return m.changeKeys(ctx, handle, by, now, func(a *federation.Agent) error {
		if slices.ContainsFunc(a.Keys, func(k federation.AgentKey) bool { return k.ID == key.ID || k.Public.Equal(key.Public) }) {
			return federation.ErrTaken
		}
		if len(a.Keys) >= federation.MaxAgentKeys {
			i := slices.IndexFunc(a.Keys, func(k federation.AgentKey) bool { return !k.Signs(now) })
			if i < 0 {
				return &federation.RefusalError{Code: federation.QuotaExceeded, Detail: "the agent has too many keys that are good"}
			}
			a.Keys = slices.Delete(a.Keys, i, i+1)
		}
		for i := range a.Keys {
			if a.Keys[i].Revoked.IsZero() {
				a.Keys[i].Revoked = until
				m.putWindow(a.Keys[i].EndWindow(until, now))
			}
		}
		a.Keys, a.OwnDID = append(a.Keys, key), key.DID
		m.ownKey(key.Public, key.DID)
		m.noteExpiry(key)
		return nil
	})
}

// RevokeKey implements [federation.Registry].
func (m *Memory) RevokeKey(ctx context.Context, handle, by, kid, reason string, now time.Time) (federation.Agent, error) {
	return m.changeKeys(ctx, handle, by, now, func(a *federation.Agent) error {
		i := slices.IndexFunc(a.Keys, func(k federation.AgentKey) bool { return k.ID == kid })
		if i < 0 {
			return federation.ErrNotFound
		}
		before := a.Keys[i].Status(now)
		if before == federation.KeyStatusRevoked {
			return nil
		}
		a.Keys[i].Revoked, a.Keys[i].Reason = now, reason
		m.putWindow(a.Keys[i].EndWindow(now, now))
		if before != federation.KeyStatusActive {
			return nil
		}
		for j, key := range slices.Backward(a.Keys) {
			if key.Signs(now) {
				m.takeWindow(key.EndWindow(key.Revoked, now))
				a.Keys[j].Revoked, a.OwnDID = time.Time{}, key.DID
				return nil
			}
		}
		maps.DeleteFunc(m.sessions, func(_ string, s federation.Session) bool { return s.Handle == handle })
		return nil
	})
}

// noteExpiry puts the end that a key has by itself in its history.
func (m *Memory) noteExpiry(key federation.AgentKey) {
	if !key.Expires.IsZero() {
		m.putWindow(key.EndWindow(key.Expires, key.Created))
	}
}

// takeWindow takes an end that was to come from a history.
func (m *Memory) takeWindow(w federation.KeyWindow) {
	m.windows[w.DID] = slices.DeleteFunc(slices.Clone(m.windows[w.DID]), func(k federation.KeyWindow) bool {
		return k.KeyID == w.KeyID && k.Origin == w.Origin && k.Since.Equal(w.Since)
	})
}

// changeKeys changes an agent on the word of one of its keys.
func (m *Memory) changeKeys(
	ctx context.Context, handle, by string, now time.Time, change func(*federation.Agent) error,
) (federation.Agent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Agent{}, err
	}
	i := slices.IndexFunc(m.agents, func(a federation.Agent) bool { return a.Handle == handle })
	if i < 0 {
		return federation.Agent{}, federation.ErrNotFound
	}
	a := m.agents[i]
	a.Keys = slices.Clone(a.Keys) // others hold the old one
	if key := a.Key(by); by != "" && (key.ID == "" || key.Status(now) != federation.KeyStatusActive) {
		return federation.Agent{}, federation.ErrStale
	}
	if err := change(&a); err != nil {
		return federation.Agent{}, err
	}
	m.agents[i] = a
	return a, nil
}
