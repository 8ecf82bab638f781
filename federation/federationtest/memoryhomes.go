package federationtest

import (
	"cmp"
	"context"
	"slices"

	"baton/federation"
)

// memoryHomes is what other homes said. The zero value is empty.
type memoryHomes struct {
	rulings   []federation.Ruling  // as filed, with the version that they were filed under
	forks     []federation.Fork    // in the order of finding
	offences  []federation.Offence // in the order of their kinds
	mailboxes []federation.MailboxLocation
}

// rule keeps the ruling by which a step was filed.
func (h *memoryHomes) rule(f federation.Filing) {
	if f.Ruling != nil {
		h.rulings = append(h.rulings, federation.Ruling{
			Handoff: f.View.ID, Version: f.View.Version, Document: f.Ruling.Document, Signature: f.Ruling.Signature,
		})
	}
}

// forget drops what goes with a handoff. The proof against a home stays.
func (h *memoryHomes) forget(id federation.HandoffID) {
	h.rulings = slices.DeleteFunc(h.rulings, func(r federation.Ruling) bool { return r.Handoff == id })
}

// Chain implements [Homes].
func (m *Memory) Chain(ctx context.Context, id federation.HandoffID, version federation.Version) (link [32]byte, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return link, err
	}
	for _, entry := range m.entries {
		if entry.Event.Handoff != id || entry.Version == 0 || entry.Version > version {
			continue
		}
		if link = federation.Link(link, entry.Event.Signature.Document); entry.Version == version {
			return link, nil
		}
	}
	return [32]byte{}, federation.ErrNotFound
}

// RulingOn implements [Homes].
func (m *Memory) RulingOn(ctx context.Context, id federation.HandoffID, version federation.Version) (document, signature string, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return "", "", err
	}
	i := slices.IndexFunc(m.homes.rulings, func(r federation.Ruling) bool { return r.Handoff == id && r.Version == version })
	if i < 0 {
		return "", "", federation.ErrNotFound
	}
	return m.homes.rulings[i].Document, m.homes.rulings[i].Signature, nil
}

// KeepFork implements [Homes].
func (m *Memory) KeepFork(ctx context.Context, f federation.Fork) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err == nil && !m.homes.forked(f.Handoff) {
		m.homes.forks = append(m.homes.forks, f)
	}
	return err
}

// Forks implements [Homes].
func (m *Memory) Forks(ctx context.Context, home federation.HomeID, limit int) ([]federation.Fork, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var found []federation.Fork
	for _, f := range slices.Backward(m.homes.forks) {
		if f.Home == home {
			found = append(found, f)
		}
	}
	return found[:max(0, min(limit, len(found)))], nil
}

// Forked implements [Homes].
func (m *Memory) Forked(ctx context.Context, id federation.HandoffID) (bool, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	return err == nil && m.homes.forked(id), err
}

func (h *memoryHomes) forked(id federation.HandoffID) bool {
	return slices.ContainsFunc(h.forks, func(f federation.Fork) bool { return f.Handoff == id })
}

// Shared implements [Homes].
func (m *Memory) Shared(ctx context.Context, home federation.HomeID, after federation.HandoffID, limit int) ([]federation.HandoffID, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var told []federation.HandoffID
	for _, s := range m.settled {
		id := s.row.entry.Event.Handoff
		if s.link == string(home) && s.how.Outcome() == federation.DeliveryDelivered && id.String() > after.String() && !slices.Contains(told, id) {
			told = append(told, id)
		}
	}
	slices.SortFunc(told, func(a, b federation.HandoffID) int { return cmp.Compare(a.String(), b.String()) })
	return told[:min(max(limit, 0), len(told))], nil
}

// MailboxLocation implements [Homes].
func (m *Memory) MailboxLocation(ctx context.Context, did federation.DID) (federation.MailboxLocation, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.MailboxLocation{}, err
	}
	if i := m.homes.resident(did); i >= 0 {
		return m.homes.mailboxes[i], nil
	}
	return federation.MailboxLocation{}, federation.ErrNotFound
}

// KeepMailboxLocation implements [Homes].
func (m *Memory) KeepMailboxLocation(ctx context.Context, r federation.MailboxLocation) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	if i := m.homes.resident(r.DID); i >= 0 {
		m.homes.mailboxes[i] = r
		return nil
	}
	m.homes.mailboxes = append(m.homes.mailboxes, r)
	return nil
}

func (h *memoryHomes) resident(did federation.DID) int {
	return slices.IndexFunc(h.mailboxes, func(r federation.MailboxLocation) bool { return r.DID == did })
}
