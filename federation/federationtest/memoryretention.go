package federationtest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// memoryEvidence is evidence with the handoff that first named it.
type memoryEvidence struct {
	handoff federation.HandoffID
	bytes   []byte
}

// memoryTombstone is an event that is gone.
type memoryTombstone struct {
	from    federation.DID
	id      federation.EventID
	digest  [32]byte
	handoff federation.HandoffID
	gone    time.Time
}

// hasTombstone refuses a step that is gone, and returns [federation.ErrNotFound] for
// any other.
func (m *Memory) hasTombstone(from federation.DID, id federation.EventID, digest [32]byte) error {
	for _, sp := range m.tombstones {
		if sp.from == from && sp.id == id && sp.digest != digest {
			return &federation.RefusalError{Code: federation.EventIDInUse, Event: id, Handoff: sp.handoff}
		}
	}
	for _, sp := range m.tombstones {
		if sp.from == from && sp.digest == digest {
			return &federation.RefusalError{Code: federation.TerminalHandoff, Event: id, Handoff: sp.handoff}
		}
	}
	return federation.ErrNotFound
}

// opensAgain refuses the opener of a handoff that is gone.
func (m *Memory) opensAgain(ev federation.Event) error {
	if ev.ID == ev.Handoff && slices.ContainsFunc(m.tombstones, func(sp memoryTombstone) bool { return sp.id == ev.ID }) {
		return federation.Refuse(ev, federation.EventIDInUse, "")
	}
	return nil
}

// Prune implements [Retention].
func (m *Memory) Prune(ctx context.Context, before, now time.Time, after federation.Cursor, limit int) (pruned int, next federation.Cursor, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, "", err
	}
	if after != "" && !strings.HasPrefix(string(after), "moved ") {
		return 0, "", federation.ErrUnknownCursor
	}
	var page []federation.View
	for _, v := range m.views {
		if v.Over && !v.Moved.After(before) && movement(v) > string(after) {
			page = append(page, v)
		}
	}
	slices.SortFunc(page, func(a, b federation.View) int { return strings.Compare(movement(a), movement(b)) })
	if page = page[:min(max(limit, 0), len(page))]; len(page) > 0 {
		next = federation.Cursor(movement(page[len(page)-1]))
	}
	for _, v := range page {
		if !m.needed(v.ID) {
			m.prune(v.ID, now)
			pruned++
		}
	}
	return pruned, next, nil
}

// needed reports whether a handoff has to stay.
func (m *Memory) needed(id federation.HandoffID) bool {
	return m.entries[len(m.entries)-1].Event.Handoff == id ||
		slices.ContainsFunc(m.outboxes, func(row outboxRow) bool { return row.entry.Event.Handoff == id })
}

func (m *Memory) prune(id federation.HandoffID, now time.Time) {
	m.entries = slices.DeleteFunc(m.entries, func(e federation.Entry) bool {
		if e.Event.Handoff == id {
			m.tombstones = append(m.tombstones, memoryTombstone{e.Event.From, e.Event.ID, e.Event.Digest(), id, now})
		}
		return e.Event.Handoff == id
	})
	for did, inbox := range m.inboxes {
		m.inboxes[did] = slices.DeleteFunc(inbox, func(row inboxRow) bool { return row.entry.Event.Handoff == id })
	}
	for digest, e := range m.evidence {
		if e.handoff == id {
			delete(m.evidence, digest)
		}
	}
	m.messages = slices.DeleteFunc(m.messages, func(on *memoryMessage) bool { return on.Handoff == id && !m.isNewest(on) })
	m.homes.forget(id)
	m.unpush(id)
	m.unclaimBlobs(id)
	delete(m.views, id)
}

// isNewest reports whether nothing came after a message in its inbox, or in its
// thread.
func (m *Memory) isNewest(on *memoryMessage) bool {
	inbox, thread := on.position > 0, on.position > 0
	for _, other := range m.messages {
		inbox = inbox && (other.To != on.To || other.position <= on.position)
		same := edge{other.From, other.To} == edge{on.From, on.To} || edge{other.To, other.From} == edge{on.From, on.To}
		thread = thread && (!same || other.Seq <= on.Seq)
	}
	return inbox || thread
}

// PruneMessages implements [Retention].
func (m *Memory) PruneMessages(ctx context.Context, before time.Time, after federation.Cursor, limit int) (pruned int, next federation.Cursor, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, "", err
	}
	n := 0
	if after != "" {
		if n, err = strconv.Atoi(string(after)); err != nil {
			return 0, "", federation.ErrUnknownCursor
		}
	}
	for i, on := range slices.Clone(m.messages) {
		// Positions shift as messages go, so the cursor counts the messages that stay.
		if i < n || i >= n+limit || on.Received.After(before) {
			continue
		}
		if m.done(on) && !m.isNewest(on) {
			m.messages = slices.DeleteFunc(m.messages, func(other *memoryMessage) bool { return other == on })
			pruned++
		}
		next = federation.Cursor(strconv.Itoa(i + 1 - pruned))
	}
	return pruned, next, nil
}

// done reports whether a message was handed to its recipient, or has none here, and
// is of no handoff that goes on.
func (m *Memory) done(on *memoryMessage) bool {
	registered := slices.ContainsFunc(m.agents, func(a agents.Agent) bool { return a.Handle == on.To })
	v := m.views[on.Handoff]
	return on.position > 0 && (on.deleted || on.read || !registered || on.position <= m.shown[on.To]) && (!v.Exists() || v.Over)
}

// PruneIDs implements [Retention].
func (m *Memory) PruneIDs(ctx context.Context, before time.Time, limit int) (int, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	pruned := 0
	m.tombstones = slices.DeleteFunc(m.tombstones, func(sp memoryTombstone) bool {
		gone := !sp.gone.After(before) && pruned < limit
		if gone {
			pruned++
		}
		return gone
	})
	return pruned, nil
}
