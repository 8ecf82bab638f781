package federationtest

import (
	"cmp"
	"context"
	"slices"

	"baton/federation"
)

// OfHome implements [Homes].
func (m *Memory) OfHome(ctx context.Context, home federation.HomeID, after federation.HandoffID, limit int) ([]federation.HandoffID, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var found []federation.HandoffID
	for id, v := range m.views {
		if v.Home == home && id.String() > after.String() {
			found = append(found, id)
		}
	}
	slices.SortFunc(found, func(a, b federation.HandoffID) int { return cmp.Compare(a.String(), b.String()) })
	return found[:min(max(limit, 0), len(found))], nil
}

// KnowsHomes implements [Homes].
func (m *Memory) KnowsHomes(ctx context.Context, self federation.HomeID) (bool, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return false, err
	}
	elsewhere := func(at federation.MailboxLocation) bool { return at.Home != self }
	if slices.ContainsFunc(m.homes.mailboxes, elsewhere) {
		return true, nil
	}
	for _, b := range m.bindings {
		if b.Network == "home" {
			return true, nil
		}
	}
	return false, nil
}
