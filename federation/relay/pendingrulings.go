package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/federation"
)

// Waits of steps for the ruling of their home: they double from the first to the last,
// and begin anew with each connection.
const (
	firstAsk = time.Second
	lastAsk  = 10 * time.Minute
)

// lookEvery is how often the record is read without a wake-up, which may have been lost.
const lookEvery = 10 * time.Second

// maxAwaiting bounds the pending rulings that are read at a time. More stay in the record.
const maxAwaiting = 1024

// askPending asks the other home for its pending rulings, the steps that wait for one, after
// each wake-up until ctx ends.
func (p *Peer) askPending(ctx context.Context) error {
	wake, stop := p.deps.Wakes.Subscribe(p.deps.Topic(p.cfg.Home))
	defer stop()
	waits := map[federation.EventID]*wait{}
	for {
		next, err := p.askAll(ctx, waits)
		if err != nil && ctx.Err() == nil {
			p.log.LogAttrs(ctx, slog.LevelWarn, "steps wait for their home", slog.Any("err", err))
		}
		timer := time.NewTimer(next)
		select {
		case <-wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// wait is the time until the ruling on a step is asked for again.
type wait struct {
	long time.Duration
	next time.Time
}

// askAll asks for all rulings that are due, for the steps of one handoff one after the other.
// It returns the time until the next ruling is due.
func (p *Peer) askAll(ctx context.Context, waits map[federation.EventID]*wait) (time.Duration, error) {
	held, err := p.deps.Record.Awaiting(ctx, p.cfg.Home, maxAwaiting)
	if err != nil {
		return lookEvery, err
	}
	lanes, order := map[federation.HandoffID][]federation.Pending{}, []federation.HandoffID{}
	still := map[federation.EventID]bool{}
	for _, each := range held {
		if lanes[each.Event.Handoff] == nil {
			order = append(order, each.Event.Handoff)
		}
		lanes[each.Event.Handoff] = append(lanes[each.Event.Handoff], each)
		still[each.Event.ID] = true
		if waits[each.Event.ID] == nil {
			waits[each.Event.ID] = &wait{}
		}
	}
	for id := range waits {
		if !still[id] {
			delete(waits, id)
		}
	}
	var group errgroup.Group
	group.SetLimit(judges)
	for _, id := range order {
		group.Go(func() error { return p.askLane(ctx, lanes[id], waits) })
	}
	err = group.Wait()
	return untilDue(waits, p.deps.Now()), err
}

// untilDue returns how long it is until a step is due, at most [lookEvery].
func untilDue(waits map[federation.EventID]*wait, now time.Time) time.Duration {
	until := lookEvery
	for _, w := range waits {
		until = min(until, w.next.Sub(now))
	}
	return max(until, firstAsk/10)
}

// askLane asks for the due rulings on the steps of one handoff, up to the first step that has
// to wait: the steps after it must not be filed before it. No other goroutine uses their waits.
func (p *Peer) askLane(ctx context.Context, lane []federation.Pending, waits map[federation.EventID]*wait) error {
	for _, each := range lane {
		w := waits[each.Event.ID]
		if p.deps.Now().Before(w.next) {
			return nil
		}
		over, err := p.askRuling(ctx, each)
		if err != nil || !over {
			w.long = min(max(firstAsk, 2*w.long), lastAsk)
			w.next = p.deps.Now().Add(w.long)
			return err
		}
	}
	return nil
}

// askRuling asks for the ruling on one step and files the answer. It reports whether the step
// waits no more.
func (p *Peer) askRuling(ctx context.Context, held federation.Pending) (over bool, err error) {
	view, err := p.deps.Record.View(ctx, held.Event.Handoff)
	if err != nil {
		return false, fmt.Errorf("read handoff %s: %w", held.Event.Handoff, err)
	}
	ev, err := p.deps.vouch(ctx, held.Event)
	if err != nil {
		return false, err
	}
	it, err := p.deps.carry(ctx, ev)
	if err != nil {
		return false, err
	}
	it.Have = &view.Version
	r, err := p.ask(ctx, []federation.HomeID{p.deps.Home}, it)
	if err != nil {
		return false, err
	}
	switch r.Outcome {
	case outcomeStored, outcomeDuplicate:
		return p.fileAll(ctx, held.Event.ID, r.Steps)
	case outcomeRefused, outcomeConflict:
		return true, p.deps.Gateway.GiveUp(ctx, held, federation.RefusalCode(r.Code), r.Detail)
	case outcomeGap, outcomeLater:
	}
	return false, p.unavailable(fmt.Errorf("it answers %q", r.Outcome))
}

// fileAll files the steps that the home sent with its ruling on a step, and reports whether
// that step was among them.
func (p *Peer) fileAll(ctx context.Context, id federation.EventID, steps []item) (found bool, err error) {
	for _, it := range steps {
		r := p.takeRuled(ctx, it)
		if r.Outcome != outcomeStored && r.Outcome != outcomeDuplicate {
			return false, fmt.Errorf("file step %s of %s: %w", it.Step.ID, p.cfg.Home, errors.New(string(r.Outcome)+" "+r.Code+" "+r.Detail))
		}
		found = found || it.Step.ID == id
	}
	return found, nil
}
