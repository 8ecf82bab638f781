package home

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/lifecycle"
)

// Requirement is the minimum proof for a step.
type Requirement string

// A step signed neither by its actor nor by a gateway for the actor satisfies none of them.
const (
	RequireSigned  Requirement = "signed"  // by the actor
	RequireVouched Requirement = "vouched" // or by a gateway for the actor
	RequireNothing Requirement = "nothing" // the same; an exception before stricter rules
	Deny           Requirement = "deny"    // always
)

// Policy decides which DID may send which step. The first matching rule decides, otherwise Require.
// The zero Policy accepts vouched steps.
type Policy struct {
	Require    Requirement
	Rules      []Rule
	OpenOffers OfferPolicy
}

// OfferPolicy selects the DIDs that may offer in a channel over the APIs for agents. "" is
// [OffersOfMembers].
type OfferPolicy string

// The policies for offers in channels.
const (
	OffersOfMembers OfferPolicy = "members"
	OffersOfAgents  OfferPolicy = "agents" // members, and agents that declared themselves
	OffersOfAny     OfferPolicy = "any"
)

// Rule is a requirement on steps that match all of its lists. An empty list matches every step.
type Rule struct {
	Verbs      []federation.Verb
	Peers      []string
	Recipients []federation.DID // of an offer; the other parties for any other step
	Senders    []federation.DID // actors
	Require    Requirement
}

// The view is the state after the step.
func (r Rules) checkPolicy(s Snapshot, ev federation.Event, after federation.View) error {
	require, invited := r.Policy.Require, false
	if i := slices.IndexFunc(r.Policy.Rules, func(rule Rule) bool { return rule.fits(s, ev, after) }); i >= 0 {
		require, invited = r.Policy.Rules[i].Require, r.Policy.Rules[i].invites(ev)
	}
	switch {
	case require == Deny:
		return federation.Refuse(ev, federation.PolicyDenied, "")
	case require == RequireSigned && ev.Provenance != federation.Signed:
		return federation.Refuse(ev, federation.NeedSignature, "by the key of its actor")
	case ev.Verb == federation.Offer && !invited && s.Outsider:
		return federation.Refuse(ev, federation.PolicyDenied, "an offer to "+after.Venue+" requires membership: join the channel, or ask the operator to set [policy] open_offers to \"agents\" or \"any\", or to add a policy rule with your DID in senders")
	}
	return nil
}

// An offer is invited by a rule that lists its sender, or offers of its link. It may be made in any
// channel.
func (r Rule) invites(ev federation.Event) bool {
	return len(r.Senders) > 0 || slices.Contains(r.Peers, ev.Arrival.Link) && slices.Contains(r.Verbs, federation.Offer)
}

func (r Rule) mayFit(ev federation.Event) bool {
	return (len(r.Verbs) == 0 || slices.Contains(r.Verbs, ev.Verb)) && (len(r.Peers) == 0 || slices.Contains(r.Peers, ev.Arrival.Link))
}

// A list may contain any of the names of a DID.
func (r Rule) fits(s Snapshot, ev federation.Event, after federation.View) bool {
	lists := func(dids []federation.DID, did federation.DID) bool {
		return slices.ContainsFunc(dids, func(listed federation.DID) bool { return s.same(did, listed) })
	}
	if !r.mayFit(ev) || len(r.Senders) > 0 && !lists(r.Senders, ev.Actor()) {
		return false
	}
	return len(r.Recipients) == 0 ||
		slices.ContainsFunc(after.Others(ev.Actor()), func(party federation.DID) bool { return lists(r.Recipients, party) })
}

// alike returns the pairs of DIDs of the step and DIDs in the policy that it compared, and
// whether they belong to the same agent.
func (h *Home) alike(ctx context.Context, s Snapshot, ev federation.Event) (map[[2]federation.DID]bool, error) {
	found := map[[2]federation.DID]bool{}
	compare := func(did, listed federation.DID) (same bool, err error) {
		if same = did == listed; !same {
			same, err = h.Same(ctx, did, listed)
		}
		found[[2]federation.DID{did, listed}] = same
		return same, err
	}
	parties := append(s.View.Others(ev.Actor()), ev.Offeree())
	if s.Named != nil {
		parties = append(parties, s.Named.Event.Actor())
	}
	for _, rule := range h.Policy.Rules {
		if !rule.mayFit(ev) {
			continue
		}
		fits := len(rule.Senders) == 0
		for _, listed := range rule.Senders {
			same, err := compare(ev.Actor(), listed)
			if err != nil {
				return nil, err
			}
			fits = same || fits
		}
		for i := 0; fits && i < len(rule.Recipients); i++ {
			for _, party := range parties {
				if _, err := compare(party, rule.Recipients[i]); err != nil {
					return nil, err
				}
			}
		}
	}
	return found, nil
}

