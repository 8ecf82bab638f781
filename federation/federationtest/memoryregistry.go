package federationtest

import (
	"context"
	"slices"
	"time"

	"baton/federation"
)

// edge is one direction between two handles.
type edge struct{ from, to string }

// memoryMessage is a message with its place in the inbox of its recipient, zero
// while it is held.
type memoryMessage struct {
	federation.Message
	position int
}

// AddAgent implements [federation.Registry].
func (m *Memory) AddAgent(ctx context.Context, a federation.Agent) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(m.agents, func(b federation.Agent) bool { return b.Handle == a.Handle }) {
		return federation.ErrTaken
	}
	m.agents = append(m.agents, a)
	for _, key := range a.Keys {
		m.ownKey(key.Public, a.OwnDID)
	}
	m.ownKey(a.KeptKey, a.DID)
	return nil
}

// Agent implements [federation.Registry].
func (m *Memory) Agent(ctx context.Context, handle string) (federation.Agent, error) {
	return m.agent(ctx, func(a federation.Agent) bool { return a.Handle == handle })
}

// AgentOf implements [federation.Registry].
func (m *Memory) AgentOf(ctx context.Context, did federation.DID) (federation.Agent, error) {
	return m.agent(ctx, func(a federation.Agent) bool { return a.DID == did || a.OwnDID == did })
}

func (m *Memory) agent(ctx context.Context, matches func(federation.Agent) bool) (federation.Agent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Agent{}, err
	}
	i := slices.IndexFunc(m.agents, matches)
	if i < 0 {
		return federation.Agent{}, federation.ErrNotFound
	}
	return m.agents[i], nil
}

// Post implements [federation.Registry].
func (m *Memory) Post(ctx context.Context, p federation.Posting) (federation.Message, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Message{}, err
	}
	in := p.Message
	used := false
	for _, on := range m.messages {
		if !in.Event.IsZero() && on.To == in.To && on.Event == in.Event {
			return on.Message, nil
		}
		used = used || on.From == in.From && on.ID == in.ID && in.Received.Sub(on.Received) < federation.MessageIDWindow
	}
	if used {
		return federation.Message{}, federation.ErrDuplicate
	}
	state := m.consent(in.From, in.To).State
	held := p.Held && state != federation.ConsentAccepted
	if held && state == federation.ConsentNone {
		m.setConsent(in.From, in.To, federation.ConsentPending, in.Received)
		if p.Handshake != nil {
			m.deliver(m.insert(*p.Handshake))
		}
	}
	filed := m.insert(in)
	if !held {
		m.deliver(filed)
	}
	return filed.Message, nil
}

func (m *Memory) insert(in federation.Message) *memoryMessage {
	in.Seq, in.Cursor = 0, ""
	filed := &memoryMessage{Message: in}
	m.messages = append(m.messages, filed)
	return filed
}

// deliver gives a message the next place in its thread and in the inbox of its
// recipient.
func (m *Memory) deliver(filed *memoryMessage) {
	var seq uint64
	var last int
	for _, on := range m.messages {
		if (edge{on.From, on.To}) == (edge{filed.From, filed.To}) || (edge{on.To, on.From}) == (edge{filed.From, filed.To}) {
			seq = max(seq, on.Seq)
		}
		if on.To == filed.To {
			last = max(last, on.position)
		}
	}
	filed.Seq, filed.position = seq+1, last+1
}

// Sent implements [federation.Registry].
func (m *Memory) Sent(ctx context.Context, from, id string, since time.Time) (federation.Message, error) {
	return m.newest(ctx, func(on *memoryMessage) bool {
		return on.From == from && on.ID == id && !on.Received.Before(since)
	})
}

// Named implements [federation.Registry].
func (m *Memory) Named(ctx context.Context, handle, id string) (federation.Message, error) {
	return m.newest(ctx, func(on *memoryMessage) bool {
		return on.ID == id && (on.From == handle || on.To == handle && on.Seq > 0)
	})
}

func (m *Memory) newest(ctx context.Context, matches func(*memoryMessage) bool) (federation.Message, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Message{}, err
	}
	for _, on := range slices.Backward(m.messages) {
		if matches(on) {
			return on.Message, nil
		}
	}
	return federation.Message{}, federation.ErrNotFound
}

// Inbox implements [federation.Registry].
func (m *Memory) Inbox(ctx context.Context, to string, after federation.Cursor, limit int) (messages []federation.Message, more bool, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, false, err
	}
	var all []*memoryMessage
	for _, on := range m.messages {
		if on.To == to && on.position > 0 {
			all = append(all, on)
		}
	}
	slices.SortFunc(all, func(a, b *memoryMessage) int { return a.position - b.position })
	n, err := position("handle "+to, after, len(all))
	if err != nil {
		return nil, false, err
	}
	end := min(n+max(limit, 0), len(all))
	for _, on := range all[n:end] {
		message := on.Message
		message.Cursor = cursor("handle "+to, on.position)
		messages = append(messages, message)
	}
	return messages, end < len(all), nil
}

// Consent implements [federation.Registry].
func (m *Memory) Consent(ctx context.Context, from, to string) (federation.Consent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Consent{}, err
	}
	return m.consent(from, to), nil
}

func (m *Memory) consent(from, to string) federation.Consent {
	if c, ok := m.consents[edge{from, to}]; ok {
		return c
	}
	return federation.Consent{From: from, To: to, State: federation.ConsentNone}
}

func (m *Memory) setConsent(from, to string, state federation.ConsentState, now time.Time) {
	c := m.consent(from, to)
	if c.State != state {
		c.State, c.Updated, c.Version = state, now, c.Version+1
		m.consents[edge{from, to}] = c
	}
}

// Accept implements [federation.Registry].
func (m *Memory) Accept(ctx context.Context, from, to string, now time.Time) (federation.Consent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Consent{}, err
	}
	m.accept(from, to, now)
	if m.consent(to, from).State != federation.ConsentBlocked {
		m.accept(to, from, now)
	}
	return m.consent(from, to), nil
}

func (m *Memory) accept(from, to string, now time.Time) {
	m.setConsent(from, to, federation.ConsentAccepted, now)
	for _, on := range m.messages {
		if on.From == from && on.To == to && on.Seq == 0 {
			m.deliver(on)
		}
	}
}

// Block implements [federation.Registry].
func (m *Memory) Block(ctx context.Context, from, to string, now time.Time) (federation.Consent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Consent{}, err
	}
	m.setConsent(from, to, federation.ConsentBlocked, now)
	m.messages = slices.DeleteFunc(m.messages, func(on *memoryMessage) bool {
		return on.From == from && on.To == to && on.Seq == 0
	})
	return m.consent(from, to), nil
}
