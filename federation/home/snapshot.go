package home

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/baton-gateway/baton/federation"
)

// Snapshot has all data for judging one step.
type Snapshot struct {
	federation.Snapshot

	// Party is the party that sent the step, if the signer is another of its DIDs; otherwise "".
	// Data of this gateway takes precedence over statements of the signer's home.
	Party federation.DID
	// Same has pairs of DIDs of one agent, for the policy: the actor and the parties, each with the
	// DIDs listed in the policy.
	Same     map[[2]federation.DID]bool
	Declared []string // by the actor
	Outsider bool     // the offerer must not offer in the channel
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
		var err error
		if opener.Arrival.ActingFor, err = h.party(ctx, federation.View{}, ev); err != nil {
			return Snapshot{}, err
		}
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
		if s.Party, err = h.party(ctx, s.View, ev); err != nil {
			return s, err
		}
		ev.Arrival.ActingFor = s.Party
	}
	if offer || h.Limits.ClaimCaps {
		err = h.readActor(ctx, &s, ev)
	}
	if err == nil && len(h.Policy.Rules) > 0 {
		s.Same, err = h.alike(ctx, s, ev)
	}
	return s, err
}

// addressed replaces the DID of a kept key in an offer with the DID of its owner. The signed
// document does not change.
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

// If the handoff names the author by its kept key, a vouched step counts as signed by the DID of
// that key.
func (h *Home) party(ctx context.Context, v federation.View, ev federation.Event) (federation.DID, error) {
	said, parties := ev.Arrival.ActingFor, v.Others("")
	ev.Arrival.ActingFor = ""
	if actor := ev.Actor(); !slices.Contains(parties, actor) {
		for _, party := range parties {
			if party == ev.From {
				return party, nil
			}
			if same, err := h.Same(ctx, actor, party); same || err != nil {
				return party, err
			}
		}
	}
	switch {
	case !ev.Arrival.RemoteVenue:
		return "", nil
	case said != "" && said == v.Named: // its home knows the offeree only by the kept key
		return v.Offeree, nil
	}
	return said, nil
}

// Reads only the data needed by the step.
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
			return fmt.Errorf("find %s in %s: %w", ev.Actor(), cmp.Or(ev.Arrival.Place.Venue, ev.Venue), err)
		}
		s.Outsider = !member
	}
	return nil
}

// Restores the data from the first arrival of a step, if it arrived here before the ruling of its
// home. An offer is filed at the home that receives it.
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
