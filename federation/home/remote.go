package home

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Usually one step is pending. Concurrent parties may have more.
const maxPending = 64

// Ruling is the outcome of a step that was pending at another home.
type Ruling struct {
	Event     federation.Event
	Judgement federation.Judgement     // if the step was filed
	Refused   *federation.RefusalError // if the step was ruled out
}

// Files steps of that home, and steps that do not change the state. Any other step waits for the
// ruling of that home.
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
		return r.decideStep(s, s.View, ev, now)
	}
	assumed := r.assume(s, ev.Actor())
	if !s.View.Numbered && !r.Moves(s.View, ev.Verb) && assumed.Version == s.View.Version {
		return r.decideStep(s, s.View, ev, now)
	}
	return r.await(s, assumed, ev, now)
}

// An illegal step of a local party is refused at once; steps of other parties are judged by their
// own server.
func (r Rules) await(s Snapshot, assumed federation.View, ev federation.Event, now time.Time) (Decision, error) {
	d := Decision{Action: Await, Event: ev, Before: s.View}
	if i := slices.IndexFunc(s.Pending, repeatedBy(ev)); i >= 0 {
		d.Action, d.Awaits = Repeat, true
		d.Entry = federation.Entry{Event: s.Pending[i].Event, State: s.View.State, Filed: s.Pending[i].Since}
		return d, nil
	}
	if ev.Arrival.Home == "" {
		if _, err := r.decideStep(s, assumed, ev, now); err != nil {
			return d, err
		}
	}
	if len(s.Pending) >= maxPending {
		return d, federation.Refuse(ev, federation.QuotaExceeded, "too many steps wait for the home of this handoff")
	}
	return d, nil
}

// A pending step may be repeated at any time, like a filed one.
func repeatedBy(ev federation.Event) func(federation.Pending) bool {
	return func(p federation.Pending) bool { return p.Event.From == ev.From && p.Event.Digest() == ev.Digest() }
}

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

// Expected returns a handoff as it will be if its home files the pending steps of an actor. It blocks
// on the record and returns its errors.
func (h *Home) Expected(ctx context.Context, id federation.HandoffID, actor federation.DID) (federation.View, error) {
	found, err := h.Record.Snapshot(ctx, federation.SnapshotQuery{Step: federation.Event{Handoff: id, From: actor}})
	if err != nil {
		return federation.View{}, fmt.Errorf("read handoff %s: %w", id, err)
	}
	return h.assume(Snapshot{Snapshot: found}, actor), nil
}

// Servers send each receipt more than once.
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

