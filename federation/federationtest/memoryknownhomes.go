package federationtest

import (
	"cmp"
	"context"
	"slices"

	"baton/federation"
)

// KeepHome implements [KnownHomes].
func (m *Memory) KeepHome(ctx context.Context, h federation.KnownHome) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	m.nearby = slices.DeleteFunc(m.nearby, func(k federation.KnownHome) bool { return k.Home == h.Home })
	m.nearby = append(m.nearby, h)
	slices.SortFunc(m.nearby, func(a, b federation.KnownHome) int { return cmp.Compare(a.Home, b.Home) })
	return nil
}

// ForgetHome implements [KnownHomes].
func (m *Memory) ForgetHome(ctx context.Context, home federation.HomeID) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	before := len(m.nearby)
	m.nearby = slices.DeleteFunc(m.nearby, func(k federation.KnownHome) bool { return k.Home == home })
	if len(m.nearby) == before {
		return federation.ErrNotFound
	}
	return nil
}

// KnownHomes implements [KnownHomes].
func (m *Memory) KnownHomes(ctx context.Context) ([]federation.KnownHome, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	return slices.Clone(m.nearby), err
}
