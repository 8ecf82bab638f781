package federationtest

import (
	"cmp"
	"context"
	"slices"

	"baton/federation"
)

// Note implements [Audit].
func (m *Memory) Note(ctx context.Context, c federation.Change) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	c.ID = int64(len(m.changes)) + 1
	m.changes = append(m.changes, c)
	return nil
}

// Changes implements [Audit].
func (m *Memory) Changes(ctx context.Context, f federation.ChangeFilter, before int64, limit int) ([]federation.Change, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var found []federation.Change
	for _, c := range slices.Backward(m.changes) {
		if (before == 0 || c.ID < before) && !c.At.Before(f.Since) && (f.Actor == "" || f.Actor == c.Actor) && len(found) < limit {
			found = append(found, c)
		}
	}
	return found, nil
}

// SetPeerMode implements [PeerModes].
func (m *Memory) SetPeerMode(ctx context.Context, mode federation.PeerMode) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	m.modes = slices.DeleteFunc(m.modes, func(on federation.PeerMode) bool { return on.Domain == mode.Domain })
	m.modes = append(m.modes, mode)
	slices.SortFunc(m.modes, func(a, b federation.PeerMode) int { return cmp.Compare(a.Domain, b.Domain) })
	return nil
}

// PeerModes implements [PeerModes].
func (m *Memory) PeerModes(ctx context.Context) ([]federation.PeerMode, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	return slices.Clone(m.modes), err
}
