package federationtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"baton/federation/agents"
)

// inboxWhere returns the messages of an inbox that fit, in the order of the inbox.
func (m *Memory) inboxWhere(ctx context.Context, to string, limit int, fits func(*memoryMessage) bool) ([]agents.Message, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var all []*memoryMessage
	for _, on := range m.messages {
		if on.positionIn(to) > 0 && !on.deleted && fits(on) {
			all = append(all, on)
		}
	}
	slices.SortFunc(all, func(a, b *memoryMessage) int { return a.position - b.position })
	var messages []agents.Message
	for _, on := range all[:min(max(limit, 0), len(all))] {
		message := m.readMessage(on)
		message.Cursor = cursor("handle "+to, on.position)
		messages = append(messages, message)
	}
	return messages, nil
}

// Fresh implements [Registry].
func (m *Memory) Fresh(ctx context.Context, to string, limit int) ([]agents.Message, error) {
	return m.inboxWhere(ctx, to, limit, func(on *memoryMessage) bool { return on.position > m.shown[to] })
}

// Since implements [Registry].
func (m *Memory) Since(ctx context.Context, to string, since time.Time, limit int) ([]agents.Message, error) {
	all, err := m.inboxWhere(ctx, to, len(m.messages), func(on *memoryMessage) bool { return on.Told.After(since) })
	slices.SortStableFunc(all, func(a, b agents.Message) int { return a.Told.Compare(b.Told) })
	return all[:min(max(limit, 0), len(all))], err
}

// Recent implements [Registry].
func (m *Memory) Recent(ctx context.Context, handle, peer string, limit int) ([]agents.Message, error) {
	all, _, err := m.Thread(ctx, handle, peer, 0, len(m.messages))
	return all[max(0, len(all)-max(limit, 0)):], err
}

// Conversations implements [Registry].
func (m *Memory) Conversations(ctx context.Context, handle string, limit int) ([]agents.Conversation, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	found := map[string]*agents.Conversation{}
	for _, on := range m.messages {
		peer := on.To
		if on.To == handle {
			peer = on.From
		}
		gone := on.deleted && on.To == handle
		if on.From != handle && on.To != handle || on.Seq == 0 || gone {
			continue
		}
		if found[peer] == nil {
			found[peer] = &agents.Conversation{With: peer}
		}
		c := found[peer]
		c.Count++
		if on.To == handle && !on.read {
			c.Unread++
		}
		if on.Seq > c.Last.Seq {
			c.Last = m.readMessage(on)
		}
	}
	var all []agents.Conversation
	for _, c := range found {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b agents.Conversation) int {
		return cmp.Or(b.Last.Told.Compare(a.Last.Told), cmp.Compare(a.With, b.With))
	})
	return all[:min(max(limit, 0), len(all))], nil
}

// ReadConversation implements [Registry].
func (m *Memory) ReadConversation(ctx context.Context, handle, peer string, _ time.Time) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	for _, on := range m.messages {
		if on.To == handle && on.From == peer && on.Seq > 0 {
			on.read = true
		}
	}
	return nil
}
