package federationtest

import (
	"context"
	"slices"
	"time"

	"baton/federation"
)

// memoryNotice is a notice with whether its signer was told.
type memoryNotice struct {
	federation.Notice
	told bool
	next time.Time
}

// about reports whether two notices are one to their signer.
func (n memoryNotice) about(other federation.Notice) bool {
	return n.Kind == other.Kind && n.Event.From == other.Event.From && n.Event.ID == other.Event.ID
}

// Notify implements [federation.Notices].
func (m *Memory) Notify(ctx context.Context, n federation.Notice) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	m.notify(n)
	return nil
}

func (m *Memory) notify(n federation.Notice) {
	if !slices.ContainsFunc(m.notices, func(on memoryNotice) bool { return on.about(n) }) {
		n.Event = bare(n.Event)
		m.notices = append(m.notices, memoryNotice{Notice: n})
	}
}

// Untold implements [federation.Notices].
func (m *Memory) Untold(ctx context.Context, link string, now time.Time, limit int) ([]federation.Notice, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var found []federation.Notice
	for _, on := range m.notices {
		if !on.told && on.Event.Arrival.Link == link && !on.next.After(now) && len(found) < limit {
			found = append(found, on.Notice)
		}
	}
	return found, nil
}

// Told implements [federation.Notices].
func (m *Memory) Told(ctx context.Context, n federation.Notice) error {
	return m.changeNotice(ctx, n, func(on *memoryNotice) { on.told = true })
}

// TellLater implements [federation.Notices].
func (m *Memory) TellLater(ctx context.Context, n federation.Notice, next time.Time) error {
	return m.changeNotice(ctx, n, func(on *memoryNotice) { on.next = next })
}

func (m *Memory) changeNotice(ctx context.Context, n federation.Notice, change func(*memoryNotice)) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(m.notices, func(on memoryNotice) bool { return on.about(n) }); i >= 0 {
		change(&m.notices[i])
	}
	return nil
}

// PruneNotices implements [federation.Notices].
func (m *Memory) PruneNotices(ctx context.Context, before time.Time, limit int) (pruned int, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	m.notices = slices.DeleteFunc(m.notices, func(on memoryNotice) bool {
		old := !on.At.After(before) && pruned < limit
		if old {
			pruned++
		}
		return old
	})
	return pruned, nil
}
