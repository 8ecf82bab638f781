package federationtest

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"baton/federation"
)

// Outbox implements [Outbox].
func (m *Memory) Outbox(ctx context.Context, link string, after int64, limit int) ([]federation.Delivery, error) {
	return m.deliveriesOf(ctx, limit, func(f *outboxRow) bool { return f.link == link && f.row > after })
}

// PendingOf implements [Outbox].
func (m *Memory) PendingOf(ctx context.Context, link string, id federation.HandoffID, limit int) ([]federation.Delivery, error) {
	found, err := m.deliveriesOf(ctx, math.MaxInt, func(f *outboxRow) bool { return f.link == link && f.entry.Event.Handoff == id })
	slices.SortStableFunc(found, func(a, b federation.Delivery) int { return cmp.Compare(waitsForParty(a), waitsForParty(b)) })
	return found[:min(max(limit, 0), len(found))], err
}

// waitsForParty is 1 for a row that is sorted behind the others, else 0.
func waitsForParty(d federation.Delivery) int {
	if d.Personal && !d.Next.IsZero() {
		return 1
	}
	return 0
}

func (m *Memory) deliveriesOf(ctx context.Context, limit int, wanted func(*outboxRow) bool) ([]federation.Delivery, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var found []federation.Delivery
	for i := range m.outboxes {
		if f := &m.outboxes[i]; wanted(f) && len(found) < limit {
			found = append(found, federation.Delivery{
				Row: f.row, Entry: f.entry, View: m.views[f.entry.Event.Handoff], Attempt: f.attempt, Next: f.next, Reason: f.reason,
				Personal: f.rank == federation.RankPersonal,
			})
		}
	}
	return found, nil
}

// CountPending implements [Outbox].
func (m *Memory) CountPending(ctx context.Context, link string, id federation.HandoffID) (int, error) {
	rows, err := m.PendingOf(ctx, link, id, math.MaxInt)
	return len(rows), err
}

// heads returns the first row of each handoff of a link, and the rows that wait for a party.
func (m *Memory) heads(link string) []*outboxRow {
	var heads []*outboxRow
	seen := map[federation.HandoffID]bool{}
	for i := range m.outboxes {
		f := &m.outboxes[i]
		switch personal := f.rank == federation.RankPersonal; {
		case f.link != link || !personal && seen[f.entry.Event.Handoff]:
		case personal:
			heads = append(heads, f)
		default:
			seen[f.entry.Event.Handoff] = true
			heads = append(heads, f)
		}
	}
	slices.SortStableFunc(heads, func(a, b *outboxRow) int { return cmp.Compare(a.rank, b.rank) })
	return heads
}

// Heads implements [Outbox].
func (m *Memory) Heads(ctx context.Context, link string, now time.Time, limit int) ([]federation.HandoffID, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var due []federation.HandoffID
	if m.withheld(link) >= 0 {
		return due, nil
	}
	for _, f := range m.heads(link) {
		if !f.next.After(now) && len(due) < limit && !slices.Contains(due, f.entry.Event.Handoff) {
			due = append(due, f.entry.Event.Handoff)
		}
	}
	return due, nil
}

// Turn implements [Outbox].
func (m *Memory) Turn(ctx context.Context, link string, after federation.DID, now time.Time, limit int) (federation.Turn, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil || m.withheld(link) >= 0 {
		return federation.Turn{}, err
	}
	lanes := map[federation.DID][]federation.HandoffID{}
	for _, f := range m.heads(link) {
		if ev := f.entry.Event; !f.next.After(now) && !slices.Contains(lanes[ev.From], ev.Handoff) {
			lanes[ev.From] = append(lanes[ev.From], ev.Handoff)
		}
	}
	senders := slices.Sorted(maps.Keys(lanes))
	if len(senders) == 0 {
		return federation.Turn{}, nil
	}
	next, found := slices.BinarySearch(senders, after)
	if found {
		next++
	}
	turn := federation.Turn{Sender: senders[next%len(senders)]}
	turn.Lanes = lanes[turn.Sender][:min(max(limit, 0), len(lanes[turn.Sender]))]
	return turn, nil
}

// Stuck implements [Outbox].
func (m *Memory) Stuck(ctx context.Context, link string, did federation.DID, now time.Time) (federation.HandoffID, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.HandoffID{}, err
	}
	heads := slices.DeleteFunc(m.heads(link), func(f *outboxRow) bool { return !f.next.After(now) })
	if len(heads) == 0 {
		return federation.HandoffID{}, federation.ErrNotFound
	}
	for _, f := range heads {
		if id := f.entry.Event.Handoff; slices.Contains(m.views[id].Others(""), did) {
			return id, nil
		}
	}
	next := slices.MinFunc(heads, func(a, b *outboxRow) int { return a.next.Compare(b.next) })
	return next.entry.Event.Handoff, nil
}

// Attempt implements [Outbox].
func (m *Memory) Attempt(ctx context.Context, link string, rows []int64) error {
	return m.changeOutbox(ctx, link, rows, func(f *outboxRow) { f.attempt++ })
}

