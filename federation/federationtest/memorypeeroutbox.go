package federationtest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// memoryPeerDelivery is a row with when it was given up, the zero time while it was not.
type memoryPeerDelivery struct {
	federation.PeerDelivery
	dead  time.Time
	tries []federation.Try
}

// Enqueue implements [PeerOutboxes].
func (m *Memory) Enqueue(ctx context.Context, r federation.PeerDelivery) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	for _, on := range m.relays {
		if on.Peer == r.Peer && on.OrderKey == r.OrderKey && on.Sender == r.Sender && on.Message == r.Message && on.dead.IsZero() {
			return nil
		}
	}
	return m.enqueue(r)
}

func (m *Memory) enqueue(r federation.PeerDelivery) error {
	waiting := 0
	for _, on := range m.relays {
		if on.Peer == r.Peer && on.dead.IsZero() {
			waiting++
		}
	}
	if waiting >= federation.MaxPeerDeliveries {
		return &federation.UnavailableError{What: "registry " + r.Peer, RetryAfter: time.Minute, Err: errors.New("too much waits for it")}
	}
	m.lastRelay++
	r.Row, r.Next, r.Kind = m.lastRelay, r.Queued, cmp.Or(r.Kind, federation.MessageDelivery)
	m.relays = append(m.relays, &memoryPeerDelivery{PeerDelivery: r})
	return nil
}

func (m *Memory) relaysWhere(limit int, fits func(*memoryPeerDelivery) bool) []federation.PeerDelivery {
	var found []federation.PeerDelivery
	for _, on := range m.relays {
		if len(found) < limit && fits(on) {
			found = append(found, on.PeerDelivery)
		}
	}
	return found
}

// PeerOutboxes implements [PeerOutboxes].
func (m *Memory) PeerOutboxes(ctx context.Context) ([]federation.PeerOutbox, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var peers []federation.PeerOutbox
	for _, b := range m.relayBacklogs() {
		if b.Rows > 0 {
			p := m.paused[b.Peer]
			p.Name = b.Peer
			peers = append(peers, p)
		}
	}
	return peers, nil
}

// Pause implements [PeerOutboxes].
func (m *Memory) Pause(ctx context.Context, p federation.PeerOutbox) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	delete(m.paused, p.Name)
	if p.Failures > 0 {
		m.paused[p.Name] = p
	}
	return nil
}

// PeerBacklogs implements [PeerOutboxes].
func (m *Memory) PeerBacklogs(ctx context.Context) ([]federation.PeerBacklog, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return m.relayBacklogs(), nil
}

func (m *Memory) relayBacklogs() []federation.PeerBacklog {
	of := map[string]*federation.PeerBacklog{}
	for _, on := range m.relays { // the oldest first
		b := of[on.Peer]
		if b == nil {
			b = &federation.PeerBacklog{Peer: on.Peer}
			of[on.Peer] = b
		}
		switch {
		case !on.dead.IsZero():
			b.Dead++
		case b.Rows == 0:
			b.Oldest = on.Queued
			fallthrough
		default:
			b.Rows++
		}
	}
	var all []federation.PeerBacklog
	for _, peer := range slices.Sorted(maps.Keys(of)) {
		all = append(all, *of[peer])
	}
	return all
}

// PeerDeliveries implements [PeerOutboxes].
func (m *Memory) PeerDeliveries(ctx context.Context, peer string, after int64, limit int) ([]federation.PeerDelivery, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return m.relaysWhere(limit, func(on *memoryPeerDelivery) bool { return on.Peer == peer && on.Row > after && on.dead.IsZero() }), nil
}

// PeerQueue implements [PeerOutboxes].
func (m *Memory) PeerQueue(ctx context.Context, peer string, after int64, limit int) ([]federation.PeerDelivery, error) {
	rows, err := m.PeerDeliveries(ctx, peer, after, limit)
	for i := range rows {
		rows[i].Document = nil
	}
	return rows, err
}

// Attempted implements [PeerOutboxes].
func (m *Memory) Attempted(ctx context.Context, row int64, id string, _ time.Time) error {
	return m.relay(ctx, row, func(on *memoryPeerDelivery) {
		on.Attempt++
		m.relayIDs[id] = edge{on.Sender, on.Message}
	})
}

