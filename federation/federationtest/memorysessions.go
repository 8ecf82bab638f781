package federationtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// StartSession implements [Sessions].
func (m *Memory) StartSession(ctx context.Context, s federation.Session) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	return m.startSession(s)
}

func (m *Memory) startSession(s federation.Session) error {
	m.sweepSessions(s.Created)
	for _, w := range m.windows[federation.DID(s.Participant)] {
		if w.KeyID == s.Key && w.Origin == federation.RevokedKey && (s.Ends.IsZero() || w.Since.Before(s.Ends)) {
			s.Ends = w.Since
		}
	}
	if !s.Ends.IsZero() && !s.Created.Before(s.Ends) {
		return federation.ErrSessionEnded
	}
	m.sessions[s.ID] = s
	m.logins[federation.DID(s.Participant)] = true
	of := m.sessionsOf([]string{s.Participant})
	slices.SortFunc(of, func(a, b federation.Session) int { return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.ID, b.ID)) })
	for _, old := range of[min(len(of), federation.MaxSessions):] {
		m.endSessions(func(s federation.Session) bool { return s.ID == old.ID })
	}
	return nil
}

func (m *Memory) sessionsOf(participants []string) []federation.Session {
	var of []federation.Session
	for _, s := range m.sessions {
		if slices.Contains(participants, s.Participant) {
			of = append(of, s)
		}
	}
	slices.SortFunc(of, func(a, b federation.Session) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	return of
}

// hasSessionID reports whether a session is live. The empty ID is live.
func (m *Memory) hasSessionID(id string) bool {
	s, has := m.sessions[id]
	return has && !s.Ends.Equal(endedByKey()) || id == ""
}

func (m *Memory) sweepSessions(now time.Time) {
	m.endSessions(func(s federation.Session) bool { return !now.Before(s.Expires) })
}

// endSessions ends some sessions and their leases, and returns the number of sessions.
func (m *Memory) endSessions(which func(federation.Session) bool) (ended int) {
	for id, s := range m.sessions {
		if !which(s) {
			continue
		}
		ended++
		delete(m.sessions, id)
		for _, inbox := range m.inboxes {
			for i := range inbox {
				if inbox[i].session == id {
					inbox[i].session, inbox[i].device, inbox[i].until = "", noHolder, time.Time{}
				}
			}
		}
	}
	return ended
}

// endedByKey is the end of a session with a revoked key.
func endedByKey() time.Time { return time.Unix(0, 1) }

// endForKey ends some sessions as the end of their key does.
func (m *Memory) endForKey(which func(federation.Session) bool) {
	for id, s := range m.sessions {
		if which(s) {
			m.endSessions(func(s federation.Session) bool { return s.ID == id })
			s.Ends = endedByKey()
			m.sessions[id] = s
		}
	}
}

// Session implements [Sessions].
func (m *Memory) Session(ctx context.Context, id string, now time.Time) (federation.Session, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Session{}, err
	}
	s, ok := m.sessions[id]
	switch {
	case !ok || !now.Before(s.Expires):
		return federation.Session{}, federation.ErrNotFound
	case !s.Live(now):
		return federation.Session{}, federation.ErrSessionEnded
	}
	return s, nil
}

// Sessions implements [Sessions].
func (m *Memory) Sessions(ctx context.Context, participants []string, now time.Time) ([]federation.Session, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(m.sessionsOf(participants), func(s federation.Session) bool { return !s.Live(now) }), nil
}

// AdvanceSession implements [Sessions].
func (m *Memory) AdvanceSession(ctx context.Context, id string, generation uint64, now, expires time.Time) (federation.Session, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Session{}, err
	}
	m.sweepSessions(now)
	s, ok := m.sessions[id]
	switch {
	case !ok || !s.Live(now):
		return federation.Session{}, federation.ErrNotFound
	case s.Generation != generation:
		m.endSessions(func(s federation.Session) bool { return s.ID == id })
		return federation.Session{}, federation.ErrTokenUsed
	}
	s.Generation, s.Expires, s.Used = generation+1, expires, now
	m.sessions[id] = s
	return s, nil
}

