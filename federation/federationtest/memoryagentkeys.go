package federationtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// RotateKey implements [Registry].
func (m *Memory) RotateKey(ctx context.Context, handle, by string, key agents.Key, now, until time.Time) (agents.Agent, error) {
	return m.changeKeys(ctx, handle, by, now, func(a *agents.Agent) error {
		if slices.ContainsFunc(a.Keys, func(k agents.Key) bool { return k.ID == key.ID || k.Public.Equal(key.Public) }) {
			return federation.ErrTaken
		}
		if len(a.Keys) >= agents.MaxKeys {
			i := slices.IndexFunc(a.Keys, func(k agents.Key) bool { return !k.Signs(now) })
			if i < 0 {
				return &federation.RefusalError{Code: federation.QuotaExceeded, Detail: "the agent has too many keys that are good"}
			}
			a.Keys = slices.Delete(a.Keys, i, i+1)
		}
		for i := range a.Keys {
			if a.Keys[i].Revoked.IsZero() || a.Keys[i].Revoked.After(until) {
				a.Keys[i].Revoked = until
				m.endKey(a.Keys[i], until, now)
				m.endKeyUse([]string{handle, string(a.DID)}, federation.KeyID(a.Keys[i].Public), until, now)
			}
		}
		_, signed := m.bindings[key.DID]
		key = m.unowned(key)
		if signed || m.hasSession(key.DID) {
			key.DID = ""
		}
		a.Keys, a.OwnDID = append(a.Keys, key), cmp.Or(key.DID, a.DID)
		m.ownProved(key)
		return nil
	})
}

// RevokeKey implements [Registry].
func (m *Memory) RevokeKey(ctx context.Context, handle, by, kid, reason string, now time.Time) (agents.Agent, error) {
	return m.changeKeys(ctx, handle, by, now, func(a *agents.Agent) error {
		i := slices.IndexFunc(a.Keys, func(k agents.Key) bool { return k.ID == kid })
		if i < 0 {
			return federation.ErrNotFound
		}
		before := a.Keys[i].Status(now)
		if before == agents.KeyStatusRevoked {
			return nil
		}
		a.Keys[i].Revoked, a.Keys[i].Reason = now, reason
		m.endKey(a.Keys[i], now, now)
		m.endKeyUse([]string{handle, string(a.DID)}, federation.KeyID(a.Keys[i].Public), now, now)
		if before != agents.KeyStatusActive {
			return nil
		}
		for j, key := range slices.Backward(a.Keys) {
			if key.Signs(now) {
				m.takeWindow(key.EndWindow(key.Revoked, now))
				m.keepKey([]string{handle, string(a.DID), string(key.DID)}, key.Revoked)
				a.Keys[j].Revoked, a.OwnDID = time.Time{}, cmp.Or(key.DID, a.DID)
				return nil
			}
		}
		m.endForKey(func(s federation.Session) bool { return s.Participant == handle })
		return nil
	})
}

// RevokeAgent implements [Registry].
func (m *Memory) RevokeAgent(ctx context.Context, handle, by, reason string, now time.Time) error {
	_, err := m.changeKeys(ctx, handle, by, now, func(a *agents.Agent) error {
		if len(a.Keys) == 0 && a.Recovery != nil {
			a.Keys = []agents.Key{{ID: "recovery_" + federation.KeyID(a.Recovery), Public: a.Recovery, Created: now}}
		}
		for i, key := range a.Keys {
			if !key.Signs(now) {
				continue
			}
			a.Keys[i].Revoked, a.Keys[i].Reason = now, reason
			m.endKey(key, now, now)
			m.endKeyUse([]string{handle, string(a.DID)}, federation.KeyID(key.Public), now, now)
		}
		if by == "" {
			a.Recovery = nil
		}
		m.endForKey(func(s federation.Session) bool { return s.Participant == handle })
		return nil
	})
	return err
}

// ProveKey implements [Registry].
func (m *Memory) ProveKey(ctx context.Context, handle, kid string, did federation.DID, now time.Time) (agents.Agent, error) {
	return m.changeKeys(ctx, handle, "", now, func(a *agents.Agent) error {
		i := slices.IndexFunc(a.Keys, func(k agents.Key) bool { return k.ID == kid })
		if i < 0 {
			return federation.ErrNotFound
		}
		key := a.Keys[i]
		key.DID = did
		if key = m.unowned(key); a.Keys[i].Proved() || !key.Proved() {
			return nil
		}
		if a.Primary(now).ID == kid {
			a.OwnDID = did
		}
		a.Keys[i] = key
		m.ownProved(key)
		return nil
	})
}

// Unproved implements [Registry].
func (m *Memory) Unproved(ctx context.Context, now time.Time, limit int) (handles []string, total int, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, 0, err
	}
	for _, a := range m.agents {
		if slices.ContainsFunc(a.Keys, func(k agents.Key) bool { return !k.Proved() && k.Signs(now) }) {
			handles = append(handles, a.Handle)
		}
	}
	slices.Sort(handles)
	return handles[:min(limit, len(handles))], len(handles), nil
}

// unowned returns a key without its DID where an agent has that already.
func (m *Memory) unowned(key agents.Key) agents.Key {
	if slices.ContainsFunc(m.agents, func(a agents.Agent) bool { return slices.Contains(a.DIDs(), key.DID) }) {
		key.DID = ""
	}
	return key
}

// ownProved notes what follows from a proved key.
func (m *Memory) ownProved(key agents.Key) {
	if !key.Proved() {
		return
	}
	for _, end := range []time.Time{key.Expires, key.Revoked} {
		if !end.IsZero() {
			m.endKey(key, end, key.Created)
		}
	}
	m.ownKey(key.Public, key.DID)
}

// endKey notes the end of a key in the history of its DID, where it has one.
func (m *Memory) endKey(key agents.Key, end, seen time.Time) {
	if key.Proved() {
		m.putWindow(key.EndWindow(end, seen))
	}
}

// hasSession reports whether a DID or a handle has a session.
func (m *Memory) hasSession(of federation.DID) bool {
	for _, s := range m.sessions {
		if s.Participant == string(of) && of != "" {
			return true
		}
	}
	return false
}

// takeWindow takes an end that was to come from a history.
func (m *Memory) takeWindow(w federation.KeyWindow) {
	m.windows[w.DID] = slices.DeleteFunc(slices.Clone(m.windows[w.DID]), func(k federation.KeyWindow) bool {
		return k.KeyID == w.KeyID && k.Origin == w.Origin && k.Since.Equal(w.Since)
	})
}

// changeKeys changes an agent by the signature of one of its keys.
func (m *Memory) changeKeys(
	ctx context.Context, handle, by string, now time.Time, change func(*agents.Agent) error,
) (agents.Agent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return agents.Agent{}, err
	}
	i := slices.IndexFunc(m.agents, func(a agents.Agent) bool { return a.Handle == handle })
	if i < 0 {
		return agents.Agent{}, federation.ErrNotFound
	}
	a := m.agents[i]
	a.Keys = slices.Clone(a.Keys) // others hold the old one
	if key := a.Key(by); by != "" && (key.ID == "" || key.Status(now) != agents.KeyStatusActive) {
		return agents.Agent{}, federation.ErrStale
	}
	if err := change(&a); err != nil {
		return agents.Agent{}, err
	}
	m.agents[i] = a
	return a, nil
}
