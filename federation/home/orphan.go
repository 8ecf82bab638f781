package home

import (
	"context"
	"slices"
	"time"

	"baton/federation"
)

// EndOrphan ends a remote handoff here whose home has lost it, with the reason of an operator as
// its note. The step is this home's own: no ruling of the other home goes with it, and no other
// home is told. It returns [federation.ErrStale] where the handoff moved since it was read, and a
// [*federation.RefusalError] where it cannot end.
func (h *Home) EndOrphan(ctx context.Context, view federation.View, reason string, now time.Time) (federation.Judgement, error) {
	judged := federation.Judgement{Verdict: federation.Valid, View: view}
	if !view.Remote {
		return judged, federation.Refuse(federation.Event{Handoff: view.ID}, federation.IllegalStep, "its home is this one")
	}
	verb := federation.Expire
	if rule, known := h.Kinds.Rule(view, verb); !known || !slices.Contains(rule.From, view.State) {
		verb = h.Kinds.Then(view)
	}
	ev, err := h.own(ctx, view, federation.Event{Verb: verb, Note: reason}, now)
	if err != nil {
		return judged, err
	}
	ev.Arrival.Orphaned = true
	d, err := h.Decide(Snapshot{Snapshot: federation.Snapshot{View: view}}, Submission{Event: ev, Since: now, By: Own}, now)
	if err != nil {
		return judged, err
	}
	return h.append(ctx, judged, d, now)
}
