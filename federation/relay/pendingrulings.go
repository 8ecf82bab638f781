package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

// The backoff between requests doubles, and restarts with each connection.
const (
	firstAsk = time.Second
	lastAsk  = 10 * time.Minute
)

// The record is also read without a wake-up, because wake-ups may be lost.
const pollInterval = 10 * time.Second

// Further steps stay in the record.
const maxAwaiting = 1024

func (p *Peer) askPending(ctx context.Context) error {
	wake, stop := p.deps.PubSub.Subscribe(p.deps.Topic(p.cfg.Home))
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

type wait struct {
	long time.Duration
	next time.Time
}

// Rulings of a handoff are requested in order. The result is the time until the next request.
func (p *Peer) askAll(ctx context.Context, waits map[federation.EventID]*wait) (time.Duration, error) {
	pending, err := p.deps.Record.ListPending(ctx, p.cfg.Home, maxAwaiting)
	if err != nil {
		return pollInterval, err
	}
	byHandoff, order := map[federation.HandoffID][]federation.Pending{}, []federation.HandoffID{}
	waiting := map[federation.EventID]bool{}
	for _, each := range pending {
		if byHandoff[each.Event.Handoff] == nil {
			order = append(order, each.Event.Handoff)
		}
		byHandoff[each.Event.Handoff] = append(byHandoff[each.Event.Handoff], each)
		waiting[each.Event.ID] = true
		if waits[each.Event.ID] == nil {
			waits[each.Event.ID] = &wait{}
		}
	}
	for id := range waits {
		if !waiting[id] {
			delete(waits, id)
		}
	}
	var group errgroup.Group
	group.SetLimit(maxItems) // at most one batch
	for _, id := range order {
		group.Go(fault.Func(func() error { return p.askHandoff(ctx, byHandoff[id], waits) }))
	}
	err = group.Wait()
	return untilDue(waits, p.deps.Now()), err
}

func untilDue(waits map[federation.EventID]*wait, now time.Time) time.Duration {
	until := pollInterval
	for _, w := range waits {
		until = min(until, w.next.Sub(now))
	}
	return max(until, firstAsk/10)
}

// askHandoff stops at the first step that is not due, because later steps must not be filed before it.
// Only one goroutine may use waits.
func (p *Peer) askHandoff(ctx context.Context, steps []federation.Pending, waits map[federation.EventID]*wait) error {
	for _, each := range steps {
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

// The result is true if the step no longer waits.
func (p *Peer) askRuling(ctx context.Context, pending federation.Pending) (over bool, err error) {
	view, err := p.deps.Record.View(ctx, pending.Event.Handoff)
	if err != nil {
		return false, fmt.Errorf("read handoff %s: %w", pending.Event.Handoff, err)
	}
	ev := pending.Event
	if view.Named != "" && ev.Actor() == view.Offeree && ev.From != view.Named {
		ev.Arrival.ActingFor = view.Named // the other home knows the offeree only by the kept key
	}
	ev, err = p.deps.vouch(ctx, ev)
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
		found, err := p.fileAll(ctx, pending.Event.ID, r.Steps)
		if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
			return true, p.deps.Gateway.RejectPending(ctx, pending, refused.Code, refused.Detail)
		}
		return found, err
	case outcomeRefused, outcomeConflict, outcomeGap:
		if r.Outcome == outcomeGap || r.Code == string(federation.UnknownHandoff) && view.Numbered {
			if back, err := p.returnLost(ctx, view.ID); back || err != nil {
				return false, err
			}
		}
		code := cmp.Or(federation.RefusalCode(r.Code), federation.IllegalStep)
		return true, p.deps.Gateway.RejectPending(ctx, pending, code, cmp.Or(r.Detail, "its home lost earlier steps, and does not accept them again"))
	case outcomeLater:
	}
	return false, p.unavailable(fmt.Errorf("it answers %q", r.Outcome))
}

// returnLost sends the home of a handoff the steps that it lost in a restore. It returns true if the
// home has them now.
func (p *Peer) returnLost(ctx context.Context, id federation.HandoffID) (bool, error) {
	var done Compared
	err := p.compareTheirs(ctx, []federation.HandoffID{id}, &done)
	return done.Handoffs > 0 && len(done.Lost) == 0, err
}

// fileAll reports whether the step was sent. A [*federation.RefusalError] means that the home has a
// different history.
func (p *Peer) fileAll(ctx context.Context, id federation.EventID, steps []item) (found bool, err error) {
	for _, it := range steps {
		r := p.takeRuled(ctx, it)
		if r.Outcome == outcomeConflict {
			return false, &federation.RefusalError{Code: federation.RefusalCode(r.Code), Event: id, Detail: r.Detail}
		}
		if r.Outcome != outcomeStored && r.Outcome != outcomeDuplicate {
			return false, fmt.Errorf("file step %s of %s: %w", it.Step.ID, p.cfg.Home, errors.New(string(r.Outcome)+" "+r.Code+" "+r.Detail))
		}
		found = found || it.Step.ID == id
	}
	return found, nil
}
