package federationtest

import (
	"context"
	"slices"
	"strings"

	"baton/federation"
)

// OwnKeys implements [OwnKeys].
func (m *Memory) OwnKeys(ctx context.Context) ([]federation.KeyMark, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	return slices.Clone(m.ownKeys), err
}

// MarkOwnKeys implements [OwnKeys].
func (m *Memory) MarkOwnKeys(ctx context.Context, marks []federation.KeyMark) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	for _, mark := range marks {
		i := slices.IndexFunc(m.ownKeys, func(old federation.KeyMark) bool { return old.Name == mark.Name })
		switch {
		case i < 0:
			m.ownKeys = append(m.ownKeys, mark)
		case m.ownKeys[i].Fingerprint != mark.Fingerprint:
			m.ownKeys[i] = mark
		}
	}
	slices.SortFunc(m.ownKeys, func(a, b federation.KeyMark) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// Used implements [OwnKeys].
func (m *Memory) Used(ctx context.Context) (bool, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	return len(m.views) > 0 || len(m.agents) > 0, err
}
