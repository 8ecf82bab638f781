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

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/signing"
)

// Later passes end the rest, so that a long outage does not delay other work.
const sweepBatch = 100

// The same lifetime for an undecided recipient and one that blocked the offerer hides the
// difference.
//
// spec: airc-shapes "First contact"
const unseenLife = 24 * time.Hour

const ownNetwork = "home"

// Sweep ends overdue handoffs with the final step of their kind, and returns the filed steps. It is
// called at startup and every few seconds.
//
// spec: handofftag "Expiry"
func (h *Home) Sweep(ctx context.Context, now time.Time) ([]federation.Judgement, error) {
	var filed []federation.Judgement
	windows := h.windows()
	for _, clock := range slices.Sorted(maps.Keys(windows)) {
		if windows[clock] == 0 {
			continue
		}
		due, err := h.Record.ListDue(ctx, clock, now.Add(-windows[clock]), sweepBatch)
		if err != nil {
			return filed, fmt.Errorf("find overdue handoffs: %w", err)
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

func (h *Home) endUnseen(ctx context.Context, now time.Time) ([]federation.Judgement, error) {
	unseen, err := h.Record.Unseen(ctx, now.Add(-unseenLife), sweepBatch)
	if err != nil {
		return nil, fmt.Errorf("find unseen offers: %w", err)
	}
	return h.End(ctx, unseen, "", now)
}

// End ends handoffs of this home with a note, except those changed since they were read. It returns
// the filed steps.
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

// A duration of zero means forever.
func (h *Home) windows() map[federation.Clock]time.Duration {
	windows := h.Kinds.Windows()
	windows[federation.DeadlineClock] = lifecycle.Tolerance
	windows[federation.UnansweredClock] = h.Limits.Unanswered
	windows[federation.AbandonedClock] = h.Limits.Abandoned
	return windows
}

// Ends returns the verb with which the home will end an idle handoff, and the time, or "" and the
// zero time.
func (h *Home) Ends(v federation.View) (federation.Verb, time.Time) {
	window := h.windows()[v.Clock]
	if window == 0 {
		return "", time.Time{}
	}
	return h.Kinds.Then(v), v.Since.Add(window)
}

// The record is not read. The error is [federation.ErrStale] if the handoff has changed.
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
	return h.fileOwn(ctx, judged, d, now)
}

func (h *Home) fileOwn(ctx context.Context, judged federation.Judgement, d Decision, now time.Time) (federation.Judgement, error) {
	ctx = context.WithoutCancel(ctx)
	to, err := h.route(ctx, d)
	if err != nil {
		return judged, err
	}
	return h.commit(ctx, judged, d, to, now)
}

// Receipt returns the receipt of a filed step, in the dialect of a view and for its venue. It is
// deterministic, so that receipts can be sent again without being stored.
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

// EndOrphan ends an orphaned remote handoff here, with an operator's reason as its note. Only this
// home knows the step. It returns [federation.ErrStale] if the handoff has changed, and a
// [*federation.RefusalError] if it cannot be ended.
func (h *Home) EndOrphan(ctx context.Context, view federation.View, reason string, now time.Time) (federation.Judgement, error) {
	judged := federation.Judgement{Verdict: federation.Valid, View: view}
	if !view.Remote {
		return judged, federation.Refuse(federation.Event{Handoff: view.ID}, federation.IllegalStep, "its home is this one")
	}
	verb := federation.Expire
	if !h.Kinds.Leads(view, verb) {
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
	return h.fileOwn(ctx, judged, d, now)
}

const undeliveredNote = "not picked up in time"

// ExpireUndelivered expires unread inbox entries filed at or before a given time, oldest first. An
// unread offer expires, and its offerer is notified. A later step stays readable, but no longer
// counts as unread, so that it does not fill an abandoned inbox. It returns the filed steps, and
// whether more entries are due.
func (h *Home) ExpireUndelivered(ctx context.Context, before, now time.Time) (filed []federation.Judgement, more bool, err error) {
	waiting, err := h.Record.Undelivered(ctx, before, sweepBatch)
	if err != nil {
		return nil, false, fmt.Errorf("find expired inbox entries: %w", err)
	}
	for _, u := range waiting {
		if h.unseen(u) {
			judged, err := h.end(ctx, u.View, undeliveredNote, now)
			switch {
			case err == nil:
				filed = append(filed, judged)
			case !errors.Is(err, federation.ErrStale): // otherwise, it was answered meanwhile
				return filed, false, fmt.Errorf("expire %s: %w", u.View.ID, err)
			}
		}
		if err := h.Record.ExpireUnread(ctx, u.To, []federation.EventID{u.Entry.Event.ID}, now); err != nil {
			return filed, false, fmt.Errorf("end waiting of %s: %w", u.Entry.Event.ID, err)
		}
	}
	return filed, len(waiting) == sweepBatch, nil
}

func (h *Home) unseen(u federation.Undelivered) bool {
	return u.View.Home == h.ID && u.View.State == federation.Offered && u.To == u.View.Offeree && u.Entry.Event.ID == u.View.ID
}
