package federationtest

import (
	"context"
	"slices"
	"time"

	"baton/federation"
)

// Defer implements [federation.Deferrals].
func (m *Memory) Defer(ctx context.Context, d federation.Deferred, limits federation.DeferralLimits) (federation.Deferred, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Deferred{}, err
	}
	ofOrigin, ofUser, name := 0, 0, d.Event.Arrival.Name
	for _, each := range m.deferred {
		ev := each.Event
		if ev.From == d.Event.From && ev.Signature.Text == d.Event.Signature.Text && ev.Digest() == d.Event.Digest() {
			return each, nil
		}
		if each.Origin == d.Origin {
			ofOrigin++
		}
		if each.Origin == d.Origin && name != "" && ev.Arrival.Name == name {
			ofUser++
		}
	}
	if limits.PerUser > 0 && ofUser >= limits.PerUser {
		return federation.Deferred{}, federation.ErrDeferralFull
	}
	if limits.PerOrigin > 0 && ofOrigin >= limits.PerOrigin || limits.Total > 0 && len(m.deferred) >= limits.Total {
		return federation.Deferred{}, federation.ErrDeferralFull
	}
	if evidence := d.Event.Evidence; evidence != nil && evidence.Bytes != nil {
		m.keep(d.Event.Handoff, *evidence)
	}
	m.lastDeferred++
	d.Row, d.Event = m.lastDeferred, bare(d.Event)
	m.deferred = append(m.deferred, d)
	return d, nil
}

// DeferredIn implements [federation.Deferrals].
func (m *Memory) DeferredIn(ctx context.Context, id federation.HandoffID) ([]federation.Deferred, error) {
	return m.deferredWhere(ctx, func(d federation.Deferred) bool { return d.Event.Handoff == id })
}

func (m *Memory) deferredWhere(ctx context.Context, fits func(federation.Deferred) bool) ([]federation.Deferred, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var found []federation.Deferred
	for _, d := range m.deferred {
		if fits(d) {
			found = append(found, d)
		}
	}
	return found, nil
}

// DeferredDue implements [federation.Deferrals].
func (m *Memory) DeferredDue(ctx context.Context, at time.Time, limit int) ([]federation.HandoffID, error) {
	due, err := m.deferredWhere(ctx, func(d federation.Deferred) bool { return !d.Next.After(at) })
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(due, func(a, b federation.Deferred) int { return a.Next.Compare(b.Next) })
	var ids []federation.HandoffID
	for _, d := range due {
		if !slices.Contains(ids, d.Event.Handoff) {
			ids = append(ids, d.Event.Handoff)
		}
	}
	return ids[:max(0, min(limit, len(ids)))], nil
}

// DeferredStep implements [federation.Deferrals].
func (m *Memory) DeferredStep(ctx context.Context, id federation.EventID) (federation.Deferred, error) {
	found, err := m.deferredWhere(ctx, func(d federation.Deferred) bool { return d.Event.ID == id })
	if err == nil && len(found) == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return federation.Deferred{}, err
	}
	return found[0], nil
}

// DeferAgain implements [federation.Deferrals].
func (m *Memory) DeferAgain(ctx context.Context, row int64, next time.Time, reason string) error {
	return m.eachDeferred(ctx, func(d *federation.Deferred) {
		if d.Row == row {
			d.Tried, d.Next, d.Reason = d.Tried+1, next, reason
		}
	})
}

// HastenDeferred implements [federation.Deferrals].
func (m *Memory) HastenDeferred(ctx context.Context, signer federation.DID, at time.Time) error {
	return m.eachDeferred(ctx, func(d *federation.Deferred) {
		if d.Event.From == signer && d.Next.After(at) {
			d.Next = at
		}
	})
}

func (m *Memory) eachDeferred(ctx context.Context, change func(*federation.Deferred)) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	for i := range m.deferred {
		change(&m.deferred[i])
	}
	return nil
}

// EndDeferral implements [federation.Deferrals].
func (m *Memory) EndDeferral(ctx context.Context, row int64) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(m.deferred, func(d federation.Deferred) bool { return d.Row == row })
	if i < 0 {
		return nil
	}
	id := m.deferred[i].Event.Handoff
	m.deferred = slices.Delete(m.deferred, i, i+1)
	waits := slices.ContainsFunc(m.deferred, func(d federation.Deferred) bool { return d.Event.Handoff == id })
	for digest, kept := range m.evidence {
		if kept.handoff == id && !waits && !m.views[id].Exists() {
			delete(m.evidence, digest)
		}
	}
	return nil
}

// CountDeferred implements [federation.Deferrals].
func (m *Memory) CountDeferred(ctx context.Context) (map[string]int, error) {
	all, err := m.deferredWhere(ctx, func(federation.Deferred) bool { return true })
	if err != nil {
		return nil, err
	}
	of := map[string]int{}
	for _, d := range all {
		of[d.Event.Arrival.Network]++
	}
	return of, nil
}
