package federationtest

import (
	"context"
	"slices"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// Senders implements [Purges].
func (m *Memory) Senders(ctx context.Context, after federation.DID, limit int) ([]federation.DID, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	senders := map[federation.DID]bool{}
	note := func(ev federation.Event) bool {
		senders[ev.From], senders[ev.For] = true, true
		return false
	}
	for _, v := range m.views {
		if !v.Over {
			senders[v.Offerer] = true
		}
	}
	m.purge(note, nil, time.Time{}, true)
	delete(senders, "")
	var found []federation.DID
	for did := range senders {
		if did > after {
			found = append(found, did)
		}
	}
	slices.Sort(found)
	return found[:max(0, min(limit, len(found)))], nil
}

// Purge implements [Purges].
func (m *Memory) Purge(ctx context.Context, dids []federation.DID, handles []string, now time.Time, dry bool) (federation.Purged, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Purged{}, err
	}
	theirs := func(ev federation.Event) bool {
		return slices.Contains(dids, ev.From) || ev.For != "" && slices.Contains(dids, ev.For)
	}
	return m.purge(theirs, handles, now, dry), nil
}

// purge drops, or counts, what waits of the steps that a condition names, and of handles.
func (m *Memory) purge(theirs func(federation.Event) bool, handles []string, now time.Time, dry bool) (done federation.Purged) {
	of := func(handle string) bool { return slices.Contains(handles, handle) }
	for did, entries := range m.inboxes {
		m.inboxes[did] = drop(entries, &done.Inbox, dry, func(r inboxRow) bool { return !r.read && theirs(r.entry.Event) })
	}
	for _, f := range slices.Clone(m.outboxes) {
		if !theirs(f.entry.Event) {
			continue
		}
		done.Outbox++
		if !dry {
			m.settle(func(on *outboxRow) bool { return on.row == f.row && on.link == f.link }, federation.Settlement{
				State: federation.DeliveryDead, Code: string(federation.DeadOperator), Quiet: true, At: now,
			})
		}
	}
	m.dead = drop(m.dead, &done.Dead, dry, func(d *memoryDead) bool {
		if d.relay != nil {
			return d.letter.Replayed.IsZero() && of(d.relay.Sender)
		}
		i := slices.IndexFunc(m.entries, func(e federation.Entry) bool { return e.Event.ID == d.letter.Event })
		return d.letter.Replayed.IsZero() && i >= 0 && theirs(m.entries[i].Event)
	})
	m.relays = drop(m.relays, &done.Outbox, dry, func(r *memoryPeerDelivery) bool { return r.dead.IsZero() && of(r.Sender) })
	m.deferred = drop(m.deferred, &done.Deferred, dry, func(d federation.Deferred) bool { return theirs(d.Event) })
	m.awaiting = drop(m.awaiting, &done.Deferred, dry, func(p federation.Pending) bool { return theirs(p.Event) })
	carries := func(each *memoryMessage) bool {
		i := slices.IndexFunc(m.entries, func(e federation.Entry) bool { return e.Event.ID == each.Event })
		return each.Event.IsZero() || i >= 0 && theirs(m.entries[i].Event)
	}
	m.messages = drop(m.messages, &done.Messages, dry, func(each *memoryMessage) bool {
		return each.waits != edge{} && of(each.waits.from) && carries(each)
	})
	for _, each := range m.messages {
		unseen := each.position > m.shown[each.To] && !each.read && !each.deleted && each.waits == edge{}
		if unseen && of(each.From) && carries(each) && m.agentNamed(each.To) {
			done.Messages++
			each.deleted = each.deleted || !dry
		}
	}
	return done
}

func (m *Memory) agentNamed(handle string) bool {
	return slices.ContainsFunc(m.agents, func(a agents.Agent) bool { return a.Handle == handle })
}

// drop counts the items that a condition finds, and takes them away unless it is dry.
func drop[T any](items []T, count *int, dry bool, which func(T) bool) []T {
	kept := make([]T, 0, len(items))
	for _, item := range items {
		if !which(item) {
			kept = append(kept, item)
		}
	}
	*count += len(items) - len(kept)
	if dry {
		return items
	}
	return kept
}