func (s Snapshot) same(did, listed federation.DID) bool {
	return did == listed || s.Same[[2]federation.DID{did, listed}]
}

// RuleText is a [Rule] in the form of the configuration.
type RuleText struct{ Verbs, Peers, Recipients, Senders []string }

// ParseRule returns a rule, and the mistakes in its text. The peers are the allowed names; nil
// allows every name.
func ParseRule(text RuleText, require Requirement, kinds lifecycle.Kinds, peers []string) (Rule, []federation.Mistake) {
	rule := Rule{Peers: text.Peers, Require: require}
	var mistakes []federation.Mistake
	add := func(key, why string) { mistakes = append(mistakes, federation.Mistake{Key: key, Why: why}) }
	for _, name := range text.Verbs {
		rule.Verbs = append(rule.Verbs, federation.Verb(name))
		if !kinds.HasVerb(federation.Verb(name)) {
			add("verbs", fmt.Sprintf("there is no step %q", name))
		}
	}
	for _, name := range text.Peers {
		if peers != nil && !slices.Contains(peers, name) {
			add("peers", fmt.Sprintf("want names of links: %s; not %q", strings.Join(slices.Sorted(slices.Values(peers)), ", "), name))
		}
	}
	dids := func(key string, names []string) []federation.DID {
		parsed := make([]federation.DID, len(names))
		for i, name := range names {
			var err error
			if parsed[i], err = federation.ParseDID(name); err != nil {
				add(key, fmt.Sprintf("want DIDs, such as did:plc:aaaaaaaaaaaaaaaaaaaaaaaa; not %q", name))
			}
		}
		return parsed
	}
	rule.Recipients, rule.Senders = dids("recipients", text.Recipients), dids("senders", text.Senders)
	switch require {
	case RequireSigned, RequireVouched, RequireNothing, Deny:
	default:
		add("require", `want "signed", "vouched", "nothing" or "deny"`)
	}
	return rule, mistakes
}

// The first violation determines the code.
func (r Rules) check(s Snapshot, ev federation.Event, before, after federation.View) error {
	if err := r.checkPolicy(s, ev, after); err != nil {
		return err
	}
	if ev.ReplyTo != "" && !s.Reference.IsZero() && s.Reference != ev.Handoff {
		return federation.Refuse(ev, federation.WrongReference, "")
	}
	if rule, _ := r.Kinds.Rule(before, ev.Verb); r.Limits.ClaimCaps && rule.Who == federation.Anyone {
		if missing := before.MissingCaps(s.Declared); len(missing) > 0 {
			return federation.Refuse(ev, federation.MissingCapability, missing[0])
		}
	}
	if ev.Verb == federation.Offer && r.Limits.OpenHandoffs > 0 && s.Open >= r.Limits.OpenHandoffs {
		return federation.Refuse(ev, federation.QuotaExceeded, fmt.Sprintf("the limit is %d", r.Limits.OpenHandoffs))
	}
	return r.checkInboxes(s, ev, before, after)
}

// An offer is refused if an inbox, or the share of its sender, is full. Progress is refused if
// its sender has used its share, because unlimited progress would lock out other senders. The
// few other steps of an admitted offer are never refused, so that a party cannot lose an
// expected response.
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
		if whole, share := limits.Remaining(s.Inboxes[did]); !whole.Admits(int64(len(ev.Signature.Document))) {
			return federation.Refuse(ev, federation.InboxFull, "")
		} else if !share.Admits(int64(len(ev.Signature.Document))) {
			return federation.Refuse(ev, federation.InboxFull, "your share of the inbox is full")
		}
	}
	return nil
}

// Moves reports whether a verb changes the state of a handoff, so that its home confirms the step.
// The home does not confirm its own steps.
func (r Rules) Moves(v federation.View, verb federation.Verb) bool {
	rule, known := r.Kinds.Rule(v, verb)
	return known && rule.Who != federation.System && !slices.Contains(rule.From, rule.To)
}
