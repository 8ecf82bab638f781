package federationtest

import (
	"context"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// heldRelays returns the held messages of unverified senders that a condition selects.
func (m *Memory) heldRelays(ctx context.Context, which func(on *memoryMessage) bool) (found []*memoryMessage, unlock func(), err error) {
	unlock, err = m.begin(ctx)
	for _, on := range m.messages {
		if err == nil && on.Seq == 0 && strings.HasPrefix(on.waits.from, agents.Unverified) && which(on) {
			found = append(found, on)
		}
	}
	return found, unlock, err
}

// HeldRelays implements [Registry].
func (m *Memory) HeldRelays(ctx context.Context, from, to string, after int64, limit int) (all []agents.Held, err error) {
	found, unlock, err := m.heldRelays(ctx, func(on *memoryMessage) bool {
		return (from == "" || on.waits.from == from) && (to == "" || on.To == to) && on.n > after
	})
	defer unlock()
	for _, on := range found[:min(max(limit, 0), len(found))] {
		all = append(all, agents.Held{ID: on.n, Message: on.Message})
	}
	return all, err
}

// HeldRelay implements [Registry].
func (m *Memory) HeldRelay(ctx context.Context, id int64) (held agents.Message, err error) {
	err = m.changeHeld(ctx, id, func(on *memoryMessage) { held = on.Message })
	return held, err
}

// DeliverHeld implements [Registry].
func (m *Memory) DeliverHeld(ctx context.Context, id int64, now time.Time) error {
	return m.changeHeld(ctx, id, func(on *memoryMessage) { m.deliver(on, now) })
}

// DropHeld implements [Registry].
func (m *Memory) DropHeld(ctx context.Context, id int64, now time.Time) error {
	return m.changeHeld(ctx, id, func(on *memoryMessage) { m.dropHeld(on.waits, on, now) })
}

func (m *Memory) changeHeld(ctx context.Context, id int64, change func(on *memoryMessage)) error {
	found, unlock, err := m.heldRelays(ctx, func(on *memoryMessage) bool { return on.n == id })
	defer unlock()
	if err == nil && len(found) == 0 {
		err = federation.ErrNotFound
	}
	if err == nil {
		change(found[0])
	}
	return err
}

// ExpireHeld implements [Registry].
func (m *Memory) ExpireHeld(ctx context.Context, before, now time.Time, limit int) (int, error) {
	found, unlock, err := m.heldRelays(ctx, func(on *memoryMessage) bool { return !on.Received.After(before) })
	defer unlock()
	found = found[:min(max(limit, 0), len(found))]
	for _, on := range found {
		m.dropHeld(on.waits, on, now)
	}
	return len(found), err
}