// Postpone implements [PeerOutboxes].
func (m *Memory) Postpone(ctx context.Context, row int64, reason, unsure string, now, next time.Time) error {
	return m.relay(ctx, row, func(on *memoryPeerDelivery) {
		on.Reason, on.Unsure, on.Next = reason, unsure, next
		if on.Attempt > 0 {
			on.tries = slices.DeleteFunc(on.tries, func(t federation.Try) bool { return t.Number == on.Attempt })
			on.tries = lastTries(append(on.tries, federation.Try{Number: on.Attempt, At: now, Reason: reason}))
		}
	})
}

// PeerTook implements [PeerOutboxes].
func (m *Memory) PeerTook(ctx context.Context, row int64, now time.Time) error {
	return m.relay(ctx, row, func(on *memoryPeerDelivery) {
		m.endRemote(on, federation.DeliveryDelivered, now)
		if on.Delayed {
			m.noteRelayed(on, federation.Notice{Kind: federation.NoticeDelivered, At: now})
		}
		m.endPeerDelivery(on)
	})
}

func (m *Memory) endPeerDelivery(r *memoryPeerDelivery) {
	if i, ok := slices.BinarySearchFunc(m.relays, r.Row, byRow); ok {
		m.relays = slices.Delete(m.relays, i, i+1)
	}
}

// byRow is the order of the rows.
func byRow(on *memoryPeerDelivery, row int64) int { return cmp.Compare(on.Row, row) }

// Bury implements [PeerOutboxes].
func (m *Memory) Bury(ctx context.Context, row int64, reason federation.DeadReason, why string, now time.Time) error {
	return m.relay(ctx, row, func(on *memoryPeerDelivery) {
		m.buryPeerDelivery(on, federation.Settlement{Dead: reason, Why: why, At: now})
	})
}

func (m *Memory) buryPeerDelivery(r *memoryPeerDelivery, how federation.Settlement) {
	r.Reason, r.dead = how.Why, how.At
	m.endRemote(r, federation.DeliveryDead, how.At)
	letter := federation.DeadLetter{
		To: r.Peer, ToPeer: true, Handoff: r.Handoff, Message: r.Message, Attempt: r.Attempt, Queued: r.Queued, Raw: r.Document, Tries: r.tries,
	}
	if ev, ok := m.stepOf(r); ok {
		letter.Event, letter.Handoff, letter.Verb = ev.ID, ev.Handoff, ev.Verb
	}
	m.bury(memoryDead{relay: r}, letter, how)
	if !how.Quiet {
		m.noteRelayed(r, federation.Notice{Kind: federation.NoticeUndeliverable, Code: string(how.Dead), Why: how.Why, At: how.At})
	}
}

// Delayed implements [PeerOutboxes].
func (m *Memory) Delayed(ctx context.Context, row int64, now time.Time) error {
	return m.relay(ctx, row, func(on *memoryPeerDelivery) {
		on.Delayed = true
		m.noteRelayed(on, federation.Notice{Kind: federation.NoticeDelayed, Why: on.Reason, At: now})
	})
}

// noteRelayed files a notice about the step that a delivery carries, to a signer that is no
// agent here.
func (m *Memory) noteRelayed(r *memoryPeerDelivery, n federation.Notice) {
	ev, ok := m.stepOf(r)
	if ok && !slices.ContainsFunc(m.agents, func(a agents.Agent) bool { return a.Handle == r.Sender }) {
		n.Event, n.To = ev, r.Peer
		m.notify(n)
	}
}

func (m *Memory) relay(ctx context.Context, row int64, change func(*memoryPeerDelivery)) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	if i, ok := slices.BinarySearchFunc(m.relays, row, byRow); ok && m.relays[i].dead.IsZero() {
		change(m.relays[i])
	}
	return nil
}

// Slow implements [PeerOutboxes].
func (m *Memory) Slow(ctx context.Context, queued time.Time, limit int) ([]federation.PeerDelivery, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return m.relaysWhere(limit, func(on *memoryPeerDelivery) bool {
		return on.Kind == federation.MessageDelivery && on.dead.IsZero() && !on.Delayed && !on.Queued.After(queued)
	}), nil
}
