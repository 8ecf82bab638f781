package federationtest

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"baton/federation"
)

// memoryWaiting is a pending delivery: a row of an outbox, or of a peer's.
type memoryWaiting struct {
	federation.Waiting
	row   int64
	relay *memoryPeerDelivery
}

// waitingFor returns the deliveries that match a filter, those to links first.
func (m *Memory) waitingFor(f federation.WaitingFilter) []memoryWaiting {
	var found []memoryWaiting
	for _, w := range m.allWaiting() {
		admitted := (f.Link == "" || f.Link == w.Link) && (f.Peer == "" || f.Peer == w.Peer) && (f.Link == "" || w.Peer == "") &&
			(f.Peer == "" || w.Link == "") && (f.Handoff.IsZero() || f.Handoff == w.Handoff) &&
			(f.Before.IsZero() || !w.Queued.After(f.Before)) && (f.ID == "" || f.ID == w.Event.String() || f.ID == w.Message)
		if admitted {
			found = append(found, w)
		}
	}
	return found
}

func (m *Memory) allWaiting() []memoryWaiting {
	var all []memoryWaiting
	seen := map[string]bool{}
	for _, f := range m.outboxes {
		key := f.link + " " + f.entry.Event.Handoff.String()
		all = append(all, memoryWaiting{row: f.row, Waiting: federation.Waiting{
			Link: f.link, Event: f.entry.Event.ID, Handoff: f.entry.Event.Handoff, Verb: f.entry.Event.Verb,
			Queued: f.queued, Attempt: f.attempt, Next: f.next, Reason: f.reason, Behind: seen[key],
		}})
		seen[key] = true
	}
	slices.SortStableFunc(all, func(a, b memoryWaiting) int { return cmp.Compare(a.Link, b.Link) })
	for _, r := range m.relays {
		if !r.dead.IsZero() {
			continue
		}
		key := r.Peer + " " + r.OrderKey
		w := memoryWaiting{row: r.Row, relay: r, Waiting: federation.Waiting{
			Peer: r.Peer, Message: r.Message, Handoff: r.Handoff, Queued: r.Queued, Attempt: r.Attempt, Next: r.Next, Reason: r.Reason, Behind: seen[key],
		}}
		if ev, ok := m.stepOf(r); ok {
			w.Event, w.Verb = ev.ID, ev.Verb
		}
		all = append(all, w)
		seen[key] = true
	}
	return all
}

// stepOf returns the step that a relay carries.
func (m *Memory) stepOf(r *memoryPeerDelivery) (federation.Event, bool) {
	for _, message := range slices.Backward(m.messages) {
		if message.ID != r.Message || message.From != r.Sender || message.Event.IsZero() {
			continue
		}
		for _, entry := range m.entries {
			if entry.Event.Handoff == message.Handoff && entry.Event.ID == message.Event {
				return entry.Event, true
			}
		}
	}
	return federation.Event{}, false
}

// WaitingFor implements [Waits].
func (m *Memory) WaitingFor(ctx context.Context, f federation.WaitingFilter, after federation.Cursor, limit int) ([]federation.Waiting, federation.Cursor, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, "", err
	}
	from := 0
	if after != "" {
		if from, err = strconv.Atoi(string(after)); err != nil {
			return nil, "", federation.ErrUnknownCursor
		}
	}
	all := m.waitingFor(f)
	var found []federation.Waiting
	for _, w := range all[min(from, len(all)):min(from+limit, len(all))] {
		found = append(found, w.Waiting)
	}
	if from+limit < len(all) {
		return found, federation.Cursor(strconv.Itoa(from + limit)), nil
	}
	return found, "", nil
}

// Shapes implements [Waits].
func (m *Memory) Shapes(ctx context.Context, now time.Time) ([]federation.Shape, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var shapes []federation.Shape
	for _, w := range m.allWaiting() {
		i := slices.IndexFunc(shapes, func(s federation.Shape) bool { return s.Link == w.Link && s.Peer == w.Peer })
		if i < 0 {
			i = len(shapes)
			shapes = append(shapes, federation.Shape{Link: w.Link, Peer: w.Peer, Oldest: w.Queued})
		}
		s := &shapes[i]
		s.Rows++
		if w.Queued.Before(s.Oldest) {
			s.Oldest = w.Queued
		}
		age := 0
		for _, border := range federation.ShapeAges() {
			if now.Sub(w.Queued) >= border {
				age++
			}
		}
		s.Ages[age]++
	}
	slices.SortFunc(shapes, func(a, b federation.Shape) int {
		return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Link, b.Link))
	})
	return shapes, nil
}

// Retry implements [Waits].
func (m *Memory) Retry(ctx context.Context, f federation.WaitingFilter, now time.Time) (int, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	all := m.waitingFor(f)
	for _, w := range all {
		if w.relay != nil {
			w.relay.Next = now
		}
		for i := range m.outboxes {
			if m.outboxes[i].row == w.row && m.outboxes[i].link == w.Link {
				m.outboxes[i].next = time.Time{}
			}
		}
	}
	return len(all), nil
}

// GiveUp implements [Waits].
func (m *Memory) GiveUp(ctx context.Context, f federation.WaitingFilter, drop bool, reason string, now time.Time) (int, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	how := federation.Settlement{
		State: federation.DeliveryDead, Dead: federation.DeadOperator, Quiet: drop, At: now, Why: cmp.Or(reason, "an operator gave it up"),
	}
	if drop {
		how.Dead = ""
	}
	all := m.waitingFor(f)
	for _, w := range all {
		switch {
		case w.relay != nil && drop:
			m.endPeerDelivery(w.relay)
		case w.relay != nil:
			m.buryPeerDelivery(w.relay, how)
		default:
			m.settle(func(f *outboxRow) bool { return f.row == w.row && f.link == w.Link }, how)
		}
	}
	return len(all), nil
}

// Hold implements [Waits].
func (m *Memory) Hold(ctx context.Context, h federation.Withheld) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	if i := m.withheld(h.To); i >= 0 {
		m.holds[i].Reason = h.Reason
		return nil
	}
	m.holds = append(m.holds, h)
	slices.SortFunc(m.holds, func(a, b federation.Withheld) int { return cmp.Compare(a.To, b.To) })
	return nil
}

// Release implements [Waits].
func (m *Memory) Release(ctx context.Context, to string) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	i := m.withheld(to)
	if i < 0 {
		return federation.ErrNotFound
	}
	m.holds = slices.Delete(m.holds, i, i+1)
	return nil
}

// Holds implements [Waits].
func (m *Memory) Holds(ctx context.Context) ([]federation.Withheld, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	return slices.Clone(m.holds), err
}

// Held implements [Outbox].
func (m *Memory) Held(ctx context.Context, to string) (federation.Withheld, bool, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if i := m.withheld(to); err == nil && i >= 0 {
		return m.holds[i], true, nil
	}
	return federation.Withheld{}, false, err
}

func (m *Memory) withheld(to string) int {
	return slices.IndexFunc(m.holds, func(h federation.Withheld) bool { return h.To == to })
}
