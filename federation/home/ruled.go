package home

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/signing"
)

// Ruled files a step of a remote handoff at the place that its home gave it. The ruling is
// known to be that home's. That the step is its signer's, that it may follow the steps before
// it, and that both sides have one chain of hashes is judged here, as each home judges it for
// itself.
//
// A ruling of this home itself is on a step that its record lost: a restore brought back an
// older copy, and another home gives the step back.
//
// It returns a [*federation.GapError] while steps before it are missing, a
// [*federation.ForkError] for a ruling that contradicts an earlier one, of which the
// proof is then on disk, a [*federation.RefusalError] for a step that can never be
// filed here, and an error wrapping [*federation.UnavailableError] when asking again
// may help.
func (h *Home) Ruled(ctx context.Context, ev federation.Event, r federation.Ruling, now time.Time) (federation.Judgement, error) {
	judged := federation.Judgement{}
	if ev.Handoff != r.Handoff || ev.ID != r.Event || r.Version == 0 {
		return judged, federation.Refuse(ev, federation.WrongReference, "the ruling is on another step")
	}
	if err := h.Kinds.Known(ev); err != nil {
		return judged, err
	}
	ev, verdict, err := signing.Open(ctx, h.Keys, h.Read, ev)
	judged.Verdict = verdict
	if err != nil {
		return h.judgedBefore(ctx, judged, ev, err, now)
	}
	if ev, err = h.addressed(ctx, ev); err != nil {
		return judged, err
	}
	judged, err = h.judge(ctx, judged, Submission{Event: ev, Since: now, Ruling: &r}, now)
	if err == nil && judged.Duplicate {
		err = h.Drop(ctx, ev)
	}
	return judged, err
}

// follow judges a ruled step against the steps that are here.
func (r Rules) follow(s Snapshot, sub Submission, now time.Time) (Decision, error) {
	d, ruling := Decision{Before: s.View}, sub.Ruling
	switch {
	case s.Forked:
		return d, federation.Refuse(sub.Event, federation.WrongSender, "its home has told two histories of this handoff")
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
			return d, federation.Refuse(sub.Event, federation.WrongReference, "the ruling is on another step")
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

// ruledSince refuses a step that this home ruled on before its record was restored: since then
// it filed another one in its place.
func ruledSince(ev federation.Event) error {
	return federation.Refuse(ev, federation.WrongSender, "the record of its home was restored, and has another step in its place")
}

// afterRuling returns the view after a ruled step. This home decides what an offer may ask of
// the people here. Once it let the offer in, the home of the handoff decides what follows, as
// far as the lifecycle allows it.
func (r Rules) afterRuling(s Snapshot, ev federation.Event, now time.Time) (federation.View, error) {
	if s.View.Exists() {
		return r.Kinds.Check(s.View, ev, now)
	}
	after, err := r.open(s, ev, now)
	after.Numbered = after.Remote
	return after, err
}

// ruledBefore answers a ruling on a step that is here already.
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

// dispute keeps the proof that a ruling contradicts the one by which a step was filed.
func (h *Home) dispute(ctx context.Context, d Decision, now time.Time) error {
	r := *d.Ruling
	document, signature, err := h.Rulings.RulingOn(ctx, r.Handoff, d.Version)
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
	if err := h.Rulings.KeepFork(ctx, fork); err != nil {
		return err
	}
	return &federation.ForkError{Fork: fork}
}
