package home

import (
	"context"
	"fmt"
	"slices"

	"baton/federation"
)

// Requirement is what a step must be at least, to be filed.
type Requirement string

// The requirements. A step that nobody signed, neither whoever took it nor a gateway
// for them, meets none of them.
const (
	RequireSigned  Requirement = "signed"  // by the key of whoever took it
	RequireVouched Requirement = "vouched" // or by a gateway for them
	RequireNothing Requirement = "nothing" // the same: a rule before others that ask for more
	Deny           Requirement = "deny"    // whatever it is
)

// Policy is who may do what. The first rule that fits a step decides, and where none
// does, Require; the zero Policy takes what is vouched for.
type Policy struct {
	Require Requirement
	Rules   []Rule
}

// Rule says what steps must be that fit all of its lists. An empty list fits every
// step.
type Rule struct {
	Verbs      []federation.Verb
	Peers      []string         // links through which a step came
	Recipients []federation.DID // of an offer whom it is to, of any other step the other parties
	Senders    []federation.DID // the actor of the step
	Require    Requirement
}

// checkPolicy refuses a step that is less than the policy wants. The handoff is that
// after the step.
func (h *Home) checkPolicy(ctx context.Context, ev federation.Event, after federation.View) error {
	require, invited := h.Policy.Require, false
	for _, rule := range h.Policy.Rules {
		if h.fits(ctx, rule, ev, after) {
			require, invited = rule.Require, rule.invites(ev)
			break
		}
	}
	switch {
	case require == Deny:
		return federation.Refuse(ev, federation.PolicyDenied, "")
	case require == RequireSigned && ev.Provenance != federation.Signed:
		return federation.Refuse(ev, federation.NeedSignature, "by the key of whoever takes it")
	case ev.Verb == federation.Offer && !invited:
		return h.checkMember(ctx, ev, after)
	}
	return nil
}

// checkMember refuses an offer to a channel whose offerer does not belong to it.
func (h *Home) checkMember(ctx context.Context, ev federation.Event, after federation.View) error {
	if h.Member == nil {
		return nil
	}
	member, err := h.Member(ctx, ev)
	if err != nil {
		return fmt.Errorf("look for %s in %s: %w", ev.Actor(), after.Venue, err)
	}
	if !member {
		return federation.Refuse(ev, federation.PolicyDenied, "an offer to "+after.Venue+" takes membership: join the channel, or ask the operator for a policy rule with your DID in senders")
	}
	return nil
}

// invites reports whether a rule that fits an offer was written for its sender, so that it
// may go to any channel: it lists the sender, or offers of the link.
func (r Rule) invites(ev federation.Event) bool {
	return len(r.Senders) > 0 || slices.Contains(r.Peers, ev.Arrival.Link) && slices.Contains(r.Verbs, federation.Offer)
}

func (h *Home) fits(ctx context.Context, rule Rule, ev federation.Event, after federation.View) bool {
	if len(rule.Verbs) > 0 && !slices.Contains(rule.Verbs, ev.Verb) || len(rule.Peers) > 0 && !slices.Contains(rule.Peers, ev.Arrival.Link) {
		return false
	}
	if len(rule.Senders) > 0 && !h.names(ctx, rule.Senders, ev.Actor()) {
		return false
	}
	if len(rule.Recipients) == 0 {
		return true
	}
	return slices.ContainsFunc(after.Others(ev.Actor()), func(party federation.DID) bool { return h.names(ctx, rule.Recipients, party) })
}

// names reports whether a DID is in a list of a rule, under any of its names.
func (h *Home) names(ctx context.Context, dids []federation.DID, did federation.DID) bool {
	return slices.ContainsFunc(dids, func(listed federation.DID) bool { return listed == did || h.Same(ctx, did, listed) })
}
