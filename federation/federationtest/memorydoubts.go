package federationtest

import (
	"cmp"
	"context"
	"slices"

	"baton/federation"
)

// KeepDoubt implements [federation.Homes].
func (m *Memory) KeepDoubt(ctx context.Context, d federation.Doubt) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(m.homes.doubts, func(old federation.Doubt) bool { return old.Home == d.Home && old.Kind == d.Kind })
	if i < 0 {
		d.Times, d.First = 1, d.Last
		m.homes.doubts = append(m.homes.doubts, d)
		slices.SortFunc(m.homes.doubts, func(a, b federation.Doubt) int { return cmp.Compare(a.Kind, b.Kind) })
		return nil
	}
	old := &m.homes.doubts[i]
	old.Times++
	old.Last, old.Why = d.Last, d.Why
	return nil
}

// Doubts implements [federation.Homes].
func (m *Memory) Doubts(ctx context.Context, home federation.HomeID) ([]federation.Doubt, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	var all []federation.Doubt
	for _, d := range m.homes.doubts {
		if d.Home == home {
			all = append(all, d)
		}
	}
	return all, err
}
