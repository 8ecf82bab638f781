package home

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/federation"
)

// maxHeld is how many steps of one handoff may wait for its home. A handoff whose
// home is there has one at a time; more are the moves of several who race.
const maxHeld = 64

// Ruling is what became of a step that waited for another home.
type Ruling struct {
	Event     federation.Event
	Judgement federation.Judgement     // where it was filed
	Refused   *federation.RefusalError // where it was ruled out
}

// homeOf returns the home of what an event opens.
func (h *Home) homeOf(ev federation.Event) federation.HomeID {
	if ev.Arrival.Home != "" {
		return ev.Arrival.Home
	}
	return h.ID
}

// Moves reports whether a step by that verb moves a handoff from one state to
// another, so that its home confirms it: what the home does itself it does not.
func (h *Home) Moves(v federation.View, verb federation.Verb) bool {
	rule, known := h.Kinds.Rule(v, verb)
	return known && rule.Who != federation.System && !slices.Contains(rule.From, rule.To)
}

// visit judges a step in a handoff of another home. What the home says itself, and
// what moves nothing, is filed. Any other step is kept until the home has ruled.
func (h *Home) visit(ctx context.Context, judged federation.Judgement, before federation.View, ev federation.Event, now time.Time) (federation.Judgement, error) {
	fromHome := ev.Arrival.Home == before.Home && ev.From == before.Home.DID()
	switch {
	case ev.Verb == federation.Confirm && fromHome:
		return h.confirmedBy(ctx, judged, before, ev, now)
	case ev.Verb == federation.Confirm:
		return judged, federation.Refuse(ev, federation.WrongSender, "only the home of a handoff confirms")
	case ev.From == before.Home.DID() && !fromHome:
		return judged, federation.Refuse(ev, federation.WrongSender, "it did not come from the home")
	case fromHome:
		return h.take(ctx, judged, before, ev, now)
	}
	held, err := h.waitingIn(ctx, before)
	if err != nil {
		return judged, err
	}
	assumed := h.assume(before, held, ev.Actor())
	if !before.Numbered && !h.Moves(before, ev.Verb) && assumed.Version == before.Version {
		return h.take(ctx, judged, before, ev, now)
	}
	return h.hold(ctx, judged, before, assumed, held, ev, now)
}

// waitingIn returns the steps that wait for the home of a handoff, of which none is in the
// view. It returns [federation.ErrStale] when the handoff moved in between: what waited then
// and was filed before it was looked for would be in neither.
func (h *Home) waitingIn(ctx context.Context, before federation.View) ([]federation.Pending, error) {
	held, err := h.Guests.AwaitingIn(ctx, before.ID)
	if err != nil {
		return nil, fmt.Errorf("read what waits in %s: %w", before.ID, err)
	}
	view, err := h.Store.View(ctx, before.ID)
	if err != nil {
		return nil, fmt.Errorf("read handoff %s: %w", before.ID, err)
	}
	if view.Version != before.Version {
		return nil, federation.ErrStale
	}
	return held, nil
}

// hold keeps a step until its home has ruled. One of our own people that cannot be
// legal is refused at once; of others their own server is to judge. It returns
// [federation.ErrStale] when the handoff moved in between: what the step waits for may
// have been settled already.
func (h *Home) hold(ctx context.Context, judged federation.Judgement, before, assumed federation.View, held []federation.Pending, ev federation.Event, now time.Time) (federation.Judgement, error) {
	for _, each := range held {
		if each.Event.From == ev.From && each.Event.Digest() == ev.Digest() {
			judged.Awaits, judged.Duplicate = true, true
			judged.Entry = federation.Entry{Event: each.Event, State: before.State, Filed: each.Since}
			return judged, nil
		}
	}
	if ev.Arrival.Home == "" {
		if _, err := h.judge(ctx, assumed, ev, now); err != nil {
			return judged, err
		}
	}
	if len(held) >= maxHeld {
		return judged, federation.Refuse(ev, federation.QuotaExceeded, "too many steps wait for the home of this handoff")
	}
	if err := h.Guests.Await(context.WithoutCancel(ctx), federation.Pending{Event: ev, Home: before.Home, Since: now}, before.Version); err != nil {
		return judged, fmt.Errorf("hold step %s: %w", ev.ID, err)
	}
	judged.Awaits = true
	judged.Entry = federation.Entry{Event: ev, State: before.State, Filed: now}
	return judged, nil
}

// assume returns the view as it will be for an actor when the home files all of the
// actor's steps that wait.
func (h *Home) assume(v federation.View, held []federation.Pending, actor federation.DID) federation.View {
	for _, each := range held {
		if each.Event.Actor() != actor {
			continue
		}
		if after, err := h.Kinds.Check(v, each.Event, each.Since); err == nil {
			v = after
		}
	}
	return v
}