// ProlongSession implements [Sessions].
func (m *Memory) ProlongSession(ctx context.Context, id string, now, expires time.Time) (federation.Session, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Session{}, err
	}
	s, ok := m.sessions[id]
	if !ok || !s.Live(now) {
		return federation.Session{}, federation.ErrNotFound
	}
	s.Expires, s.Used = expires, now
	m.sessions[id] = s
	return s, nil
}

// BindSession implements [Sessions].
func (m *Memory) BindSession(ctx context.Context, id string) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	if s, ok := m.sessions[id]; ok {
		s.Bound = true
		m.sessions[id] = s
	}
	for _, h := range m.webhooks {
		if h.Unbound == id {
			h.Unbound = ""
		}
	}
	return nil
}

// EndSession implements [Sessions].
func (m *Memory) EndSession(ctx context.Context, participants []string, id string, now time.Time) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	m.sweepSessions(now)
	if m.endSessions(func(s federation.Session) bool {
		return s.ID == id && slices.Contains(participants, s.Participant) && s.Live(now)
	}) == 0 {
		return federation.ErrNotFound
	}
	return nil
}

// EndSessions implements [Sessions].
func (m *Memory) EndSessions(ctx context.Context, participants []string, except string, unbound bool, now time.Time) (int, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	m.sweepSessions(now)
	if unbound {
		m.endWebhooks(participants, now, func(h *memoryWebhook) bool { return h.Unbound != "" && h.Unbound != except })
	}
	return m.endSessions(func(s federation.Session) bool {
		return slices.Contains(participants, s.Participant) && s.ID != except && (!unbound || !s.Bound) && s.Live(now)
	}), nil
}

// endWebhooks schedules the end of some webhooks of participants.
func (m *Memory) endWebhooks(participants []string, end time.Time, which func(*memoryWebhook) bool) {
	for _, h := range m.webhooks {
		of := slices.Contains(participants, string(h.DID)) || h.Participant != "" && slices.Contains(participants, h.Participant)
		if of && which(h) && h.Disabled.IsZero() && (h.Ends.IsZero() || h.Ends.After(end)) {
			h.Ends = end
		}
	}
}

// endKeyUse ends everything begun by participants with a key.
func (m *Memory) endKeyUse(participants []string, key string, end, now time.Time) {
	if !end.After(now) {
		m.endForKey(func(s federation.Session) bool {
			return slices.Contains(participants, s.Participant) && (s.Key == key || s.Key == "")
		})
		m.endWebhooks(participants, now, func(h *memoryWebhook) bool { return h.Key == key || h.Key == "" })
		return
	}
	for id, s := range m.sessions {
		began := s.Key == key || s.Key == "" && s.Began == federation.BeganRefresh
		if slices.Contains(participants, s.Participant) && began && (s.Ends.IsZero() || s.Ends.After(end)) {
			s.Ends = end
			m.sessions[id] = s
		}
	}
	m.endWebhooks(participants, end, func(h *memoryWebhook) bool { return h.Key == key })
}

// keepKey cancels a scheduled end.
func (m *Memory) keepKey(participants []string, end time.Time) {
	for id, s := range m.sessions {
		if slices.Contains(participants, s.Participant) && s.Ends.Equal(end) {
			s.Ends = time.Time{}
			m.sessions[id] = s
		}
	}
	for _, h := range m.webhooks {
		if h.Ends.Equal(end) && (slices.Contains(participants, string(h.DID)) || h.Participant != "" && slices.Contains(participants, h.Participant)) {
			h.Ends = time.Time{}
		}
	}
}

// AddAgentSession implements [Registry].
func (m *Memory) AddAgentSession(ctx context.Context, a agents.Agent, s federation.Session) error {
	if err := m.AddAgent(ctx, a); err != nil {
		return err
	}
	return m.StartSession(ctx, s)
}

// StartAgentSession implements [Registry].
func (m *Memory) StartAgentSession(ctx context.Context, s federation.Session) (federation.Session, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return s, err
	}
	i := slices.IndexFunc(m.agents, func(a agents.Agent) bool { return a.Handle == s.Participant })
	if i < 0 {
		return s, federation.ErrNotFound
	}
	if s, err = m.agents[i].Begin(s); err != nil {
		return s, err
	}
	return s, m.startSession(s)
}
