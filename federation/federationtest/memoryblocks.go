package federationtest

import (
	"cmp"
	"context"
	"slices"

	"baton/federation"
)

// AddBlock implements [BlockList].
func (m *Memory) AddBlock(ctx context.Context, b federation.Block) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	m.blocks = slices.DeleteFunc(m.blocks, func(on federation.Block) bool { return on.What == b.What || !on.Good(b.Since) })
	m.blocks = append(m.blocks, b)
	slices.SortFunc(m.blocks, func(a, b federation.Block) int { return cmp.Compare(a.What, b.What) })
	return nil
}

// RemoveBlock implements [BlockList].
func (m *Memory) RemoveBlock(ctx context.Context, what string) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	before := len(m.blocks)
	m.blocks = slices.DeleteFunc(m.blocks, func(on federation.Block) bool { return on.What == what })
	if len(m.blocks) == before {
		return federation.ErrNotFound
	}
	return nil
}

// BlocksAfter implements [BlockList].
func (m *Memory) BlocksAfter(ctx context.Context, what string, limit int) ([]federation.Block, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var found []federation.Block
	for _, b := range m.blocks {
		if b.What > what && len(found) < limit {
			found = append(found, b)
		}
	}
	return found, nil
}
