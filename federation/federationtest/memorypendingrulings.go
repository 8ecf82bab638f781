package federationtest

import (
	"context"
	"slices"

	"baton/federation"
)

// Await implements [PendingRulings].
func (m *Memory) Await(ctx context.Context, h federation.Pending, after federation.Version) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	if m.views[h.Event.Handoff].Version != after {
		return federation.ErrStale
	}
	same := func(each federation.Pending) bool {
		ev := each.Event
		return ev.Handoff == h.Event.Handoff && ev.From == h.Event.From && (ev.ID == h.Event.ID || ev.Digest() == h.Event.Digest())
	}
	if slices.ContainsFunc(m.awaiting, same) {
		return nil
	}
	if evidence := h.Event.Evidence; evidence != nil && evidence.Bytes != nil {
		m.keep(h.Event.Handoff, *evidence)
	}
	h.Event = bare(h.Event)
	m.awaiting = append(m.awaiting, h)
	return nil
}

// Awaiting implements [PendingRulings].
func (m *Memory) Awaiting(ctx context.Context, home federation.HomeID, limit int) ([]federation.Pending, error) {
	held, err := m.waiting(ctx, func(h federation.Pending) bool { return h.Home == home })
	return held[:max(0, min(limit, len(held)))], err
}

// AwaitingIn implements [PendingRulings].
func (m *Memory) AwaitingIn(ctx context.Context, id federation.HandoffID) ([]federation.Pending, error) {
	return m.waiting(ctx, func(h federation.Pending) bool { return h.Event.Handoff == id })
}

func (m *Memory) waiting(ctx context.Context, fits func(federation.Pending) bool) ([]federation.Pending, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var held []federation.Pending
	for _, h := range m.awaiting {
		if fits(h) {
			held = append(held, h)
		}
	}
	return held, nil
}

// Ruled implements [PendingRulings].
func (m *Memory) Ruled(ctx context.Context, id federation.HandoffID, from federation.DID, event federation.EventID) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	m.release(id, from, event)
	return nil
}

// release ends the wait of a step.
func (m *Memory) release(id federation.HandoffID, from federation.DID, event federation.EventID) {
	m.awaiting = slices.DeleteFunc(m.awaiting, func(h federation.Pending) bool {
		return h.Event.Handoff == id && h.Event.From == from && h.Event.ID == event
	})
}