// confirmedBy files the step that the home of a handoff confirmed.
func (h *Home) confirmedBy(ctx context.Context, judged federation.Judgement, before federation.View, receipt federation.Event, now time.Time) (federation.Judgement, error) {
	held, err := h.Guests.AwaitingIn(ctx, receipt.Handoff)
	if err != nil {
		return judged, fmt.Errorf("read what waits in %s: %w", receipt.Handoff, err)
	}
	i := slices.IndexFunc(held, func(each federation.Pending) bool { return each.Event.ID == receipt.Subject })
	if i < 0 {
		return h.confirmedBefore(ctx, judged, before, receipt)
	}
	step := held[i].Event
	entry, err := h.Store.Known(ctx, step.From, step.ID, step.Digest())
	switch {
	case errors.Is(err, federation.ErrNotFound):
		judged, err = h.take(ctx, judged, before, step, now)
	case err == nil:
		judged, err = h.repeat(ctx, judged, entry)
	}
	if err != nil {
		return judged, err
	}
	return judged, h.Guests.Ruled(ctx, step.Handoff, step.From, step.ID)
}

// confirmedBefore answers a receipt of a step that does not wait. Servers say each
// receipt more than once.
func (h *Home) confirmedBefore(ctx context.Context, judged federation.Judgement, before federation.View, receipt federation.Event) (federation.Judgement, error) {
	of, err := h.Store.Reference(ctx, receipt.Subject.String())
	switch {
	case errors.Is(err, federation.ErrNotFound) || err == nil && of != receipt.Handoff:
		return judged, federation.Refuse(receipt, federation.WrongReference, "it confirms a step that is not known here")
	case err != nil:
		return judged, fmt.Errorf("look up step %s: %w", receipt.Subject, err)
	}
	judged.View, judged.Duplicate = before, true
	judged.Entry = federation.Entry{Event: receipt, State: before.State}
	return judged, nil
}

// Settle goes over what waits in a handoff of another home after that has moved: it
// files what moves nothing and can be filed now, and returns with it what can never
// be any more. Those still wait, so that their senders can be told before
// [Home.Drop].
func (h *Home) Settle(ctx context.Context, id federation.HandoffID, now time.Time) ([]Ruling, error) {
	held, err := h.Guests.AwaitingIn(ctx, id)
	if err != nil || len(held) == 0 {
		return nil, err
	}
	var rulings []Ruling
	assumed := map[federation.DID]federation.View{}
	for _, each := range held {
		ev := each.Event
		view, err := h.Store.View(ctx, id)
		if err != nil {
			return rulings, fmt.Errorf("read handoff %s: %w", id, err)
		}
		if ahead, waits := assumed[ev.Actor()]; waits && ahead.Version > view.Version {
			view = ahead
		}
		after, err := h.Kinds.Check(view, ev, now)
		refused, isRefusal := errors.AsType[*federation.RefusalError](err)
		switch {
		case isRefusal:
			filed, err := h.dropFiled(ctx, ev)
			if err != nil {
				return rulings, err
			}
			if !filed {
				rulings = append(rulings, Ruling{Event: ev, Refused: refused})
			}
		case view.Numbered || h.Moves(view, ev.Verb) || assumed[ev.Actor()].Exists():
			assumed[ev.Actor()] = after
		default:
			judged, err := h.take(ctx, federation.Judgement{Verdict: federation.Valid}, view, ev, now)
			if err != nil {
				return rulings, fmt.Errorf("file step %s: %w", ev.ID, err)
			}
			rulings = append(rulings, Ruling{Event: ev, Judgement: judged})
			if err := h.Drop(ctx, ev); err != nil {
				return rulings, err
			}
		}
	}
	return rulings, nil
}

// dropFiled ends the wait of a step that is on file, and reports whether it was: one that
// was filed since it was seen to wait may not follow on itself, and is not refused for it.
func (h *Home) dropFiled(ctx context.Context, ev federation.Event) (filed bool, err error) {
	_, err = h.Store.Known(ctx, ev.From, ev.ID, ev.Digest())
	_, another := errors.AsType[*federation.RefusalError](err) // under the same id
	switch {
	case errors.Is(err, federation.ErrNotFound), another:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up step %s: %w", ev.ID, err)
	}
	return true, h.Drop(ctx, ev)
}

// Drop ends the wait of a step.
func (h *Home) Drop(ctx context.Context, ev federation.Event) error {
	return h.Guests.Ruled(ctx, ev.Handoff, ev.From, ev.ID)
}