// Settle reviews the pending steps of a remote handoff after its state has changed. It files the
// steps that are now allowed and do not change the state. It returns these, and the steps that
// can never be filed. The latter stay pending until [Home.Drop], so that their senders can be
// notified first.
func (h *Home) Settle(ctx context.Context, id federation.HandoffID, now time.Time) ([]Ruling, error) {
	pending, err := h.Record.ListPendingIn(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read pending steps of %s: %w", id, err)
	}
	var rulings []Ruling
	assumed := map[federation.DID]federation.View{}
	for _, each := range pending {
		sub := Submission{Event: each.Event, Since: each.Since, By: Receipt}
		s, err := h.snapshot(ctx, sub)
		if err != nil {
			return rulings, err
		}
		if s.Filed != nil { // filed in the meantime
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

// The map assumed has the future state of the handoff for each actor with earlier pending steps.
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
	judged, err := h.judge(ctx, sub, now)
	return Ruling{Event: ev, Judgement: judged}, false, err
}

// Filed returns the entry of a filed step, or [federation.ErrNotFound]. It blocks on the record.
func (h *Home) Filed(ctx context.Context, ev federation.Event) (federation.Entry, error) {
	s, err := h.Record.Snapshot(ctx, federation.SnapshotQuery{Step: ev})
	switch {
	case err != nil:
		return federation.Entry{}, fmt.Errorf("find step %s: %w", ev.ID, err)
	case s.Filed == nil:
		return federation.Entry{}, fmt.Errorf("find step %s: %w", ev.ID, federation.ErrNotFound)
	}
	return *s.Filed, nil
}

// Drop ends the pending state of a step.
func (h *Home) Drop(ctx context.Context, ev federation.Event) error {
	return h.Record.ResolvePending(ctx, ev.Handoff, ev.From, ev.ID)
}

// FileRuled files a step of a remote handoff at the position given by its home. The caller has
// verified the signature of the ruling. FileRuled checks the signature of the step, the lifecycle
// and the hash chain. A ruling of this home itself returns a step that this home lost by a restore.
//
// It returns a [*federation.GapError] if earlier steps are missing, and a [*federation.ForkError]
// for a ruling that contradicts an earlier one; the proof is then on disk. A
// [*federation.RefusalError] is final. An error wrapping [*federation.UnavailableError] may be
// retried.
func (h *Home) FileRuled(ctx context.Context, ev federation.Event, r federation.Ruling, now time.Time) (federation.Judgement, error) {
	if ev.Handoff != r.Handoff || ev.ID != r.Event || r.Version == 0 {
		return federation.Judgement{}, federation.Refuse(ev, federation.WrongReference, "the ruling is about another step")
	}
	judged, err := h.judge(ctx, Submission{Event: ev, Since: now, Ruling: &r}, now)
	if err == nil && judged.Duplicate {
		err = h.Drop(ctx, ev)
	}
	return judged, err
}

func (r Rules) follow(s Snapshot, sub Submission, now time.Time) (Decision, error) {
	d, ruling := Decision{Before: s.View}, sub.Ruling
	switch {
	case s.Forked:
		return d, federation.Refuse(sub.Event, federation.WrongSender, "its home sent conflicting histories of this handoff")
	case s.View.Exists() && s.View.Home != ruling.Home:
		return d, federation.Refuse(sub.Event, federation.EventIDInUse, "it is a handoff of another home")
	case ruling.Home == r.ID && s.Used != nil:
		return d, s.Used
	case ruling.Version > s.View.Version+1:
		return d, &federation.GapError{Have: s.View.Version, Want: ruling.Version}
	case ruling.Version <= s.View.Version:
		return r.ruledBefore(s, sub)
	}
	if federation.Link(s.Head, sub.Event.Signature.Document) != ruling.Chain {
		if !s.View.Exists() {
			return d, federation.Refuse(sub.Event, federation.WrongReference, "the ruling is about another step")
		}
		if ruling.Home == r.ID {
			return d, ruledSince(sub.Event)
		}
		d.Action, d.Ruling, d.Version = Dispute, ruling, s.View.Version
		return d, nil
	}
	ev := r.resolve(s, s.asSent(sub))
	after, err := r.afterRuling(s, ev, now)
	if err != nil {
		return d, err
	}
	d = r.file(s.View, ev, after)
	if after.Remote { // the log of this home is its ruling
		d.Ruling = ruling
	}
	return d, nil
}

// After a restore, this home may have filed another step in place of one that it had ruled on.
func ruledSince(ev federation.Event) error {
	return federation.Refuse(ev, federation.WrongSender, "the record of its home was restored, and has another step in its place")
}

// This home decides only whether an offer may reach its local parties. The rest is up to the home
// of the handoff, within the rules of the lifecycle.
func (r Rules) afterRuling(s Snapshot, ev federation.Event, now time.Time) (federation.View, error) {
	if s.View.Exists() {
		return r.Kinds.Check(s.View, ev, now)
	}
	after, err := r.open(s, ev, now)
	after.Numbered = after.Remote
	return after, err
}

func (r Rules) ruledBefore(s Snapshot, sub Submission) (Decision, error) {
	ruling := sub.Ruling
	d := Decision{Action: Repeat, Before: s.View}
	switch {
	case s.Filed != nil && s.Filed.Version == ruling.Version && s.Filed.Event.Handoff == ruling.Handoff && s.Chain == ruling.Chain:
		d.Entry = *s.Filed
		return d, nil
	case ruling.Home == r.ID:
		return d, ruledSince(sub.Event)
	}
	d.Action, d.Ruling, d.Version = Dispute, ruling, ruling.Version
	return d, nil
}

func (h *Home) dispute(ctx context.Context, d Decision, now time.Time) error {
	r := *d.Ruling
	document, signature, err := h.Record.RulingOn(ctx, r.Handoff, d.Version)
	if errors.Is(err, federation.ErrNotFound) && d.Before.Over { // see EndOrphan
		step := federation.Event{ID: r.Event, Handoff: r.Handoff}
		return federation.Refuse(step, federation.TerminalHandoff, "an operator of "+string(h.ID)+" ended it: its home had lost it")
	}
	if err != nil {
		return fmt.Errorf("read what was ruled: %w", err)
	}
	fork := federation.Fork{
		Home: r.Home, Handoff: r.Handoff, Version: d.Version, Second: r, Found: now,
		First: federation.Ruling{Home: r.Home, Handoff: r.Handoff, Version: d.Version, Document: document, Signature: signature},
	}
	if err := h.Record.KeepFork(ctx, fork); err != nil {
		return err
	}
	return &federation.ForkError{Fork: fork}
}
