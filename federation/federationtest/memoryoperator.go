package federationtest

import (
	"cmp"
	"context"
	"math"
	"slices"

	"baton/federation"
	"baton/federation/agents"
)

// settledRow is a delivery that ended.
type settledRow struct {
	event federation.EventID
	link  string
	how   federation.Settlement
	row   outboxRow
}

// BindName implements [BoundNames].
func (m *Memory) BindName(ctx context.Context, b federation.BoundName) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	i := m.boundName(b.Network, b.Name)
	switch {
	case i < 0:
		m.names = append(m.names, b)
		slices.SortFunc(m.names, compareNames)
	case m.names[i].DID != b.DID:
		return federation.ErrTaken
	default:
		m.names[i].Vouch = b.Vouch
	}
	return nil
}

// UnbindName implements [BoundNames].
func (m *Memory) UnbindName(ctx context.Context, network, name string) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	i := m.boundName(network, name)
	if i < 0 {
		return federation.ErrNotFound
	}
	m.names = slices.Delete(m.names, i, i+1)
	return nil
}

// BoundName implements [BoundNames].
func (m *Memory) BoundName(ctx context.Context, network, name string) (federation.BoundName, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.BoundName{}, err
	}
	i := m.boundName(network, name)
	if i < 0 {
		return federation.BoundName{}, federation.ErrNotFound
	}
	return m.names[i], nil
}

// BoundNames implements [BoundNames].
func (m *Memory) BoundNames(ctx context.Context, network, name string, limit int) ([]federation.BoundName, error) {
	after := federation.BoundName{Network: network, Name: name}
	return m.boundNames(ctx, limit, func(b federation.BoundName) bool { return compareNames(b, after) > 0 })
}

// NamesOf implements [BoundNames].
func (m *Memory) NamesOf(ctx context.Context, did federation.DID) ([]federation.BoundName, error) {
	return m.boundNames(ctx, math.MaxInt, func(b federation.BoundName) bool { return b.DID == did })
}

func (m *Memory) boundNames(ctx context.Context, limit int, wanted func(federation.BoundName) bool) ([]federation.BoundName, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var found []federation.BoundName
	for _, b := range m.names {
		if wanted(b) && len(found) < limit {
			found = append(found, b)
		}
	}
	return found, nil
}

func (m *Memory) boundName(network, name string) int {
	return slices.IndexFunc(m.names, func(b federation.BoundName) bool { return b.Network == network && b.Name == name })
}

func compareNames(a, b federation.BoundName) int {
	return cmp.Or(cmp.Compare(a.Network, b.Network), cmp.Compare(a.Name, b.Name))
}

// Deliveries implements [Deliveries].
func (m *Memory) Deliveries(ctx context.Context, id federation.HandoffID, links []string) ([]federation.Delivered, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var found []federation.Delivered
	for _, entry := range m.entries {
		if entry.Event.Handoff == id && entry.Version > 0 {
			found = append(found, m.deliveries(entry.Event.ID, links)...)
		}
	}
	return found, nil
}

// deliveries returns what became of one step, in the order of the links.
func (m *Memory) deliveries(event federation.EventID, links []string) []federation.Delivered {
	var found []federation.Delivered
	for _, s := range m.settled {
		if s.event != event {
			continue
		}
		found = append(found, federation.Delivered{
			Event: event, Link: s.link, State: s.how.Outcome(), Reason: cmp.Or(string(s.how.Dead), s.how.Code), Ended: s.how.At,
		})
	}
	for _, f := range m.outboxes {
		if f.entry.Event.ID == event && slices.Contains(links, f.link) {
			found = append(found, federation.Delivered{Event: event, Link: f.link, State: federation.DeliveryWaiting, Attempt: f.attempt, Next: f.next, Reason: f.reason})
		}
	}
	for _, message := range m.messages {
		isAgent := slices.ContainsFunc(m.agents, func(a agents.Agent) bool { return a.Handle == message.To })
		if message.Event != event || !isAgent {
			continue
		}
		d := federation.Delivered{Event: event, Link: agents.Link, Participant: message.To, State: federation.DeliveryWaiting}
		switch view := m.views[message.Handoff]; {
		case !message.ended.IsZero():
			d.State, d.Ended = message.outcome, message.ended
		case view.State == federation.Expired:
			d.State, d.Ended = federation.DeliveryExpired, view.Moved
		}
		found = append(found, d)
	}
	found = append(found, m.pushedTo(event)...)
	found = append(found, m.readOf(event)...)
	slices.SortFunc(found, func(a, b federation.Delivered) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(a.Participant, b.Participant))
	})
	return found
}

// Backlog implements [Deliveries].
func (m *Memory) Backlog(ctx context.Context, link string) (federation.Backlog, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Backlog{}, err
	}
	var b federation.Backlog
	for _, f := range m.outboxes {
		if f.link != link {
			continue
		}
		if b.Rows++; b.Rows == 1 {
			b.Oldest = f.entry.Filed
		}
	}
	return b, nil
}
