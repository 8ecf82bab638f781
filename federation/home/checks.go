package home

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"baton/federation"
	"baton/federation/lifecycle"
)

// checks holds a step that the lifecycle allows to what is known beside it, in
// this order: the policy, what it answers, what it asks for, and whether there is
// room. The first thing wrong names the code.
func (h *Home) checks(ctx context.Context, ev federation.Event, before, after federation.View) error {
	if err := h.checkPolicy(ctx, ev, after); err != nil {
		return err
	}
	if err := h.checkReference(ctx, ev); err != nil {
		return err
	}
	if err := h.checkCaps(ctx, before, ev); err != nil {
		return err
	}
	if err := h.checkUnfinished(ctx, ev); err != nil {
		return err
	}
	return h.checkInboxes(ctx, ev, before, after)
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

// checkReplaced refuses an offer that revives a handoff which is not over.
func (h *Home) checkReplaced(ctx context.Context, ev federation.Event) error {
	if ev.Replaces.IsZero() {
		return nil
	}
	replaced, err := h.Store.View(ctx, ev.Replaces)
	if err != nil {
		return fmt.Errorf("read handoff %s: %w", ev.Replaces, err)
	}
	return lifecycle.Revives(ev, replaced)
}

// checkCaps refuses a step that is anyone's, such as a claim, by somebody who did
// not declare what the offer asks for, where that is the policy.
func (h *Home) checkCaps(ctx context.Context, before federation.View, ev federation.Event) error {
	rule, _ := h.Kinds.Rule(before, ev.Verb)
	if rule.Who != federation.Anyone || !h.Limits.ClaimCaps || len(before.Caps) == 0 {
		return nil
	}
	declared, err := h.Caps.Declared(ctx, ev.Actor())
	if err != nil {
		return fmt.Errorf("look up capabilities of %s: %w", ev.Actor(), err)
	}
	for _, c := range before.Caps {
		if !slices.Contains(declared, c) {
			return federation.Refuse(ev, federation.MissingCapability, c)
		}
	}
	return nil
}

// checkUnfinished bounds how much one DID may have offered at a time.
func (h *Home) checkUnfinished(ctx context.Context, ev federation.Event) error {
	if ev.Verb != federation.Offer || h.Limits.OpenHandoffs == 0 {
		return nil
	}
	n, err := h.Store.Unfinished(ctx, ev.Actor())
	if err != nil {
		return fmt.Errorf("count handoffs of %s: %w", ev.Actor(), err)
	}
	if n >= h.Limits.OpenHandoffs {
		return federation.Refuse(ev, federation.QuotaExceeded, fmt.Sprintf("the limit is %d", h.Limits.OpenHandoffs))
	}
	return nil
}

// checkInboxes refuses an offer for which an inbox, or its sender's share of that, has no
// room, and a report of a sender that has used its share: reports have no end, and would
// lock out other senders. Steps that move a handoff are few for each offer that got in, and
// always find room: a party that waits for an answer must not lose it to other senders.
func (h *Home) checkInboxes(ctx context.Context, ev federation.Event, before, after federation.View) error {
	limits := h.Limits.Inbox
	switch {
	case limits == federation.InboxLimits{}:
		return nil
	case ev.Verb == federation.Offer:
	case ev.Arrival.Home == "" && !h.Moves(before, ev.Verb):
		limits = federation.InboxLimits{EventsPerSender: limits.EventsPerSender, BytesPerSender: limits.BytesPerSender}
	default:
		return nil
	}
	for _, did := range after.Others(ev.Actor()) {
		waits, err := h.Inboxes.Use(ctx, did, ev.From)
		if err != nil {
			return fmt.Errorf("count inbox of %s: %w", did, err)
		}
		if whole, share := limits.Free(waits); !whole.Admits(int64(len(ev.Signature.Document))) {
			return federation.Refuse(ev, federation.InboxFull, "")
		} else if !share.Admits(int64(len(ev.Signature.Document))) {
			return federation.Refuse(ev, federation.InboxFull, "too much of what waits there is yours")
		}
	}
	return nil
}
