package home

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/lifecycle"
	"baton/federation/signing"
)

// sweepBatch is how many overdue handoffs one pass ends: what is left is the next
// pass's, so that a long outage does not hold up the rest.
const sweepBatch = 100

// ownNetwork is the label of the home itself in metrics.
const ownNetwork = "home"

// FieldWriter writes the fields of a step that the home signs, in the dialect of
// the step.
type FieldWriter func(ev federation.Event) map[string]string

// Sweep expires what nobody answered in time, each once, and returns what it
// filed. Call it every few seconds, and at the start.
//
// spec: handofftag "Expiry"
func (h *Home) Sweep(ctx context.Context, now time.Time) ([]federation.Judgement, error) {
	var opened time.Time
	if h.Limits.Unanswered > 0 {
		opened = now.Add(-h.Limits.Unanswered)
	}
	due, err := h.Store.Due(ctx, now.Add(-lifecycle.Tolerance), opened, sweepBatch)
	if err != nil {
		return nil, fmt.Errorf("look for overdue handoffs: %w", err)
	}
	var filed []federation.Judgement
	for _, view := range due {
		judged, err := h.expire(ctx, view, now)
		if _, raced := errors.AsType[*federation.RefusalError](err); raced {
			continue // it was answered in between
		}
		if err != nil {
			return filed, fmt.Errorf("expire %s: %w", view.ID, err)
		}
		filed = append(filed, judged)
	}
	return filed, nil
}

func (h *Home) expire(ctx context.Context, view federation.View, now time.Time) (federation.Judgement, error) {
	ev, err := h.own(ctx, view, federation.Event{Verb: federation.Expire}, now)
	if err != nil {
		return federation.Judgement{}, err
	}
	return h.Submit(ctx, ev, now)
}

// confirmed reports whether a filed step needs the home's receipt: one of a
// person, in the act dialect, that moved the handoff.
//
// spec: handofftag "Confirm"
func confirmed(before, after federation.View, ev federation.Event) bool {
	return after.Dialect == federation.ActTags && before.Exists() && before.State != after.State && ev.Verb != federation.Expire
}

// confirm returns the receipt of a step.
func (h *Home) confirm(ctx context.Context, view federation.View, ev federation.Event, now time.Time) (*federation.Event, error) {
	receipt, err := h.own(ctx, view, federation.Event{Verb: federation.Confirm, Subject: ev.ID}, now)
	if err != nil {
		return nil, err
	}
	return &receipt, nil
}

// own returns an event of the home itself about a handoff, signed with its key.
func (h *Home) own(ctx context.Context, view federation.View, ev federation.Event, now time.Time) (federation.Event, error) {
	id, err := federation.NewEventID(now, h.Entropy)
	if err != nil {
		return ev, err
	}
	ev.ID, ev.Handoff, ev.Kind, ev.Dialect = id, view.ID, view.Kind, view.Dialect
	ev.From, ev.Venue, ev.Provenance = h.ID.DID(), view.Venue, federation.Signed
	ev.Arrival = federation.Arrival{Network: ownNetwork, Link: ownNetwork, Received: now}
	ev.Fields = h.Write(ev)
	return signing.Seal(ctx, h.Key, ev)
}
