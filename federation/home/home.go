// Package home judges and files the steps of the handoffs of this home. Only the home orders them:
// the first valid step wins, by compare-and-set on the log.
//
// A [Home] does no I/O itself: the record, the keys and the routes are ports, and the time is an
// argument. It reads a [Snapshot], calls [Rules.Decide], and writes the [Decision]. If another step
// was filed meanwhile, it starts again with a new snapshot.
package home

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// More conflicts in a row indicate an attack on the handoff. The sender may submit the step again.
const maxRaces = 16

// Limits are the limits of a home. Zero means no limit.
type Limits struct {
	ClockSkew       time.Duration          // between an event ID and the local clock, in either direction
	MaxDeadline     time.Duration          // from now
	EventsPerMinute int                    // of one DID
	Inbox           federation.InboxLimits // unread entries of one DID; bytes of signed documents
	Deferred        federation.DeferralLimits
	Strangers       StrangerLimits // for DIDs new to the record
	OpenHandoffs    int            // offered by one DID
	// Unanswered is the lifetime of an offer without a deadline. Abandoned is the maximum time
	// between steps of assigned work.
	Unanswered, Abandoned time.Duration
	// ClaimCaps requires a DID to have declared the required capabilities of an open offer before
	// it claims the offer or bids for it.
	ClaimCaps bool
}

// Home orders the handoffs of one gateway. It is safe for concurrent use.
type Home struct {
	Rules

	Key    federation.SigningKey // for the home's own steps and receipts
	Record Record
	Keys   federation.KeySource
	// Route returns the recipients of a step besides the inboxes of its parties. It may be nil. It
	// is called before the step is filed, with the view after the step.
	Route func(ctx context.Context, ev federation.Event, after federation.View) (federation.Fanout, error)
	// Declared returns the declared capabilities of a DID, if any.
	Declared func(ctx context.Context, did federation.DID) ([]string, error)
	Same     func(ctx context.Context, a, b federation.DID) (bool, error) // whether two DIDs belong to one agent
	// Owner returns the DID for which this gateway keeps the key of a DID, and any other DID
	// unchanged. It is nil if the gateway keeps no keys.
	Owner func(ctx context.Context, did federation.DID) (federation.DID, error)
	// Member reports whether an offer may be written in its channel; nil allows all offers.
	Member func(ctx context.Context, ev federation.Event) (bool, error)
	// IsAgent reports whether a DID registered here as an agent, or declared a name or
	// capabilities. It is needed only with [OffersOfAgents].
	IsAgent  func(ctx context.Context, did federation.DID) (bool, error)
	Rates    *Rates
	Deferral *Deferral // nil refuses steps with a missing key
	// Strangers counts DIDs new to the record. It is nil without limits for them.
	Strangers *Strangers
	// Write writes the fields of a step of the home. These steps fit every dialect.
	Write signing.Writer
	// Read parses the signed document of a step.
	Read    signing.Reader
	Entropy io.Reader // for IDs of steps received without one; safe for concurrent use
}

// Submit judges one step and files it with its inboxes and deliveries. A nil error means that it is
// on disk. A repeated step returns its first entry.
//
// A [*federation.RefusalError] is final unless Waits is true: then the step is deferred on disk,
// even if ctx ends meanwhile. An error wrapping [*federation.UnavailableError] may be retried. The
// judgement is set in each case.
func (h *Home) Submit(ctx context.Context, ev federation.Event, now time.Time) (federation.Judgement, error) {
	sub := Submission{Event: ev, Since: now}
	if h.Deferral == nil {
		return h.judge(ctx, sub, now)
	}
	waiting, err := h.Deferral.cfg.Record.DeferredIn(ctx, ev.Handoff)
	if err == nil && signedAlike(waiting, ev) {
		waiting, err = h.retryBefore(ctx, ev, now)
	}
	if err != nil {
		return federation.Judgement{}, err
	}
	judged, err := h.judge(ctx, sub, now)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	switch {
	case isRefusal && checkable(refused, judged.Entry.Event):
		return h.deferStep(ctx, judged, waiting, err, "the step waits for a key", now)
	case isRefusal && len(waiting) > 0 && maySucceedLater(refused.Code):
		return h.deferStep(ctx, judged, waiting, err, "the step waits behind an earlier one, which waits for a key", now)
	}
	return judged, err
}

