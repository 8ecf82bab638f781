package home

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/baton-gateway/baton/federation"
)

// Snapshot is everything that judging one step needs.
type Snapshot struct {
	federation.Snapshot

	// Party is the party of the handoff that made the step, if the signer is another DID of that
	// party; else "". Data of this gateway takes precedence over the statement of the signer's
	// home.
	Party federation.DID
	// Same has the pairs of DIDs of one agent, as needed by the policy: the actor and the parties,
	// each with the DIDs listed in the policy.
	Same     map[[2]federation.DID]bool
	Declared []string // the capabilities that the actor declared
	Outsider bool     // the offerer may not offer in the channel
}

func (h *Home) snapshot(ctx context.Context, sub Submission) (Snapshot, error) {
	ev := sub.Event
	offer := ev.Verb == federation.Offer
	q := federation.SnapshotQuery{Step: ev, Inboxes: h.Limits.Inbox != federation.InboxLimits{} && (offer || ev.Arrival.Home == "")}
	if sub.Ruling != nil {
		q.Version = sub.Ruling.Version
	}
	if offer && h.Limits.OpenHandoffs > 0 {
		opener := ev
		opener.Arrival.ActingFor = h.party(ctx, federation.View{}, ev)
		q.OpenOf = opener.Actor()
	}
	found, err := h.Record.Snapshot(ctx, q)
	s := Snapshot{Snapshot: found}
	if err != nil {
		return s, fmt.Errorf("read snapshot of handoff %s: %w", ev.Handoff, err)
	}
	switch {
	case sub.Ruling != nil:
		ev = s.asSent(sub)
	case found.Judged():
		return s, nil // a filed step is not judged again
	}
	if sub.By == Signer {
		s.Party = h.party(ctx, s.View, ev)
		ev.Arrival.ActingFor = s.Party
	}
	if offer || h.Limits.ClaimCaps {
		err = h.readActor(ctx, &s, ev)
	}
	if len(h.Policy.Rules) > 0 {
		s.Same = h.alike(ctx, s, ev)
	}
	return s, err
}

// addressed returns an offer with its recipient if the offer names the DID of a key that this
// gateway keeps for the recipient. The signed document stays unchanged.
func (h *Home) addressed(ctx context.Context, ev federation.Event) (federation.Event, error) {
	ev.Arrival.Recipient = ""
	if ev.Verb != federation.Offer || ev.To == "" || h.Owner == nil {
		return ev, nil
	}
	owner, err := h.Owner(ctx, ev.To)
	if owner != ev.To {
		ev.Arrival.Recipient = owner
	}
	return ev, err
}

// party returns the party of a handoff that made a step, if the signer is another DID of that
// party, else "". A vouched step counts as signed by the DID of its key if the handoff names its
// author by that key.
func (h *Home) party(ctx context.Context, v federation.View, ev federation.Event) federation.DID {
	said, parties := ev.Arrival.ActingFor, v.Others("")
	ev.Arrival.ActingFor = ""
	if actor := ev.Actor(); !slices.Contains(parties, actor) {
		isParty := func(party federation.DID) bool { return party == ev.From || h.Same(ctx, actor, party) }
		if i := slices.IndexFunc(parties, isParty); i >= 0 {
			return parties[i]
		}
	}
	switch {
	case !ev.Arrival.RemoteVenue:
		return ""
	case said != "" && said == v.Named: // its home identifies the offeree only by the kept key
		return v.Offeree
	}
	return said
}

// readActor reads whether the offerer is a member of the channel of its offer. For a step open to
// anyone, it also reads the declared capabilities of the actor.
func (h *Home) readActor(ctx context.Context, s *Snapshot, ev federation.Event) (err error) {
	rule, _ := h.Kinds.Rule(s.View, ev.Verb)
	if rule.Who == federation.Anyone && h.Limits.ClaimCaps && len(s.View.Caps) > 0 {
		if s.Declared, err = h.Declared(ctx, ev.Actor()); err != nil {
			return fmt.Errorf("look up capabilities of %s: %w", ev.Actor(), err)
		}
	}
	if h.Member != nil && ev.Verb == federation.Offer && !s.View.Exists() && h.Policy.OpenOffers != OffersOfAny {
		member, err := h.Member(ctx, ev)
		if err == nil && !member && h.Policy.OpenOffers == OffersOfAgents {
			member, err = h.IsAgent(ctx, ev.Actor())
		}
		if err != nil {
			return fmt.Errorf("look for %s in %s: %w", ev.Actor(), cmp.Or(ev.Arrival.Place.Venue, ev.Venue), err)
		}
		s.Outsider = !member
	}
	return nil
}

// asSent returns a step as it arrived here, if it arrived before its home ruled on it: with the
// link not to be notified again, with the evidence, and with the statements that this home has
// signed about it since. An offer is filed at the home that receives it.
func (s Snapshot) asSent(sub Submission) federation.Event {
	ev := sub.Event
	if sub.Ruling == nil || ev.Verb == federation.Offer {
		return ev
	}
	for _, each := range s.Pending {
		if each.Event.From == ev.From && each.Event.ID == ev.ID && each.Event.Signature.Document == ev.Signature.Document {
			each.Event.Arrival.Voucher = ev.Arrival.Voucher
			return each.Event
		}
	}
	return ev
}
