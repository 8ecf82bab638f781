// Package home judges and files the steps of the handoffs that were minted here.
// It alone orders them: the first valid step wins, by compare-and-set on the log.
//
// A [Home] does no I/O of its own; it takes the record, the keys and the routes
// as ports, and the time as an argument.
package home

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"baton/federation"
	"baton/federation/lifecycle"
	"baton/federation/signing"
)

// maxRaces bounds how often a step is judged again because another one was filed
// in between. Each round means that somebody else made progress; so many in a row
// for one handoff are an attack, and its sender may ask again.
const maxRaces = 16

// Limits are what a home allows.
type Limits struct {
	ClockSkew   time.Duration // between an event id and the clock here, either way; zero means no limit
	MaxDeadline time.Duration // of an offer, from now; zero means no limit
}

// Home orders the handoffs of one gateway. Its methods may be called
// concurrently.
type Home struct {
	ID      federation.HomeID
	Store   federation.Store
	Keys    federation.KeySource
	Routes  federation.Routes
	Limits  Limits
	Entropy io.Reader // for the ids of steps that came without one; safe for concurrent use
}

// Submit judges one step and files it with all that it is owed to. A nil error
// means that it is on disk. The same step again is answered with its first entry.
//
// It returns a [*federation.RefusalError] for a step that is refused for good,
// and an error wrapping [*federation.UnavailableError] when asking again may
// help. The judgement says how far it got in each case.
func (h *Home) Submit(ctx context.Context, ev federation.Event, now time.Time) (federation.Judgement, error) {
	if ev.From == "" {
		return federation.Judgement{}, federation.Refuse(ev, federation.MissingRequirement, "+freeq.at/handoff-from")
	}
	ev, verdict, err := signing.Verify(ctx, h.Keys, ev)
	judged := federation.Judgement{Verdict: verdict}
	if err != nil {
		return judged, err
	}
	entry, err := h.Store.Known(ctx, ev.From, ev.ID, ev.Digest())
	if err == nil {
		return h.repeat(ctx, judged, entry)
	}
	if !errors.Is(err, federation.ErrNotFound) {
		return judged, fmt.Errorf("look up step: %w", err)
	}
	if ev, err = h.identify(ev, now); err != nil {
		return judged, err
	}
	for range maxRaces {
		judged, err = h.file(ctx, judged, ev, now)
		if !errors.Is(err, federation.ErrStale) {
			return judged, err
		}
	}
	return judged, &federation.UnavailableError{What: "handoff " + ev.Handoff.String(), RetryAfter: time.Second, Err: err}
}

// repeat answers a step that was filed before.
func (h *Home) repeat(ctx context.Context, judged federation.Judgement, entry federation.Entry) (federation.Judgement, error) {
	view, err := h.Store.View(ctx, entry.Event.Handoff)
	if err != nil {
		return judged, fmt.Errorf("read handoff %s: %w", entry.Event.Handoff, err)
	}
	judged.Entry, judged.View, judged.Duplicate = entry, view, true
	return judged, nil
}

// identify holds a signed id to the clock and gives a step without one its own.
func (h *Home) identify(ev federation.Event, now time.Time) (federation.Event, error) {
	switch {
	case ev.Stamped:
		if skew := ev.ID.Time().Sub(now).Abs(); h.Limits.ClockSkew > 0 && skew > h.Limits.ClockSkew {
			return ev, federation.Refuse(ev, federation.EventIDClockSkew, "by "+skew.Round(time.Second).String())
		}
	case ev.Verb == federation.Offer:
		ev.ID = ev.Handoff
	default:
		id, err := federation.NewEventID(now, h.Entropy)
		if err != nil {
			return ev, err
		}
		ev.ID = id
	}
	return ev, nil
}

// file judges a step against the handoff as it stands and appends it there. It
// returns [federation.ErrStale] when the handoff moved in between.
func (h *Home) file(ctx context.Context, judged federation.Judgement, ev federation.Event, now time.Time) (federation.Judgement, error) {
	before, err := h.Store.View(ctx, ev.Handoff)
	if err != nil {
		return judged, fmt.Errorf("read handoff %s: %w", ev.Handoff, err)
	}
	judged.View = before
	after, err := h.judge(ctx, before, ev, now)
	if err != nil {
		return judged, err
	}
	after.Moved = now
	feeds, err := h.Routes.Owed(ctx, ev, after)
	if err != nil {
		return judged, fmt.Errorf("route step %s: %w", ev.ID, err)
	}
	entry, err := h.Store.Append(ctx, federation.Filing{
		Event: ev, After: before.Version, View: after, Filed: now,
		Inboxes: after.Others(ev.Actor()), Feeds: feeds,
	})
	if err != nil {
		return judged, fmt.Errorf("file step %s: %w", ev.ID, err)
	}
	judged.Entry, judged.View, judged.Feeds = entry, after, feeds
	return judged, nil
}

// judge returns the view after a step, or why it is refused. The first thing
// wrong names the code.
//
// spec: handofftag "Lifecycle"
func (h *Home) judge(ctx context.Context, before federation.View, ev federation.Event, now time.Time) (federation.View, error) {
	if ev.Verb == federation.Offer {
		return h.open(ctx, before, ev, now)
	}
	if !before.Exists() {
		return before, federation.Refuse(ev, federation.UnknownHandoff, "")
	}
	if ev.Venue != before.Venue {
		return before, federation.Refuse(ev, federation.WrongVenue, "")
	}
	after, err := rules(before).Check(before, ev)
	if err != nil {
		return before, err
	}
	return after, h.checkReference(ctx, ev)
}

// open judges an offer.
func (h *Home) open(ctx context.Context, before federation.View, ev federation.Event, now time.Time) (federation.View, error) {
	if before.Exists() {
		return before, federation.Refuse(ev, federation.EventIDInUse, "")
	}
	if limit := h.Limits.MaxDeadline; limit > 0 && ev.Deadline.After(now.Add(limit)) {
		return before, federation.Refuse(ev, federation.InvalidTag, "+freeq.at/handoff-deadline, at most "+limit.String()+" from now")
	}
	after := lifecycle.Open(ev, h.ID)
	after.Opened = now
	return after, h.checkReference(ctx, ev)
}

// checkReference refuses an answer to a step of another handoff. One that nobody
// here knows is recorded as it is.
func (h *Home) checkReference(ctx context.Context, ev federation.Event) error {
	if ev.ReplyTo == "" {
		return nil
	}
	named, err := h.Store.Reference(ctx, ev.ReplyTo)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("look up %q: %w", ev.ReplyTo, err)
	case named != ev.Handoff:
		return federation.Refuse(ev, federation.WrongReference, "")
	}
	return nil
}

// rules returns the table that a handoff keeps for life.
func rules(federation.View) lifecycle.Table { return lifecycle.Handoff() }
