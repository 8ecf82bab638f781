package federationtest

import (
	"context"
	"slices"

	"baton/federation"
)

// Spoken implements [Spoken].
func (m *Memory) Spoken(ctx context.Context, part federation.Stretch, limit int) ([]federation.Said, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(m.said(part.Place), func(s federation.Said) bool {
		return s.Mark.Compare(part.After) <= 0 || part.Before != federation.Mark{} && s.Mark.Compare(part.Before) >= 0
	})
	limit = min(max(limit, 0), len(found))
	if part.Newest {
		return found[len(found)-limit:], nil
	}
	return found[:limit], nil
}

// said returns what was said at a place, in order.
func (m *Memory) said(p federation.Place) []federation.Said {
	if federation.Private(p.Venue) {
		p.Link = ""
	}
	var all []federation.Said
	for i, entry := range m.entries {
		view := m.views[entry.Event.Handoff]
		if entry.Version > 0 && view.Place() == p {
			all = append(all, federation.Said{Entry: entry, View: view, Mark: federation.Mark{At: entry.Event.Said(), N: uint64(i) + 1}})
		}
	}
	slices.SortFunc(all, func(a, b federation.Said) int { return a.Mark.Compare(b.Mark) })
	return all
}

// Mark implements [Spoken].
func (m *Memory) Mark(ctx context.Context, p federation.Place, id string) (federation.Mark, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Mark{}, err
	}
	all := m.said(p)
	slices.SortFunc(all, func(a, b federation.Said) int { return int(a.Mark.N) - int(b.Mark.N) }) //nolint:gosec // no test files so many
	for _, named := range []func(federation.Event) bool{
		func(ev federation.Event) bool { return ev.ID.String() == id },
		func(ev federation.Event) bool { return ev.Arrival.MessageID == id },
	} {
		if i := slices.IndexFunc(all, func(s federation.Said) bool { return named(s.Entry.Event) }); i >= 0 {
			return all[i].Mark, nil
		}
	}
	return federation.Mark{}, federation.ErrNotFound
}
