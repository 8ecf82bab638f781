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

// memoryRelay is a row with when it was given up, the zero time while it was not.
type memoryRelay struct {
	federation.Relay
	dead  time.Time
	tries []federation.Try
}

// Enqueue implements [Relays].
func (m *Memory) Enqueue(ctx context.Context, r federation.Relay) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	for _, on := range m.relays {
		if on.Peer == r.Peer && on.Lane == r.Lane && on.Sender == r.Sender && on.Message == r.Message && on.dead.IsZero() {
			return nil
		}
	}
	return m.enqueue(r)
}

func (m *Memory) enqueue(r federation.Relay) error {
	waiting := 0
	for _, on := range m.relays {
		if on.Peer == r.Peer && on.dead.IsZero() {
			waiting++
		}
	}
	if waiting >= federation.MaxRelays {
		return &federation.UnavailableError{What: "registry " + r.Peer, RetryAfter: time.Minute, Err: errors.New("too much waits for it")}
	}
	m.lastRelay++
	r.Row, r.Next, r.Kind = m.lastRelay, r.Queued, cmp.Or(r.Kind, federation.MessageRelay)
	m.relays = append(m.relays, &memoryRelay{Relay: r})
	return nil
}

func (m *Memory) relaysWhere(limit int, fits func(*memoryRelay) bool) []federation.Relay {
	var found []federation.Relay
	for _, on := range m.relays {
		if len(found) < limit && fits(on) {
			found = append(found, on.Relay)
		}
	}
	return found
}

// RelayPeers implements [Relays].
func (m *Memory) RelayPeers(ctx context.Context) ([]federation.RelayPeer, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var peers []federation.RelayPeer
	for _, b := range m.relayBacklogs() {
		if b.Rows > 0 {
			p := m.paused[b.Peer]
			p.Name = b.Peer
			peers = append(peers, p)
		}
	}
	return peers, nil
}

// Pause implements [Relays].
func (m *Memory) Pause(ctx context.Context, p federation.RelayPeer) error {
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

// RelayBacklogs implements [Relays].
func (m *Memory) RelayBacklogs(ctx context.Context) ([]federation.RelayBacklog, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return m.relayBacklogs(), nil
}

func (m *Memory) relayBacklogs() []federation.RelayBacklog {
	of := map[string]*federation.RelayBacklog{}
	for _, on := range m.relays { // the oldest first
		b := of[on.Peer]
		if b == nil {
			b = &federation.RelayBacklog{Peer: on.Peer}
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
	var all []federation.RelayBacklog
	for _, peer := range slices.Sorted(maps.Keys(of)) {
		all = append(all, *of[peer])
	}
	return all
}

// Relays implements [Relays].
func (m *Memory) Relays(ctx context.Context, peer string, after int64, limit int) ([]federation.Relay, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return m.relaysWhere(limit, func(on *memoryRelay) bool { return on.Peer == peer && on.Row > after && on.dead.IsZero() }), nil
}

// Attempted implements [Relays].
func (m *Memory) Attempted(ctx context.Context, row int64, id string, _ time.Time) error {
	return m.relay(ctx, row, func(on *memoryRelay) {
		on.Attempt++
		m.relayIDs[id] = edge{on.Sender, on.Message}
	})
}

// Postpone implements [Relays].
func (m *Memory) Postpone(ctx context.Context, row int64, reason, unsure string, now, next time.Time) error {
	return m.relay(ctx, row, func(on *memoryRelay) {
		on.Reason, on.Unsure, on.Next = reason, unsure, next
		if on.Attempt > 0 {
			on.tries = slices.DeleteFunc(on.tries, func(t federation.Try) bool { return t.Number == on.Attempt })
			on.tries = lastTries(append(on.tries, federation.Try{Number: on.Attempt, At: now, Reason: reason}))
		}
	})
}

// Relayed implements [Relays].
func (m *Memory) Relayed(ctx context.Context, row int64, now time.Time) error {
	return m.relay(ctx, row, func(on *memoryRelay) {
		m.endRemote(on, federation.DeliveryDelivered, now)
		if on.Delayed {
			m.noteRelayed(on, federation.Notice{Kind: federation.NoticeDelivered, At: now})
		}
		m.endRelay(on)
	})
}

func (m *Memory) endRelay(r *memoryRelay) {
	if i, ok := slices.BinarySearchFunc(m.relays, r.Row, byRow); ok {
		m.relays = slices.Delete(m.relays, i, i+1)
	}
}

// byRow is the order of the rows.
func byRow(on *memoryRelay, row int64) int { return cmp.Compare(on.Row, row) }

// Bury implements [Relays].
func (m *Memory) Bury(ctx context.Context, row int64, reason federation.DeadReason, why string, now time.Time) error {
	return m.relay(ctx, row, func(on *memoryRelay) { m.buryRelay(on, federation.Settlement{Dead: reason, Why: why, At: now}) })
}

func (m *Memory) buryRelay(r *memoryRelay, how federation.Settlement) {
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

// Delayed implements [Relays].
func (m *Memory) Delayed(ctx context.Context, row int64, now time.Time) error {
	return m.relay(ctx, row, func(on *memoryRelay) {
		on.Delayed = true
		m.noteRelayed(on, federation.Notice{Kind: federation.NoticeDelayed, Why: on.Reason, At: now})
	})
}

// noteRelayed files a notice about the step that a relay carries, to a signer who is no
// agent here.
func (m *Memory) noteRelayed(r *memoryRelay, n federation.Notice) {
	ev, ok := m.stepOf(r)
	if ok && !slices.ContainsFunc(m.agents, func(a agents.Agent) bool { return a.Handle == r.Sender }) {
		n.Event, n.To = ev, r.Peer
		m.notify(n)
	}
}

func (m *Memory) relay(ctx context.Context, row int64, change func(*memoryRelay)) error {
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

// Slow implements [Relays].
func (m *Memory) Slow(ctx context.Context, queued time.Time, limit int) ([]federation.Relay, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return m.relaysWhere(limit, func(on *memoryRelay) bool {
		return on.Kind == federation.MessageRelay && on.dead.IsZero() && !on.Delayed && !on.Queued.After(queued)
	}), nil
}
