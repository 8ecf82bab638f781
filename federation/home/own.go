package home

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/lifecycle"
	"baton/federation/signing"
)

// sweepBatch is how many overdue handoffs one pass ends. Later passes end the rest, so that a
// long outage does not delay other work.
const sweepBatch = 100

// unseenLife is when an offer without a deadline expires that its recipient was not
// shown. It is the same whether the recipient has not decided about the offerer, or
// blocked it: the end of an offer must not tell which.
//
// spec: airc-shapes "First contact"
const unseenLife = 24 * time.Hour

// ownNetwork is the label of the home itself in metrics.
const ownNetwork = "home"

// Sweep ends the handoffs that no step moved in time, each once, by the step that its kind
// has for that, and returns what it filed. Call it every few seconds, and at the start.
//
// spec: handofftag "Expiry"
func (h *Home) Sweep(ctx context.Context, now time.Time) ([]federation.Judgement, error) {
	var filed []federation.Judgement
	windows := h.windows()
	for _, clock := range slices.Sorted(maps.Keys(windows)) {
		if windows[clock] == 0 {
			continue
		}
		due, err := h.Overdue.Due(ctx, clock, now.Add(-windows[clock]), sweepBatch)
		if err != nil {
			return filed, fmt.Errorf("look for overdue handoffs: %w", err)
		}
		ended, err := h.End(ctx, due, "", now)
		filed = append(filed, ended...)
		if err != nil {
			return filed, err
		}
	}
	unseen, err := h.endUnseen(ctx, now)
	return append(filed, unseen...), err
}

// endUnseen ends the offers that never reached their recipient.
func (h *Home) endUnseen(ctx context.Context, now time.Time) ([]federation.Judgement, error) {
	if h.Offers == nil {
		return nil, nil
	}
	unseen, err := h.Offers.Unseen(ctx, now.Add(-unseenLife), sweepBatch)
	if err != nil {
		return nil, fmt.Errorf("look for unseen offers: %w", err)
	}
	return h.End(ctx, unseen, "", now)
}

// End ends handoffs of this home as they were read, with a note, and leaves handoffs that
// moved since. It returns the filed steps.
func (h *Home) End(ctx context.Context, views []federation.View, note string, now time.Time) ([]federation.Judgement, error) {
	var filed []federation.Judgement
	for _, view := range views {
		judged, err := h.end(ctx, view, note, now)
		if errors.Is(err, federation.ErrStale) {
			continue
		}
		if err != nil {
			return filed, fmt.Errorf("end %s: %w", view.ID, err)
		}
		filed = append(filed, judged)
	}
	return filed, nil
}

// windows returns how long each clock runs; zero is for ever.
func (h *Home) windows() map[federation.Clock]time.Duration {
	windows := h.Kinds.Windows()
	windows[federation.DeadlineClock] = lifecycle.Tolerance
	windows[federation.UnansweredClock] = h.Limits.Unanswered
	windows[federation.AbandonedClock] = h.Limits.Abandoned
	return windows
}

// Ends returns the step with which the home ends a handoff that no step moves, and
// when; "" and the zero time where it does not.
func (h *Home) Ends(v federation.View) (federation.Verb, time.Time) {
	window := h.windows()[v.Clock]
	if window == 0 {
		return "", time.Time{}
	}
	return h.Kinds.Then(v), v.Since.Add(window)
}

// end files the home's own step that ends a handoff. The view is enough to judge it, so end
// reads nothing. It returns [federation.ErrStale] when the handoff moved since.
func (h *Home) end(ctx context.Context, view federation.View, note string, now time.Time) (federation.Judgement, error) {
	judged := federation.Judgement{Verdict: federation.Valid, View: view}
	ev, err := h.own(ctx, view, federation.Event{Verb: h.Kinds.Then(view), Note: note}, now)
	if err != nil {
		return judged, err
	}
	d, err := h.Decide(Snapshot{Snapshot: federation.Snapshot{View: view}}, Submission{Event: ev, Since: now, By: Own}, now)
	if err != nil {
		return judged, err
	}
	return h.append(ctx, judged, d, now)
}

// Receipt returns the receipt of a filed step, in the dialect of a view and for its
// venue. The same step, dialect and venue make the same receipt each time, so that
// none has to be kept to be sent again.
//
// spec: freeq-act "Receipts"
func (h *Home) Receipt(ctx context.Context, entry federation.Entry, v federation.View) (federation.Event, error) {
	step := entry.Event
	seed := sha256.Sum256([]byte(strings.Join([]string{"receipt", step.ID.String(), string(step.From), string(v.Dialect), v.Venue}, "\x00")))
	id, err := federation.NewEventID(entry.Filed, bytes.NewReader(seed[:]))
	if err != nil {
		return federation.Event{}, err
	}
	ev := federation.Event{ID: id, Verb: federation.Confirm, Subject: step.ID}
	return h.sign(ctx, v, ev, entry.Filed)
}

// own returns an event of the home itself about a handoff, signed with its key.
func (h *Home) own(ctx context.Context, view federation.View, ev federation.Event, now time.Time) (federation.Event, error) {
	id, err := federation.NewEventID(now, h.Entropy)
	if err != nil {
		return ev, err
	}
	ev.ID = id
	return h.sign(ctx, view, ev, now)
}

// sign completes an event of the home itself that has its id.
func (h *Home) sign(ctx context.Context, view federation.View, ev federation.Event, now time.Time) (federation.Event, error) {
	ev.Handoff, ev.Kind, ev.Dialect = view.ID, view.Kind, view.Dialect
	ev.From, ev.Venue, ev.Provenance = h.ID.DID(), view.Venue, federation.Signed
	ev.Arrival = federation.Arrival{Network: ownNetwork, Link: ownNetwork, Received: now}
	ev.Fields, _ = h.Write(ev)
	ev, err := signing.Seal(ctx, h.Key, ev)
	if err != nil {
		return ev, err
	}
	return signing.Signed(h.Read, ev)
}