// If another step was filed meanwhile, the step is decided again with another snapshot. A valid
// step is written even if ctx ends meanwhile.
func (h *Home) judge(ctx context.Context, sub Submission, now time.Time) (judged federation.Judgement, err error) {
	address := sub.Event.Arrival.Address
	judged.Verdict = federation.Valid
	if sub.By == Signer {
		if err := h.checkForm(sub); err != nil {
			return federation.Judgement{}, err
		}
		sub.Event, judged.Verdict, err = signing.Open(ctx, h.Keys, h.Read, sub.Event)
		if err != nil {
			return h.judgedBefore(ctx, judged, sub.Event, err, sub.Since)
		}
		if judged.Newcomer, err = h.admit(ctx, sub, now); err != nil {
			return judged, err
		}
		if sub.Event, err = h.identified(sub.Event, sub.Since); err != nil {
			return judged, err
		}
		if sub.Event, err = h.addressed(ctx, sub.Event); err != nil {
			return judged, err
		}
	}
	for range maxRaces {
		s, err := h.snapshot(ctx, sub)
		if err != nil {
			return judged, err
		}
		d, err := h.Decide(s, sub, now)
		judged.View = d.Before
		if sub.By == Signer && !d.Event.ID.IsZero() {
			judged.Entry.Event = sub.Event
		}
		if err != nil {
			return judged, err
		}
		written := context.WithoutCancel(ctx)
		switch d.Action {
		case Repeat:
			judged.Entry, judged.Duplicate, judged.Awaits = d.Entry, true, d.Awaits
		case Dispute:
			return judged, h.dispute(written, d, now)
		case Confirm: // from here on, the step that waited for this receipt is judged
			sub = Submission{Event: d.Event, Since: now, By: Receipt}
			continue
		case Await:
			if err = h.Record.KeepPending(written, federation.Pending{Event: d.Event, Home: d.Before.Home, Since: now}, d.Before.Version); err == nil {
				judged.Entry, judged.Awaits = federation.Entry{Event: d.Event, State: d.Before.State, Filed: now}, true
			}
		case File:
			var to federation.Fanout
			if to, err = h.route(written, d); err == nil {
				judged, err = h.commit(written, judged, d, to, now)
			}
		}
		switch {
		case errors.Is(err, federation.ErrStale):
			judged.Conflicts++
			continue
		case err != nil:
			return judged, err
		case judged.Newcomer != "" && !judged.Duplicate:
			h.Strangers.Count(judged.Newcomer, address, now, h.Limits.Strangers.DIDs)
		}
		if sub.By == Receipt {
			err = h.Drop(written, sub.Event)
		}
		return judged, err
	}
	return judged, &federation.UnavailableError{What: "handoff " + sub.Event.Handoff.String(), RetryAfter: time.Second, Err: federation.ErrStale}
}

// Another home that ruled on a step has judged its form.
func (h *Home) checkForm(sub Submission) error {
	ev := sub.Event
	switch {
	case sub.Ruling != nil:
		return h.Kinds.Known(ev)
	case ev.From == "":
		return federation.Refuse(ev, federation.MissingRequirement, h.TagPrefix+"handoff-from")
	}
	if err := federation.CheckVouching(ev, h.TagPrefix); err != nil || ev.Verb == federation.Confirm {
		return err
	}
	return h.Kinds.Known(ev)
}

func (h *Home) route(ctx context.Context, d Decision) (to federation.Fanout, err error) {
	if h.Route != nil {
		to, err = h.Route(ctx, d.Event, d.After)
	}
	if err != nil {
		err = fmt.Errorf("route step %s: %w", d.Event.ID, err)
	}
	return to, err
}

// Returns [federation.ErrStale] if the handoff has changed since its snapshot.
func (h *Home) commit(ctx context.Context, judged federation.Judgement, d Decision, to federation.Fanout, now time.Time) (federation.Judgement, error) {
	filing := federation.Filing{
		Event: d.Event, After: d.Before.Version, View: d.After, Filed: now,
		Inboxes: d.Inboxes, Fanout: to, Ruling: d.Ruling, Newcomer: judged.Newcomer,
	}
	if d.Receipt {
		receipt, err := h.Receipt(ctx, federation.Entry{Event: d.Event, Filed: now}, d.After)
		if err != nil {
			return judged, err
		}
		filing.Receipt = &receipt
	}
	entry, err := h.Record.Append(ctx, filing)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok && refused.Event.IsZero() { // it concerns one of its messages
		named := *refused
		named.Event, named.Handoff = d.Event.ID, d.Event.Handoff
		return judged, &named
	}
	switch {
	case err != nil:
		return judged, fmt.Errorf("file step %s: %w", d.Event.ID, err)
	case !entry.Filed.Equal(now): // by another caller
		return judged, federation.ErrStale
	}
	judged.Entry, judged.View, judged.Fanout = entry, d.After, to
	return judged, nil
}

// An unverifiable step with the signature of a filed step is a repeat: its key may have been
// revoked since, or its directory may be unreachable. Any other one gets its ID, so that it can be
// judged later.
func (h *Home) judgedBefore(ctx context.Context, judged federation.Judgement, ev federation.Event, refused error, since time.Time) (federation.Judgement, error) {
	if len(ev.Signature.Bytes) == 0 {
		return judged, refused
	}
	s, err := h.Record.Snapshot(ctx, federation.SnapshotQuery{Step: ev})
	if err == nil && s.Filed != nil && bytes.Equal(s.Filed.Event.Signature.Bytes, ev.Signature.Bytes) {
		judged.Verdict, judged.Entry, judged.View, judged.Duplicate = federation.Valid, *s.Filed, s.View, true
		return judged, nil
	}
	if judged.Verdict == federation.Unverifiable {
		if ev, err = h.identified(ev, since); err != nil {
			return judged, err
		}
		if err := h.checkClock(ev, since); err != nil {
			return judged, err
		}
		judged.Entry.Event = ev
	}
	return judged, refused
}

func (h *Home) identified(ev federation.Event, now time.Time) (federation.Event, error) {
	switch {
	case ev.Stamped || !ev.ID.IsZero():
		return ev, nil
	case ev.Verb == federation.Offer:
		ev.ID = ev.Handoff
		return ev, nil
	}
	id, err := federation.NewEventID(now, h.Entropy)
	ev.ID = id
	return ev, err
}
