package store

import (
	"context"
	"errors"
	"sync"

	"baton/federation"
)

// maxKnown bounds the DIDs that the directory remembers.
const maxKnown = 1 << 14

// directory remembers which DIDs and handles are agents', and which are nobody's: each step is
// looked at by several links, and asks for the same few. One process has the record
// open, so what it writes is all that can change. The zero directory is empty. It may
// be used concurrently.
type directory struct {
	mu     sync.Mutex
	agents map[federation.DID]*federation.Agent // nil for a DID that is no agent's
	edges  uint64                               // counts the times that all was forgotten
}

// find returns what is remembered of a DID, or else what look says. It returns
// [federation.ErrNotFound] for a DID that is no agent's. Callers share what is
// returned, and must not change it.
func (d *directory) find(
	ctx context.Context, did federation.DID, look func(context.Context, federation.DID) (federation.Agent, error),
) (federation.Agent, error) {
	d.mu.Lock()
	agent, known := d.agents[did]
	edge := d.edges
	d.mu.Unlock()
	if !known {
		found, err := look(ctx, did)
		switch {
		case err == nil:
			agent = &found
		case !errors.Is(err, federation.ErrNotFound):
			return federation.Agent{}, err
		}
		d.remember(did, agent, edge)
	}
	if agent == nil {
		return federation.Agent{}, federation.ErrNotFound
	}
	return *agent, nil
}

// remember keeps what was found, unless it may have changed since.
func (d *directory) remember(did federation.DID, agent *federation.Agent, edge uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if edge != d.edges {
		return
	}
	if d.agents == nil || len(d.agents) >= maxKnown {
		d.agents = map[federation.DID]*federation.Agent{}
	}
	d.agents[did] = agent
}

// forget is called after each write that changes agents.
func (d *directory) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.agents = nil
	d.edges++
}