// Failed implements [Outbox].
func (m *Memory) Failed(ctx context.Context, link string, row int64, failure federation.Failure) error {
	return m.changeOutbox(ctx, link, []int64{row}, func(f *outboxRow) {
		if !failure.Counted {
			f.attempt++
		}
		f.reason, f.next = failure.Reason, failure.Next
		if failure.Personal {
			f.rank = federation.RankPersonal
		}
		f.tries = lastTries(append(f.tries, federation.Try{Number: f.attempt, At: failure.At, Reason: failure.Reason}))
	})
}

func lastTries(tries []federation.Try) []federation.Try {
	return tries[max(0, len(tries)-federation.MaxTries):]
}

// Hurry implements [Outbox].
func (m *Memory) Hurry(ctx context.Context, link string) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	for i := range m.outboxes {
		if m.outboxes[i].link == link {
			m.outboxes[i].next = time.Time{}
		}
	}
	return nil
}

func (m *Memory) changeOutbox(ctx context.Context, link string, rows []int64, change func(*outboxRow)) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	for i := range m.outboxes {
		if f := &m.outboxes[i]; f.link == link && slices.Contains(rows, f.row) {
			change(f)
		}
	}
	return nil
}

// Settle implements [Outbox].
func (m *Memory) Settle(ctx context.Context, link string, rows []int64, how federation.Settlement) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	m.settle(func(f *outboxRow) bool { return f.link == link && slices.Contains(rows, f.row) }, how)
	return nil
}

// settle ends the rows that are wanted, and returns how many.
func (m *Memory) settle(wanted func(*outboxRow) bool, how federation.Settlement) (ended int) {
	m.outboxes = slices.DeleteFunc(m.outboxes, func(f outboxRow) bool {
		if !wanted(&f) {
			return false
		}
		ended++
		m.settled = append(m.settled, settledRow{event: f.entry.Event.ID, link: f.link, how: how, row: f})
		if how.Shown {
			m.show(f.link, f.entry.Event.ID, how.At)
		}
		if how.Dead != "" {
			m.bury(memoryDead{feed: &f}, federation.DeadLetter{
				To: f.link, Event: f.entry.Event.ID, Handoff: f.entry.Event.Handoff, Verb: f.entry.Event.Verb, Attempt: f.attempt, Queued: f.queued,
				Raw: []byte(f.entry.Event.Signature.Document), Signature: f.entry.Event.Signature.Text, Tries: f.tries,
			}, how)
		}
		m.noteEnd(f, how)
		return true
	})
	return ended
}

// Given implements [Outbox].
func (m *Memory) Given(ctx context.Context, link string, since time.Time, limit int) ([]federation.Given, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var done []federation.Given
	for _, s := range m.settled {
		if s.link == link && s.how.Outcome() == federation.DeliveryDelivered && !s.how.At.Before(since) {
			d := federation.Delivery{Row: s.row.row, Entry: s.row.entry, View: m.views[s.row.entry.Event.Handoff]}
			done = append(done, federation.Given{Delivery: d, At: s.how.At})
		}
	}
	slices.SortStableFunc(done, func(a, b federation.Given) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Row, b.Row))
	})
	return done[:min(max(limit, 0), len(done))], nil
}

// noteEnd files what the signer of a step is told of the end of a delivery.
func (m *Memory) noteEnd(f outboxRow, how federation.Settlement) {
	n := federation.Notice{Kind: federation.NoticeUndeliverable, Event: f.entry.Event, To: f.link, Code: how.Code, Why: how.Why, At: how.At}
	if how.Outcome() == federation.DeliveryDelivered {
		n.Kind = federation.NoticeDelivered
	}
	if how.Dead != "" {
		n.Code = string(how.Dead)
	}
	if !how.Quiet && f.entry.Version > 0 && (f.delayed || n.Kind != federation.NoticeDelivered) {
		m.notify(n)
	}
}

// Delay implements [Outbox].
func (m *Memory) Delay(ctx context.Context, before, now time.Time, limit int) (delayed int, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	for i := range m.outboxes {
		f := &m.outboxes[i]
		if f.delayed || f.queued.After(before) || delayed >= limit {
			continue
		}
		f.delayed = true
		delayed++
		if f.entry.Version > 0 {
			m.notify(federation.Notice{Kind: federation.NoticeDelayed, Event: f.entry.Event, To: f.link, Why: f.reason, At: now})
		}
	}
	delayed += m.delayHandOuts(before, now, limit-delayed)
	return delayed + m.delayUnread(before, now, limit-delayed), nil
}

// Expire implements [Outbox].
func (m *Memory) Expire(ctx context.Context, before, now time.Time, limit int) (expired int, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	how := federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadExpired, Why: "it waited too long", At: now}
	taken := 0
	expired = m.settle(func(f *outboxRow) bool {
		old := !f.queued.After(before) && taken < limit
		if old {
			taken++
		}
		return old
	}, how)
	return expired + m.expireHandOuts(before, now, limit-expired), nil
}

// show notes that the people of a link have been shown a step.
func (m *Memory) show(link string, id federation.EventID, now time.Time) {
	for did, inbox := range m.inboxes {
		for i, row := range inbox {
			if m.bindings[did].Link == link && row.entry.Event.ID == id {
				m.end(did, &inbox[i], shownByLink, now)
			}
		}
	}
}
