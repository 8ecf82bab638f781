package home

import (
	"fmt"
	"slices"

	"baton/federation"
)

// check compares a step that the lifecycle allows with what else is known, in this order:
// the policy, what the step answers, what it asks for, and the quotas. The first thing wrong
// names the code.
func (r Rules) check(s Snapshot, ev federation.Event, before, after federation.View) error {
	if err := r.checkPolicy(s, ev, after); err != nil {
		return err
	}
	if ev.ReplyTo != "" && !s.Reference.IsZero() && s.Reference != ev.Handoff {
		return federation.Refuse(ev, federation.WrongReference, "")
	}
	if r.Limits.ClaimCaps && len(before.Caps) > 0 {
		rule, _ := r.Kinds.Rule(before, ev.Verb)
		missing := func(c string) bool { return rule.Who == federation.Anyone && !slices.Contains(s.Declared, c) }
		if i := slices.IndexFunc(before.Caps, missing); i >= 0 {
			return federation.Refuse(ev, federation.MissingCapability, before.Caps[i])
		}
	}
	if ev.Verb == federation.Offer && r.Limits.OpenHandoffs > 0 && s.Open >= r.Limits.OpenHandoffs {
		return federation.Refuse(ev, federation.QuotaExceeded, fmt.Sprintf("the limit is %d", r.Limits.OpenHandoffs))
	}
	return r.checkInboxes(s, ev, before, after)
}

// checkInboxes refuses an offer for which an inbox, or its sender's share of that, has no
// space left, and a report of a sender that has used its share: reports have no end, and
// would lock out other senders. Steps that move a handoff are few for each offer that got in,
// and are never refused for it: a party that waits for an answer must not lose it to other
// senders.
func (r Rules) checkInboxes(s Snapshot, ev federation.Event, before, after federation.View) error {
	limits := r.Limits.Inbox
	switch {
	case limits == federation.InboxLimits{}:
		return nil
	case ev.Verb == federation.Offer:
	case ev.Arrival.Home == "" && !r.Moves(before, ev.Verb):
		limits = federation.InboxLimits{EventsPerSender: limits.EventsPerSender, BytesPerSender: limits.BytesPerSender}
	default:
		return nil
	}
	for _, did := range after.Others(ev.Actor()) {
		if whole, share := limits.Free(s.Inboxes[did]); !whole.Admits(int64(len(ev.Signature.Document))) {
			return federation.Refuse(ev, federation.InboxFull, "")
		} else if !share.Admits(int64(len(ev.Signature.Document))) {
			return federation.Refuse(ev, federation.InboxFull, "too much of what waits there is yours")
		}
	}
	return nil
}

// Moves reports whether a step by that verb moves a handoff from one state to another, so
// that its home confirms it. The home does not confirm its own steps.
func (r Rules) Moves(v federation.View, verb federation.Verb) bool {
	rule, known := r.Kinds.Rule(v, verb)
	return known && rule.Who != federation.System && !slices.Contains(rule.From, rule.To)
}
