package home

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/signing"
)

// Ruled files a step of a handoff of another home at the place that this one gave it.
// The ruling is known to be that home's; that the step is its signer's, that it may
// follow those before it, and that both sides have one chain of hashes is judged here,
// as every home judges it for itself.
//
// It returns a [*federation.GapError] while steps before it are missing, a
// [*federation.ForkError] for a ruling that contradicts an earlier one, of which the
// proof is then on disk, a [*federation.RefusalError] for a step that can never be
// filed here, and an error wrapping [*federation.UnavailableError] when asking again
// may help.
func (h *Home) Ruled(ctx context.Context, ev federation.Event, r federation.Ruling, now time.Time) (federation.Judgement, error) {
	judged := federation.Judgement{}
	if ev.Handoff != r.Handoff || ev.ID != r.Event || r.Version == 0 || r.Home == h.ID {
		return judged, federation.Refuse(ev, federation.WrongReference, "the ruling is on another step")
	}
	if err := h.Kinds.Known(ev); err != nil {
		return judged, err
	}
	forked, err := h.Homes.Forked(ctx, ev.Handoff)
	if err != nil {
		return judged, err
	}
	if forked {
		return judged, federation.Refuse(ev, federation.WrongSender, "its home has told two histories of this handoff")
	}
	ev, judged.Verdict, err = signing.Verify(ctx, h.Keys, ev)
	if err != nil {
		return h.judgedBefore(ctx, judged, ev, err, now)
	}
	for range maxRaces {
		judged, err = h.follow(ctx, judged, ev, r, now)
		if !errors.Is(err, federation.ErrStale) {
			return judged, err
		}
		judged.Conflicts++
	}
	return judged, &federation.UnavailableError{What: "handoff " + ev.Handoff.String(), RetryAfter: time.Second, Err: err}
}

// follow files a ruled step after those that are here. It returns
// [federation.ErrStale] where the handoff moved in between.
func (h *Home) follow(ctx context.Context, judged federation.Judgement, ev federation.Event, r federation.Ruling, now time.Time) (federation.Judgement, error) {
	before, err := h.Store.View(ctx, ev.Handoff)
	if err != nil {
		return judged, fmt.Errorf("read handoff %s: %w", ev.Handoff, err)
	}
	judged.View = before
	switch {
	case before.Exists() && before.Home != r.Home:
		return judged, federation.Refuse(ev, federation.EventIDInUse, "it is a handoff of another home")
	case r.Version > before.Version+1:
		return judged, &federation.GapError{Have: before.Version, Want: r.Version}
	case r.Version <= before.Version:
		return h.ruledBefore(ctx, judged, ev, r, now)
	}
	if err := h.sameChain(ctx, before, ev, r, now); err != nil {
		return judged, err
	}
	if ev, err = h.asSent(ctx, ev); err != nil {
		return judged, err
	}
	ev.Arrival.Party = h.partyOf(ctx, before, ev)
	if ev.Arrival.Accepted, err = h.accepted(ctx, before, ev); err != nil {
		return judged, err
	}
	after, err := h.afterRuling(ctx, before, ev, now)
	if err != nil {
		return judged, err
	}
	return h.append(ctx, judged, ev, after, now, &r)
}

// asSent returns a step as it came in here, where it did before its home ruled on it:
// with the link that is not to be told again, and with the evidence, and with what this
// home signed of it since. An offer is filed where it comes in.
func (h *Home) asSent(ctx context.Context, ev federation.Event) (federation.Event, error) {
	if ev.Verb == federation.Offer {
		return ev, nil
	}
	held, err := h.Guests.AwaitingIn(ctx, ev.Handoff)
	if err != nil {
		return ev, fmt.Errorf("read what waits in %s: %w", ev.Handoff, err)
	}
	for _, each := range held {
		if each.Event.From == ev.From && each.Event.ID == ev.ID && each.Event.Signature.Document == ev.Signature.Document {
			each.Event.Arrival.Voucher = ev.Arrival.Voucher
			return each.Event, nil
		}
	}
	return ev, nil
}

// afterRuling returns the view after a ruled step. What an offer may ask of the people
// here is this home's to say; once it let that in, their home has the say on what
// follows, as far as the lifecycle allows it.
func (h *Home) afterRuling(ctx context.Context, before federation.View, ev federation.Event, now time.Time) (federation.View, error) {
	if before.Exists() {
		return h.Kinds.Check(before, ev, now)
	}
	after, err := h.open(ctx, before, ev, now)
	after.Numbered = true
	return after, err
}

// ruledBefore answers a ruling on a step that is here already.
func (h *Home) ruledBefore(ctx context.Context, judged federation.Judgement, ev federation.Event, r federation.Ruling, now time.Time) (federation.Judgement, error) {
	entry, err := h.Store.Known(ctx, ev.From, ev.ID, ev.Digest())
	if err == nil && entry.Version == r.Version && entry.Event.Handoff == r.Handoff {
		chain, err := h.Homes.Chain(ctx, r.Handoff, r.Version)
		if err != nil {
			return judged, fmt.Errorf("read chain: %w", err)
		}
		if chain != r.Chain {
			return judged, h.forked(ctx, r, r.Version, now)
		}
		judged, err = h.repeat(ctx, judged, entry)
		if err != nil {
			return judged, err
		}
		return judged, h.Guests.Ruled(ctx, ev.Handoff, ev.From, ev.ID)
	}
	if _, refused := errors.AsType[*federation.RefusalError](err); err != nil && !refused && !errors.Is(err, federation.ErrNotFound) {
		return judged, fmt.Errorf("look up step: %w", err)
	}
	return judged, h.forked(ctx, r, r.Version, now)
}

// sameChain holds the chain that the home says to the one that comes of the steps
// which are here.
func (h *Home) sameChain(ctx context.Context, before federation.View, ev federation.Event, r federation.Ruling, now time.Time) error {
	var link [32]byte
	if before.Exists() {
		var err error
		if link, err = h.Homes.Chain(ctx, before.ID, before.Version); errors.Is(err, federation.ErrNotFound) {
			return federation.ErrStale
		} else if err != nil {
			return fmt.Errorf("read chain: %w", err)
		}
	}
	switch {
	case federation.Link(link, ev.Signature.Document) == r.Chain:
		return nil
	case !before.Exists():
		return federation.Refuse(ev, federation.WrongReference, "the ruling is on another step")
	}
	return h.forked(ctx, r, before.Version, now)
}

// forked keeps the proof that a ruling contradicts the one by which a step was filed.
func (h *Home) forked(ctx context.Context, r federation.Ruling, version federation.Version, now time.Time) error {
	document, signature, err := h.Homes.RulingOn(ctx, r.Handoff, version)
	if err != nil {
		return fmt.Errorf("read what was ruled: %w", err)
	}
	fork := federation.Fork{
		Home: r.Home, Handoff: r.Handoff, Version: version, Second: r, Found: now,
		First: federation.Ruling{Home: r.Home, Handoff: r.Handoff, Version: version, Document: document, Signature: signature},
	}
	if err := h.Homes.KeepFork(ctx, fork); err != nil {
		return err
	}
	return &federation.ForkError{Fork: fork}
}

// partyOf returns which party of a handoff took a step as another of its DIDs: whom
// this gateway knows it to be, else whom the home of its people says it is.
func (h *Home) partyOf(ctx context.Context, v federation.View, ev federation.Event) federation.DID {
	said := ev.Arrival.Party
	ev.Arrival.Party = "" // what is found here comes first
	if party := h.party(ctx, v, ev); party != "" || !ev.Arrival.Abroad {
		return party
	}
	return said
}
