package home

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/federation"
)

// maxPending is how many steps of one remote handoff may wait for its home. A handoff whose
// home answers has one at a time; several parties that race have more.
const maxPending = 64

// Ruling is what became of a step that waited for another home.
type Ruling struct {
	Event     federation.Event
	Judgement federation.Judgement     // where it was filed
	Refused   *federation.RefusalError // where it was ruled out
}

// visit judges a step in a remote handoff. It files the home's own steps, and steps that move
// nothing. Any other step waits until that home has ruled.
func (r Rules) visit(s Snapshot, ev federation.Event, now time.Time) (Decision, error) {
	d := Decision{Event: ev, Before: s.View}
	fromHome := ev.Arrival.Home == s.View.Home && ev.From == s.View.Home.DID()
	switch {
	case ev.Verb == federation.Confirm && fromHome:
		return r.confirmed(s, ev)
	case ev.Verb == federation.Confirm:
		return d, federation.Refuse(ev, federation.WrongSender, "only the home of a handoff confirms")
	case ev.From == s.View.Home.DID() && !fromHome:
		return d, federation.Refuse(ev, federation.WrongSender, "it did not come from the home")
	case fromHome:
		return r.take(s, s.View, ev, now)
	}
	assumed := r.assume(s, ev.Actor())
	if !s.View.Numbered && !r.Moves(s.View, ev.Verb) && assumed.Version == s.View.Version {
		return r.take(s, s.View, ev, now)
	}
	return r.await(s, assumed, ev, now)
}

// await decides whether a step waits for its home. A step of this home's own people that
// cannot be legal is refused at once; of other people their own server judges it.
func (r Rules) await(s Snapshot, assumed federation.View, ev federation.Event, now time.Time) (Decision, error) {
	d := Decision{Action: Await, Event: ev, Before: s.View}
	for _, each := range s.Pending {
		if each.Event.From == ev.From && each.Event.Digest() == ev.Digest() {
			d.Action, d.Awaits = Repeat, true
			d.Entry = federation.Entry{Event: each.Event, State: s.View.State, Filed: each.Since}
			return d, nil
		}
	}
	if ev.Arrival.Home == "" {
		if _, err := r.take(s, assumed, ev, now); err != nil {
			return d, err
		}
	}
	if len(s.Pending) >= maxPending {
		return d, federation.Refuse(ev, federation.QuotaExceeded, "too many steps wait for the home of this handoff")
	}
	return d, nil
}

// assume returns the view as it will be for an actor when the home files all of the actor's
// steps that wait.
func (r Rules) assume(s Snapshot, actor federation.DID) federation.View {
	v := s.View
	for _, each := range s.Pending {
		if each.Event.Actor() != actor {
			continue
		}
		if after, err := r.Kinds.Check(v, each.Event, each.Since); err == nil {
			v = after
		}
	}
	return v
}

// confirmed finds the step that the home of a handoff confirmed. Servers send each receipt
// more than once.
func (r Rules) confirmed(s Snapshot, receipt federation.Event) (Decision, error) {
	d := Decision{Action: Repeat, Event: receipt, Before: s.View, Entry: federation.Entry{Event: receipt, State: s.View.State}}
	i := slices.IndexFunc(s.Pending, func(each federation.Pending) bool { return each.Event.ID == receipt.Subject })
	switch {
	case i >= 0:
		d.Action, d.Event = Confirm, s.Pending[i].Event
	case s.Reference != receipt.Handoff:
		return d, federation.Refuse(receipt, federation.WrongReference, "it confirms a step that is not known here")
	}
	return d, nil
}

// Settle goes over the steps that wait in a remote handoff after that has moved: it files
// the steps that move nothing and can be filed now, and returns with them the steps that can
// never be filed any more. The latter still wait, so that their senders can be told before
// [Home.Drop].
func (h *Home) Settle(ctx context.Context, id federation.HandoffID, now time.Time) ([]Ruling, error) {
	pending, err := h.Log.AwaitingIn(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read what waits in %s: %w", id, err)
	}
	var rulings []Ruling
	assumed := map[federation.DID]federation.View{}
	for _, each := range pending {
		sub := Submission{Event: each.Event, Since: each.Since, By: Receipt}
		s, err := h.snapshot(ctx, sub)
		if err != nil {
			return rulings, err
		}
		if s.Filed != nil { // it was filed since it was seen to wait
			if err := h.Drop(ctx, each.Event); err != nil {
				return rulings, err
			}
			continue
		}
		ruling, waits, err := h.settle(ctx, s, sub, assumed, now)
		if err != nil {
			return rulings, err
		}
		if !waits {
			rulings = append(rulings, ruling)
		}
	}
	return rulings, nil
}

// settle files a step that waits, or rules it out, unless it goes on waiting. The map assumed
// has the future state of the handoff for each actor with earlier steps that wait.
func (h *Home) settle(ctx context.Context, s Snapshot, sub Submission, assumed map[federation.DID]federation.View, now time.Time) (ruling Ruling, waits bool, err error) {
	ev := sub.Event
	view, ahead := s.View, assumed[ev.Actor()]
	if ahead.Version > view.Version {
		view = ahead
	}
	after, err := h.Kinds.Check(view, ev, now)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	switch {
	case isRefusal:
		return Ruling{Event: ev, Refused: refused}, false, nil
	case view.Numbered || h.Moves(view, ev.Verb) || ahead.Exists():
		assumed[ev.Actor()] = after
		return Ruling{}, true, nil
	}
	judged, err := h.judge(ctx, federation.Judgement{Verdict: federation.Valid}, sub, now)
	if err != nil {
		return Ruling{}, false, fmt.Errorf("file step %s: %w", ev.ID, err)
	}
	return Ruling{Event: ev, Judgement: judged}, false, h.Drop(ctx, ev)
}

// Filed returns the entry of a step that is on file, or [federation.ErrNotFound]. It blocks on
// the record.
func (h *Home) Filed(ctx context.Context, ev federation.Event) (federation.Entry, error) {
	s, err := h.Snapshots.Snapshot(ctx, federation.SnapshotQuery{Step: ev})
	switch {
	case err != nil:
		return federation.Entry{}, fmt.Errorf("look for step %s: %w", ev.ID, err)
	case s.Filed == nil:
		return federation.Entry{}, fmt.Errorf("look for step %s: %w", ev.ID, federation.ErrNotFound)
	}
	return *s.Filed, nil
}

// Drop ends the wait of a step.
func (h *Home) Drop(ctx context.Context, ev federation.Event) error {
	return h.Log.Ruled(ctx, ev.Handoff, ev.From, ev.ID)
}
