package federationtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"baton/federation"
)

// memoryDead is a dead letter with the delivery that it puts back: to a link, to a peer of a
// network, or to a webhook.
type memoryDead struct {
	letter  federation.DeadLetter
	feed    *outboxRow
	relay   *memoryPeerDelivery
	push    *memoryPush
	webhook *memoryWebhook
}

// bury files a dead letter. One that had been put back is dead again.
func (m *Memory) bury(d memoryDead, letter federation.DeadLetter, how federation.Settlement) {
	letter.Reason, letter.Why, letter.Died = how.Dead, how.Why, how.At
	d.letter = letter
	for _, on := range m.dead {
		if on.letter.To == letter.To && on.letter.Event == letter.Event && on.letter.Message == letter.Message {
			d.letter.ID = on.letter.ID
			*on = d
			return
		}
	}
	m.lastDead++
	d.letter.ID = m.lastDead
	m.dead = append(m.dead, &d)
}

// DeadLetters implements [DeadLetters].
func (m *Memory) DeadLetters(ctx context.Context, f federation.DeadFilter, before int64, limit int) ([]federation.DeadLetter, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var found []federation.DeadLetter
	for _, d := range slices.Backward(m.dead) {
		l := d.letter
		if l.Replayed.IsZero() && (before == 0 || l.ID < before) && (f.Reason == "" || f.Reason == l.Reason) && (f.To == "" || f.To == l.To) && len(found) < limit {
			l.Raw, l.Signature, l.Tries = nil, "", nil
			found = append(found, l)
		}
	}
	return found, nil
}

func (m *Memory) deadLetter(id int64) *memoryDead {
	if i := slices.IndexFunc(m.dead, func(d *memoryDead) bool { return d.letter.ID == id }); i >= 0 {
		return m.dead[i]
	}
	return nil
}

// DeadLetter implements [DeadLetters].
func (m *Memory) DeadLetter(ctx context.Context, id int64) (federation.DeadLetter, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.DeadLetter{}, err
	}
	if d := m.deadLetter(id); d != nil {
		return d.letter, nil
	}
	return federation.DeadLetter{}, federation.ErrNotFound
}

// Revive implements [DeadLetters].
func (m *Memory) Revive(ctx context.Context, id int64, now time.Time) (bool, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return false, err
	}
	d := m.deadLetter(id)
	switch {
	case d == nil:
		return false, federation.ErrNotFound
	case !d.letter.Replayed.IsZero(), d.webhook != nil && !d.webhook.Disabled.IsZero():
		return false, nil
	}
	d.letter.Replayed = now
	if d.relay != nil {
		d.relay.dead, d.relay.Next, d.relay.Queued, d.relay.Attempt = time.Time{}, now, now, 0
		return true, nil
	}
	if d.push != nil {
		d.push.again(now)
		return true, nil
	}
	m.settled = slices.DeleteFunc(m.settled, func(s settledRow) bool { return s.event == d.letter.Event && s.link == d.letter.To })
	m.outboxes = append(m.outboxes, outboxRow{row: d.feed.row, link: d.feed.link, entry: d.feed.entry, rank: federation.RankAnswer, queued: now, tries: d.feed.tries})
	slices.SortFunc(m.outboxes, func(a, b outboxRow) int { return cmp.Compare(a.row, b.row) })
	return true, nil
}

// Discard implements [DeadLetters].
func (m *Memory) Discard(ctx context.Context, id int64, now time.Time) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	d := m.deadLetter(id)
	if d == nil {
		return federation.ErrNotFound
	}
	if d.feed != nil && d.letter.Replayed.IsZero() && d.feed.entry.Version > 0 {
		m.notify(federation.Notice{
			Kind: federation.NoticeUndeliverable, Event: d.feed.entry.Event, To: d.letter.To, Code: string(federation.DeadOperator), At: now,
		})
	}
	m.forgetDead(func(on *memoryDead) bool { return on == d })
	return nil
}

// forgetDead forgets dead letters with what is kept for them alone.
func (m *Memory) forgetDead(wanted func(*memoryDead) bool) {
	m.dead = slices.DeleteFunc(m.dead, func(d *memoryDead) bool {
		gone := wanted(d)
		if gone && d.relay != nil && !d.relay.dead.IsZero() {
			m.endPeerDelivery(d.relay)
		}
		return gone
	})
}

// CountDead implements [DeadLetters].
func (m *Memory) CountDead(ctx context.Context) (map[federation.DeadReason]int, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	counts := make(map[federation.DeadReason]int, len(federation.DeadReasons()))
	for _, reason := range federation.DeadReasons() {
		counts[reason] = 0
	}
	for _, d := range m.dead {
		if d.letter.Replayed.IsZero() {
			counts[d.letter.Reason]++
		}
	}
	return counts, nil
}

// PruneDead implements [DeadLetters].
func (m *Memory) PruneDead(ctx context.Context, before time.Time, limit int) (pruned int, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	m.forgetDead(func(d *memoryDead) bool {
		old := !d.letter.Died.After(before) && pruned < limit
		if old {
			pruned++
		}
		return old
	})
	return pruned, nil
}
