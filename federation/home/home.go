// Package home judges and files the steps of the handoffs that were minted here.
// It alone orders them: the first valid step wins, by compare-and-set on the log.
//
// A [Home] does no I/O of its own; it takes the record, the keys and the routes
// as ports, and the time as an argument.
package home

import (
	"bytes"
	"cmp"
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

// Limits are what a home allows. Zero means no limit.
type Limits struct {
	ClockSkew       time.Duration          // between an event id and the clock here, either way
	MaxDeadline     time.Duration          // of an offer, from now
	EventsPerMinute int                    // of one DID
	Inbox           federation.InboxLimits // waiting for one DID; its bytes are of signed documents
	Strangers       StrangerLimits         // of DIDs that the record has not known for long
	OpenHandoffs    int                    // offered by one DID and not yet over
	// Unanswered is how long an offer without deadline waits until the home ends it,
	// and Abandoned how long work that somebody took on may be silent.
	Unanswered, Abandoned time.Duration
	// ClaimCaps says that who claims an open offer, or bids for it, must have declared
	// all that it asks for.
	ClaimCaps bool
}

// Capabilities knows what DIDs have declared that they can do.
type Capabilities interface {
	// Declared returns what a DID declared, nothing for one that never did.
	Declared(ctx context.Context, did federation.DID) ([]string, error)
}

// Offers knows of offers that never reached their recipient.
type Offers interface {
	// Unseen returns up to limit offered handoffs without a deadline, opened at or
	// before a time, whose recipient was not shown the offer.
	Unseen(ctx context.Context, opened time.Time, limit int) ([]federation.View, error)
}

// Home orders the handoffs of one gateway. Its methods may be called
// concurrently.
type Home struct {
	ID      federation.HomeID
	Kinds   lifecycle.Kinds
	Key     federation.SigningKey // of the home itself: what it expires and confirms
	Store   federation.Store
	Inboxes federation.Inboxes
	Guests  federation.Guests
	Homes   federation.Homes
	Keys    federation.KeySource
	Routes  federation.Routes
	// TagPrefix is what precedes the names of tags that a refusal names.
	TagPrefix string
	Caps      Capabilities
	Offers    Offers                                              // nil where nobody keeps offers back
	Same      func(ctx context.Context, a, b federation.DID) bool // whether two DIDs are one agent's
	// Member reports whether an offer may be written in its channel; nil where any may.
	Member func(ctx context.Context, ev federation.Event) (bool, error)
	Rates  *Rates
	// Strangers counts DIDs that the record has not known for long, which Acquaintances
	// tells; nil where they have no limits.
	Strangers     *Strangers
	Acquaintances Acquaintances
	Write         FieldWriter
	Policy        Policy
	Limits        Limits
	Entropy       io.Reader // for the ids of steps that came without one; safe for concurrent use
}

// Submit judges one step and files it with all that it is owed to. A nil error
// means that it is on disk. The same step again is answered with its first entry.
//
// It returns a [*federation.RefusalError] for a step that is refused for good,
// and an error wrapping [*federation.UnavailableError] when asking again may
// help. The judgement says how far it got in each case.
func (h *Home) Submit(ctx context.Context, ev federation.Event, now time.Time) (federation.Judgement, error) {
	return h.submit(ctx, ev, now, now, false)
}

// Resume is Submit for a step that came in at an earlier time and could not be judged
// then: its id is held to the clock of that time.
func (h *Home) Resume(ctx context.Context, ev federation.Event, since, now time.Time) (federation.Judgement, error) {
	return h.submit(ctx, ev, since, now, true)
}

func (h *Home) submit(ctx context.Context, ev federation.Event, since, now time.Time, resumed bool) (federation.Judgement, error) {
	if ev.From == "" {
		return federation.Judgement{}, federation.Refuse(ev, federation.MissingRequirement, h.TagPrefix+"handoff-from")
	}
	if err := federation.CheckVouching(ev, h.TagPrefix); err != nil {
		return federation.Judgement{}, err
	}
	if err := h.Kinds.Known(ev); err != nil && ev.Verb != federation.Confirm {
		return federation.Judgement{}, err
	}
	ev, verdict, err := signing.Verify(ctx, h.Keys, ev)
	judged := federation.Judgement{Verdict: verdict}
	if err != nil {
		return h.judgedBefore(ctx, judged, ev, err, since)
	}
	if wait := h.wait(ctx, ev, now); wait > 0 {
		refused := federation.Refuse(ev, federation.RateLimited, "")
		refused.RetryAfter = wait
		return judged, refused
	}
	newcomer, err := h.admitStep(ctx, ev, now)
	if err != nil && !resumed { // a step that was kept was let in when it came
		return judged, err
	}
	judged.Newcomer = newcomer
	for range maxRaces {
		judged, err = h.file(ctx, judged, ev, since, now)
		if !errors.Is(err, federation.ErrStale) {
			if newcomer != "" && err == nil && !judged.Duplicate {
				h.Strangers.Count(newcomer, ev.Arrival.Address, now)
			}
			return judged, err
		}
		judged.Conflicts++
	}
	return judged, &federation.UnavailableError{What: "handoff " + ev.Handoff.String(), RetryAfter: time.Second, Err: err}
}

// judgedBefore answers a step that does not verify now. What is on file with the
// same signature was judged by the keys of the time when it first came, and comes
// again in good faith: its key was taken back since, or its directory is away. Any
// other is let in by its id, so that it can be judged later.
func (h *Home) judgedBefore(ctx context.Context, judged federation.Judgement, ev federation.Event, refused error, since time.Time) (federation.Judgement, error) {
	if len(ev.Signature.Bytes) == 0 {
		return judged, refused
	}
	entry, err := h.Store.Known(ctx, ev.From, ev.ID, ev.Digest())
	if err == nil && bytes.Equal(entry.Event.Signature.Bytes, ev.Signature.Bytes) {
		judged.Verdict = federation.Valid
		return h.repeat(ctx, judged, entry)
	}
	if judged.Verdict == federation.Unverifiable {
		if ev, err = h.identify(ev, since); err != nil {
			return judged, err
		}
		judged.Entry.Event = ev
	}
	return judged, refused
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
	case !ev.Stamped && !ev.ID.IsZero(): // it was given one, and had to wait
	case ev.Stamped && ev.Arrival.Home != "": // its own server has let it in, maybe long ago
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

// file judges a step in its handoff as that stands, unless it is on file. It returns
// [federation.ErrStale] when the handoff moved in between.
func (h *Home) file(ctx context.Context, judged federation.Judgement, ev federation.Event, since, now time.Time) (federation.Judgement, error) {
	before, err := h.Store.View(ctx, ev.Handoff)
	if err != nil {
		return judged, fmt.Errorf("read handoff %s: %w", ev.Handoff, err)
	}
	// The same step may be under way twice. Were it looked up before the view was read,
	// it could be held to a state that it has brought about itself, and refused.
	entry, err := h.Store.Known(ctx, ev.From, ev.ID, ev.Digest())
	switch {
	case err == nil:
		return h.repeat(ctx, judged, entry)
	case !errors.Is(err, federation.ErrNotFound):
		return judged, fmt.Errorf("look up step: %w", err)
	}
	if ev, err = h.identify(ev, since); err != nil {
		return judged, err
	}
	judged.Entry.Event, judged.View = ev, before
	ev.Arrival.Party = h.partyOf(ctx, before, ev)
	if ev.Arrival.Accepted, err = h.accepted(ctx, before, ev); err != nil {
		return judged, err
	}
	if before.Guest && ev.Verb != federation.Offer {
		return h.visit(ctx, judged, before, ev, now)
	}
	return h.take(ctx, judged, before, ev, now)
}

// take judges a step against the handoff as it stands and files it there. It returns
// [federation.ErrStale] when the handoff moved in between.
func (h *Home) take(ctx context.Context, judged federation.Judgement, before federation.View, ev federation.Event, now time.Time) (federation.Judgement, error) {
	judged.View = before
	after, err := h.judge(ctx, before, ev, now)
	if err != nil {
		return judged, err
	}
	return h.append(ctx, judged, ev, after, now, nil)
}

// append files a step with all that it is owed to, and with the ruling of the home of
// the handoff where that is another one. The judgement has the handoff as the step was
// judged against it. The step was found good: it is filed also where ctx ends meanwhile.
func (h *Home) append(ctx context.Context, judged federation.Judgement, ev federation.Event, after federation.View, now time.Time, r *federation.Ruling) (federation.Judgement, error) {
	ctx, before := context.WithoutCancel(ctx), judged.View
	if after.Guest { // what ends it if nobody moves it is its home
		after.Clock, after.Since = "", time.Time{}
	}
	owed, err := h.Routes.Owed(ctx, ev, after)
	if err != nil {
		return judged, fmt.Errorf("route step %s: %w", ev.ID, err)
	}
	filing := federation.Filing{
		Event: ev, After: before.Version, View: after, Filed: now,
		Inboxes: after.Others(ev.Actor()), Owed: owed, Ruling: r, Newcomer: judged.Newcomer,
	}
	if h.confirmed(before, ev) {
		receipt, err := h.Receipt(ctx, federation.Entry{Event: ev, Filed: now}, after)
		if err != nil {
			return judged, err
		}
		filing.Receipt = &receipt
	}
	entry, err := h.Store.Append(ctx, filing)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok && refused.Event.IsZero() { // of one of its messages
		named := *refused
		named.Event, named.Handoff = ev.ID, ev.Handoff
		return judged, &named
	}
	switch {
	case err != nil:
		return judged, fmt.Errorf("file step %s: %w", ev.ID, err)
	case !entry.Filed.Equal(now): // in between, from another side
		return h.repeat(ctx, judged, entry)
	}
	judged.Entry, judged.View, judged.Owed = entry, after, owed
	return judged, nil
}

// party returns which party of a handoff has taken a step as another of its DIDs,
// "" where the actor is named in the handoff itself, or in no other way.
func (h *Home) party(ctx context.Context, v federation.View, ev federation.Event) federation.DID {
	actor, others := ev.Actor(), v.Others(ev.Actor())
	if actor == v.Offerer || actor == v.Offeree || actor == v.Assignee {
		return ""
	}
	for _, did := range others {
		if h.Same(ctx, actor, did) {
			return did
		}
	}
	return ""
}

// accepted returns who took the step that this one accepts, "" where that is none
// of the handoff or none of the verb that its kind has for it.
func (h *Home) accepted(ctx context.Context, v federation.View, ev federation.Event) (federation.DID, error) {
	rule, _ := h.Kinds.Rule(v, ev.Verb)
	if rule.Accepts == "" || ev.Accepts.IsZero() {
		return "", nil
	}
	named, err := h.Store.Step(ctx, v.ID, ev.Accepts)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("look up step %s of %s: %w", ev.Accepts, v.ID, err)
	case named.Event.Verb != rule.Accepts:
		return "", nil
	}
	return named.Event.Actor(), nil
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
	at := cmp.Or(ev.Arrival.Place.Venue, ev.Venue)
	if !ev.Arrival.Abroad && at != before.Venue && (before.Signed == "" || ev.Venue != before.Signed) {
		return before, federation.Refuse(ev, federation.WrongVenue, "")
	}
	after, err := h.Kinds.Check(before, ev, now)
	if err != nil {
		return before, err
	}
	return after, h.checks(ctx, ev, before, after)
}

// open judges an offer.
func (h *Home) open(ctx context.Context, before federation.View, ev federation.Event, now time.Time) (federation.View, error) {
	if before.Exists() {
		return before, federation.Refuse(ev, federation.EventIDInUse, "")
	}
	if limit := h.Limits.MaxDeadline; limit > 0 && ev.Deadline.After(now.Add(limit)) {
		return before, federation.Refuse(ev, federation.InvalidTag, h.TagPrefix+"handoff-deadline, at most "+limit.String()+" from now")
	}
	after, err := h.Kinds.Open(ev, h.homeOf(ev), now)
	if err != nil {
		return before, err
	}
	after.Guest = after.Home != h.ID
	if err := h.checkReplaced(ctx, ev); err != nil {
		return before, err
	}
	return after, h.checks(ctx, ev, before, after)
}
