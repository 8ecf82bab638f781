package federationtest

import (
	"context"
	"slices"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// memoryNotice is a notice with whether its signer was told.
type memoryNotice struct {
	federation.Notice
	place int
	link  string
	told  bool
	next  time.Time
}

// about reports whether two notices are one to their signer.
func (n memoryNotice) about(other federation.Notice) bool {
	return n.Kind == other.Kind && n.Event.From == other.Event.From && n.About() == other.About()
}

// Notify implements [Notices].
func (m *Memory) Notify(ctx context.Context, n federation.Notice) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	m.notify(n)
	return nil
}

func (m *Memory) notify(n federation.Notice) { m.notifyOn(n.Link(), n) }

func (m *Memory) notifyOn(link string, n federation.Notice) {
	if slices.ContainsFunc(m.notices, func(on memoryNotice) bool { return on.about(n) }) {
		return
	}
	m.lastNotice++
	if n.Kind != federation.NoticeDisabled {
		n.Event = bare(n.Event)
	}
	on := memoryNotice{Notice: n, place: m.lastNotice, link: link}
	m.notices = append(m.notices, on)
	if link == federation.InboxLink {
		m.queueNoticePushes(on)
	}
}

// notifyDisabled tells the owner of a disabled webhook, also where it was disabled before.
func (m *Memory) notifyDisabled(h federation.Webhook, now time.Time) {
	n := federation.Notice{Kind: federation.NoticeDisabled, Webhook: h, Why: h.Why, At: now}
	m.forgetNotices(func(on memoryNotice) bool { return on.about(n) })
	link := federation.InboxLink
	if slices.ContainsFunc(m.agents, func(a agents.Agent) bool { return a.Is(h.DID) }) {
		link = agents.Link
	}
	m.notifyOn(link, n)
}

func (m *Memory) forgetNotices(which func(memoryNotice) bool) {
	m.notices = slices.DeleteFunc(m.notices, func(on memoryNotice) bool {
		gone := which(on)
		if gone {
			m.unpushNotice(on)
		}
		return gone
	})
}

// NoticesTo implements [Notices].
func (m *Memory) NoticesTo(ctx context.Context, link string, to federation.DID, after federation.Cursor, limit int) ([]federation.Notice, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	place, err := position("notices "+string(to), after, m.lastNotice)
	if err != nil {
		return nil, err
	}
	var found []federation.Notice
	for _, on := range m.notices {
		if on.link == link && on.Reader() == to && on.place > place && len(found) < limit {
			found = append(found, on.read())
		}
	}
	return found, nil
}

// read returns a notice as its reader gets it.
func (n memoryNotice) read() federation.Notice {
	n.Cursor = cursor("notices "+string(n.Reader()), n.place)
	return n.Notice
}

// Untold implements [Notices].
func (m *Memory) Untold(ctx context.Context, link string, now time.Time, limit int) ([]federation.Notice, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var found []federation.Notice
	for _, on := range m.notices {
		if !on.told && on.link == link && !on.next.After(now) && len(found) < limit {
			found = append(found, on.Notice)
		}
	}
	return found, nil
}

// Told implements [Notices].
func (m *Memory) Told(ctx context.Context, n federation.Notice) error {
	return m.changeNotice(ctx, n, func(on *memoryNotice) { on.told = true })
}

// TellLater implements [Notices].
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

// PruneNotices implements [Notices].
func (m *Memory) PruneNotices(ctx context.Context, before time.Time, limit int) (pruned int, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	m.forgetNotices(func(on memoryNotice) bool {
		old := !on.At.After(before) && pruned < limit
		if old {
			pruned++
		}
		return old
	})
	return pruned, nil
}
