package federationtest

import (
	"cmp"
	"context"
	"slices"

	"baton/federation"
)

// KeepOffence implements [Homes].
func (m *Memory) KeepOffence(ctx context.Context, d federation.Offence) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(m.homes.offences, func(old federation.Offence) bool { return old.Home == d.Home && old.Kind == d.Kind })
	if i < 0 {
		d.Times, d.First = 1, d.Last
		m.homes.offences = append(m.homes.offences, d)
		slices.SortFunc(m.homes.offences, func(a, b federation.Offence) int { return cmp.Compare(a.Kind, b.Kind) })
		return nil
	}
	old := &m.homes.offences[i]
	old.Times++
	old.Last, old.Why = d.Last, d.Why
	return nil
}

// Offences implements [Homes].
func (m *Memory) Offences(ctx context.Context, home federation.HomeID) ([]federation.Offence, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	var all []federation.Offence
	for _, d := range m.homes.offences {
		if d.Home == home {
			all = append(all, d)
		}
	}
	return all, err
}
