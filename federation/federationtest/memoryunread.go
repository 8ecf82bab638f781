package federationtest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// shownByLink is the outcome of an entry whose step a link has shown.
const shownByLink = federation.DeliveryState("shownByLink")

// end ends the waiting of an entry. The signer of one that was told that it takes time
// hears of it.
func (m *Memory) end(to federation.DID, row *inboxRow, how federation.DeliveryState, now time.Time) {
	if row.read {
		return
	}
	row.read, row.outcome, row.ended = true, how, now
	if how == federation.DeliveryDelivered {
		m.reads[to] = true
	}
	if row.slow && how != federation.DeliveryExpired {
		m.notify(federation.Notice{Kind: federation.NoticeDelivered, Event: row.entry.Event, To: string(to), At: now})
	}
}

// Read implements [Inboxes].
func (m *Memory) Read(ctx context.Context, to federation.DID, events []federation.EventID, now time.Time) error {
	return m.eachWaiting(ctx, to, events, func(row *inboxRow) { m.end(to, row, federation.DeliveryDelivered, now) })
}

// Lapse implements [Inboxes].
func (m *Memory) Lapse(ctx context.Context, to federation.DID, events []federation.EventID, now time.Time) error {
	return m.eachWaiting(ctx, to, events, func(row *inboxRow) {
		m.end(to, row, federation.DeliveryExpired, now)
		if ev := row.entry.Event; ev.ID != ev.Handoff && m.inboxIsWay(to, *row) {
			m.notify(federation.Notice{
				Kind: federation.NoticeUndeliverable, Event: ev, To: string(to), Code: string(federation.DeadExpired), Why: "it was not read", At: now,
			})
		}
	})
}

// eachWaiting changes those entries of some events that wait in an inbox.
func (m *Memory) eachWaiting(ctx context.Context, to federation.DID, events []federation.EventID, change func(row *inboxRow)) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	inbox := m.inboxes[to]
	for i, row := range inbox {
		if !row.read && slices.Contains(events, row.entry.Event.ID) {
			change(&inbox[i])
		}
	}
	return nil
}

// inboxIsWay reports whether the inbox is the only way of an entry to its DID.
func (m *Memory) inboxIsWay(to federation.DID, row inboxRow) bool {
	isAgent := slices.ContainsFunc(m.agents, func(a agents.Agent) bool { return slices.Contains(a.DIDs(), to) })
	_, bound := m.bindings[to]
	home, view := m.homes.resident(to), m.views[row.entry.Event.Handoff]
	abroad := view.Remote && (view.Offerer == to || bound || home >= 0) // where the home of the handoff sees to them
	switch links := m.gave(row.entry.Event.ID); {
	case row.outcome == shownByLink || isAgent || m.boundAgentHas(to, row.entry.Event.ID):
		return false
	case row.outcome == federation.DeliveryDelivered || len(links) == 0 && !abroad:
		return true
	default:
		return m.reads[to] && (home < 0 || !slices.Contains(links, string(m.homes.mailboxes[home].Home)))
	}
}

// gave returns the links that have a step, or a pending delivery of it.
func (m *Memory) gave(event federation.EventID) []string {
	var links []string
	for _, s := range m.settled {
		if s.event == event {
			links = append(links, s.link)
		}
	}
	for _, f := range m.outboxes {
		if f.entry.Event.ID == event {
			links = append(links, f.link)
		}
	}
	return links
}

// boundAgentHas reports whether an agent whose handle is bound to a DID has the message of a
// step.
func (m *Memory) boundAgentHas(did federation.DID, event federation.EventID) bool {
	return slices.ContainsFunc(m.names, func(b federation.BoundName) bool {
		return b.DID == did && b.Network == agents.Link &&
			slices.ContainsFunc(m.messages, func(on *memoryMessage) bool { return on.To == b.Name && on.Event == event })
	})
}

// delayUnread tells the signers of unread entries. It looks at each entry once.
func (m *Memory) delayUnread(before, now time.Time, limit int) (delayed int) {
	for _, at := range m.arrivals() {
		if delayed == limit {
			break
		}
		row := at.row
		if row.looked || row.read || row.entry.Filed.After(before) {
			continue
		}
		row.looked = true
		ev := row.entry.Event
		if !m.answer(at.to, ev.ID).IsZero() || !m.inboxIsWay(at.to, *row) {
			continue
		}
		row.slow = true
		delayed++
		m.notify(federation.Notice{Kind: federation.NoticeDelayed, Event: ev, To: string(at.to), Why: "it was not read", At: now})
	}
	return delayed
}

// arrival is an entry with the inbox that it is in.
type arrival struct {
	to  federation.DID
	row *inboxRow
}

// arrivals returns the entries of all inboxes as they came.
func (m *Memory) arrivals() []arrival {
	var all []arrival
	for to, inbox := range m.inboxes {
		for i := range inbox {
			all = append(all, arrival{to, &inbox[i]})
		}
	}
	slices.SortFunc(all, func(a, b arrival) int {
		return cmp.Or(a.row.entry.Filed.Compare(b.row.entry.Filed), strings.Compare(string(a.to), string(b.to)))
	})
	return all
}

// readOf returns the state of a step in the inboxes that are its only way to a DID.
func (m *Memory) readOf(event federation.EventID) []federation.Delivered {
	var found []federation.Delivered
	for _, at := range m.arrivals() {
		if at.row.entry.Event.ID != event || !m.inboxIsWay(at.to, *at.row) || m.isPushed(at.to, event) {
			continue
		}
		view := m.views[at.row.entry.Event.Handoff]
		d := federation.Delivered{Event: event, Link: federation.InboxLink, Participant: string(at.to), State: at.row.outcome, Ended: at.row.ended}
		unreadUntil := func(then time.Time) bool { return !at.row.read || at.row.ended.After(then) }
		switch answer := m.answer(at.to, event); {
		case !answer.IsZero() && unreadUntil(answer):
			d.State, d.Ended = federation.DeliveryDelivered, answer
		case unreadUntil(view.Moved) && view.State == federation.Expired && at.row.entry.Version < view.Version:
			d.State, d.Ended = federation.DeliveryExpired, view.Moved
		case !at.row.read:
			d.State = federation.DeliveryWaiting
		}
		found = append(found, d)
	}
	return found
}

// answer returns when a DID answered an offer; zero without an answer, and of every other
// step.
func (m *Memory) answer(did federation.DID, offer federation.EventID) time.Time {
	view := m.views[offer]
	for _, e := range m.entries {
		if e.Event.Handoff == offer && e.Version == view.Answered && view.Assignee == did {
			return e.Filed
		}
	}
	return time.Time{}
}

// isPushed reports whether a webhook of an inbox took a step, or will get it.
func (m *Memory) isPushed(did federation.DID, event federation.EventID) bool {
	return slices.ContainsFunc(m.webhooks, func(h *memoryWebhook) bool {
		return h.DID == did && h.Participant == "" && slices.ContainsFunc(h.pushes, func(p *memoryPush) bool {
			return p.Entry.Event.ID == event && (p.State == federation.DeliveryWaiting || p.State == federation.DeliveryDelivered)
		})
	})
}
