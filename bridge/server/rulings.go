package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"baton/federation"
)

// rulingPoll is how often a waiter reads the record for a ruling: another replica may have the link to the
// home of the handoff.
const rulingPoll = 50 * time.Millisecond

// maxRefusals bounds the remembered refusals of steps of operators, at some 300 bytes each. A
// waiter looks within [rulingPoll].
const maxRefusals = 256

// refusals keeps the refusals of steps of operators by other homes, for the commands that wait for the
// rulings. It may be used concurrently.
type refusals struct {
	mu   sync.Mutex
	kept []*federation.RefusalError // the oldest first
	keys []refusedStep
}

// refusedStep names a step of a signer.
type refusedStep struct {
	from  federation.DID
	event federation.EventID
}

// add remembers the refusal of a step, and forgets the oldest where there are too many.
func (r *refusals) add(ev federation.Event, refused *federation.RefusalError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.keys) == maxRefusals {
		r.keys, r.kept = slices.Delete(r.keys, 0, 1), slices.Delete(r.kept, 0, 1)
	}
	r.keys, r.kept = append(r.keys, refusedStep{ev.From, ev.ID}), append(r.kept, refused)
}

// of returns the refusal of a step, nil for none.
func (r *refusals) of(ev federation.Event) *federation.RefusalError {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.keys, refusedStep{ev.From, ev.ID})
	if i < 0 {
		return nil
	}
	return r.kept[i]
}

// AwaitRuling waits until the home of a remote handoff has ruled on a step of an operator that
// waits for it, and returns the entry of the step once it is filed. The error is a
// [*federation.RefusalError] for a step that the home refused, that of ctx while the home has
// not ruled, and otherwise that of the record.
func (g *Gateway) AwaitRuling(ctx context.Context, ev federation.Event) (federation.Entry, error) {
	tick := time.NewTicker(rulingPoll)
	defer tick.Stop()
	for {
		waits, err := g.awaitsRuling(ctx, ev)
		if err != nil {
			return federation.Entry{}, err
		}
		if !waits { // the step is filed or refused: both are written before the wait ends
			return g.ruledOn(ctx, ev)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return federation.Entry{}, ctx.Err()
		}
	}
}

// awaitsRuling reports whether a step waits for the ruling of its home.
func (g *Gateway) awaitsRuling(ctx context.Context, ev federation.Event) (bool, error) {
	held, err := g.deps.Record.AwaitingIn(ctx, ev.Handoff)
	if err != nil {
		return false, fmt.Errorf("read what waits in %s: %w", ev.Handoff, err)
	}
	return slices.ContainsFunc(held, func(each federation.Pending) bool {
		return each.Event.ID == ev.ID && each.Event.From == ev.From
	}), nil
}

// ruledOn returns the entry of a step whose wait ended, or its refusal.
func (g *Gateway) ruledOn(ctx context.Context, ev federation.Event) (federation.Entry, error) {
	entry, err := g.home.Load().Filed(ctx, ev)
	if err == nil || !errors.Is(err, federation.ErrNotFound) {
		return entry, err
	}
	if refused := g.refusals.of(ev); refused != nil {
		return federation.Entry{}, refused
	}
	view, err := g.deps.Record.View(ctx, ev.Handoff)
	if err != nil {
		return federation.Entry{}, fmt.Errorf("read handoff %s: %w", ev.Handoff, err)
	}
	why := "its home refused it at another gateway of this home, whose log says why"
	if view.Assignee != "" && view.Assignee != ev.Actor() {
		why = "it went to " + string(view.Assignee)
	}
	return federation.Entry{}, federation.Refuse(ev, federation.IllegalStep, why)
}
