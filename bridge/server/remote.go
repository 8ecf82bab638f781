package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/home"
)

// follow acts on a judged step of a remote handoff: its home is asked for a ruling, or the
// steps that waited for this one are settled.
func (g *Gateway) follow(ctx context.Context, judged federation.Judgement, err error) {
	switch {
	case err != nil || !judged.View.Remote:
	case judged.Awaits:
		g.deps.Wakes.Wake(bridge.RulingTopic(judged.View.Home))
	case !judged.Duplicate:
		if err := g.Settle(context.WithoutCancel(ctx), judged.View.ID, time.Now()); err != nil {
			g.deps.Log.LogAttrs(ctx, slog.LevelError, "waiting steps not settled", slog.String("handoff_id", judged.View.ID.String()), slog.Any("err", err))
		}
		g.deps.Wakes.Wake(bridge.RulingTopic(judged.View.Home))
	}
}

// Settle files the steps of a remote handoff that waited and can be filed now, and tells the
// senders of the steps that its home ruled out. A caller may repeat it at any time: it finishes an
// earlier call that was cut short.
func (g *Gateway) Settle(ctx context.Context, id federation.HandoffID, now time.Time) error {
	g.settling.Lock()
	defer g.settling.Unlock()
	rulings, err := g.home.Load().Settle(ctx, id, now)
	var errs []error
	for _, r := range rulings {
		if r.Refused != nil {
			errs = append(errs, g.ruledOut(ctx, r))
			continue
		}
		g.note(ctx, r.Event, r.Judgement, nil)
		g.wake(r.Judgement, nil)
	}
	return errors.Join(append(errs, err)...)
}

// ruledOut tells the sender of a step that its home refused it, and ends the wait of the
// step.
func (g *Gateway) ruledOut(ctx context.Context, r home.Ruling) error {
	g.note(ctx, r.Event, federation.Judgement{Verdict: federation.Valid}, r.Refused)
	if r.Event.Arrival.Link == OperatorLink {
		g.refusals.add(r.Event, r.Refused)
	}
	if err := g.tellRefused(ctx, r.Event, r.Refused); err != nil {
		return fmt.Errorf("tell that %s is refused: %w", r.Event.ID, err)
	}
	if err := g.home.Load().Drop(ctx, r.Event); err != nil {
		return fmt.Errorf("drop %s: %w", r.Event.ID, err)
	}
	return nil
}

// tellRefused lets the link through which a step came tell its sender that it was refused.
// A link that tells notices gets one for each step, however often the step comes and is
// refused.
func (g *Gateway) tellRefused(ctx context.Context, ev federation.Event, refused *federation.RefusalError) error {
	link := g.links.Named(ev.Arrival.Link)
	if teller, ok := link.(bridge.Teller); ok {
		return teller.Tell(ctx, ev, refused)
	}
	if _, ok := link.(bridge.Notifier); !ok {
		return nil
	}
	return g.deps.Record.Notify(ctx, noticeOf(ev, refused, time.Now()))
}

// EndOrphan ends a remote handoff here whose home has lost it, for an operator with a reason. It
// returns the handoff as it is then. The error is a [*federation.RefusalError] for a handoff that
// is over or whose home is this one, and otherwise that of the record.
func (g *Gateway) EndOrphan(ctx context.Context, id federation.HandoffID, reason string) (federation.View, error) {
	now := time.Now()
	view, err := g.deps.Record.View(ctx, id)
	if err != nil {
		return view, fmt.Errorf("read handoff %s: %w", id, err)
	}
	judged, err := g.home.Load().EndOrphan(ctx, view, reason, now)
	if err != nil {
		return view, err
	}
	g.filed(ctx, []federation.Judgement{judged})
	return judged.View, g.Settle(context.WithoutCancel(ctx), id, now)
}

// GiveUp ends the wait of a step for its home, which refused the step or did not answer for
// too long. A step that was settled meanwhile is left alone.
func (g *Gateway) GiveUp(ctx context.Context, h federation.Pending, code federation.RefusalCode, detail string) error {
	g.settling.Lock()
	defer g.settling.Unlock()
	held, err := g.deps.Record.AwaitingIn(ctx, h.Event.Handoff)
	if err != nil {
		return fmt.Errorf("read what waits in %s: %w", h.Event.Handoff, err)
	}
	if !slices.ContainsFunc(held, func(each federation.Pending) bool {
		return each.Event.ID == h.Event.ID && each.Event.From == h.Event.From
	}) {
		return nil
	}
	return g.ruledOut(ctx, home.Ruling{Event: h.Event, Refused: federation.Refuse(h.Event, code, detail)})
}

// Moves reports whether a step by a verb moves a handoff, so that its home confirms it.
func (g *Gateway) Moves(v federation.View, verb federation.Verb) bool {
	return g.home.Load().Moves(v, verb)
}

// Role returns the role in a handoff that may take a step with a verb, "" for an unknown verb.
func (g *Gateway) Role(v federation.View, verb federation.Verb) federation.Role {
	rule, _ := g.home.Load().Kinds.Rule(v, verb)
	return rule.Who
}

// Receipt returns the receipt of a filed step, the same one each time. The view says in which
// dialect and for which venue. It blocks on the record, and its error is that of the record.
func (g *Gateway) Receipt(ctx context.Context, entry federation.Entry, v federation.View) (federation.Event, error) {
	return g.home.Load().Receipt(ctx, entry, v)
}
