package federationtest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"baton/federation"
)

// OutboxNames implements [Reroutes].
func (m *Memory) OutboxNames(ctx context.Context) ([]string, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	var names []string
	for _, f := range m.outboxes {
		names = append(names, f.link)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// Reroute implements [Reroutes].
func (m *Memory) Reroute(ctx context.Context, from, to string, rows []int64) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	m.outboxes = slices.DeleteFunc(m.outboxes, func(f outboxRow) bool {
		return f.link == from && slices.Contains(rows, f.row) && m.inOutbox(to, f.entry.Event.ID)
	})
	for i := range m.outboxes {
		if f := &m.outboxes[i]; f.link == from && slices.Contains(rows, f.row) {
			f.link, f.attempt, f.reason, f.next, f.tries = to, 0, "", time.Time{}, nil
			m.settled = slices.DeleteFunc(m.settled, func(s settledRow) bool { return s.event == f.entry.Event.ID && s.link == to })
		}
	}
	return nil
}

// inOutbox reports whether an outbox has a step.
func (m *Memory) inOutbox(link string, id federation.EventID) bool {
	return slices.ContainsFunc(m.outboxes, func(f outboxRow) bool { return f.link == link && f.entry.Event.ID == id })
}

// UnlocatedReaders implements [Reroutes].
func (m *Memory) UnlocatedReaders(ctx context.Context, after federation.DID, limit int) ([]federation.DID, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	var found []federation.DID
	for _, did := range slices.Sorted(maps.Keys(m.inboxes)) {
		_, bound := m.bindings[did]
		located := slices.ContainsFunc(m.homes.mailboxes, func(l federation.MailboxLocation) bool { return l.DID == did })
		waits := slices.ContainsFunc(m.inboxes[did], func(r inboxRow) bool { return !r.read })
		if did > after && waits && !bound && !located && len(found) < limit {
			found = append(found, did)
		}
	}
	return found, err
}

// RouteUnread implements [Reroutes].
func (m *Memory) RouteUnread(ctx context.Context, did federation.DID, to string, now time.Time) (int, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	routed := 0
	for _, r := range m.inboxes[did] {
		ev := r.entry.Event
		view := m.views[ev.Handoff]
		ended := slices.ContainsFunc(m.settled, func(s settledRow) bool {
			return s.event == ev.ID && (s.link == to || s.how.Outcome() == federation.DeliveryDelivered)
		})
		if r.read || view.Over || view.Remote || ended || m.inOutbox(to, ev.ID) {
			continue
		}
		m.lastRow++
		m.outboxes = append(m.outboxes, outboxRow{row: m.lastRow, link: to, entry: r.entry, rank: federation.RankAnswer, queued: now})
		routed++
	}
	slices.SortStableFunc(m.outboxes, func(a, b outboxRow) int { return cmp.Compare(a.row, b.row) })
	return routed, nil
}
