package home

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"baton/federation"
)

// Snapshot is everything that judging one step needs.
type Snapshot struct {
	federation.Snapshot

	// Same lists the pairs of DIDs that are one agent's, as far as this step asks: its
	// signer with the parties of the handoff, and both with the DIDs in the policy.
	Same     map[[2]federation.DID]bool
	Declared []string // what the actor declared that it can do
	Outsider bool     // the offerer does not belong to the channel of its offer
}

// snapshot reads what [Rules.Decide] needs to know about a submission.
func (h *Home) snapshot(ctx context.Context, sub Submission) (Snapshot, error) {
	found, err := h.Snapshots.Snapshot(ctx, h.query(sub))
	s := Snapshot{Snapshot: found, Same: map[[2]federation.DID]bool{}}
	switch {
	case err != nil:
		return s, fmt.Errorf("read snapshot of handoff %s: %w", sub.Event.Handoff, err)
	case sub.Ruling == nil && (found.Filed != nil || found.Used != nil):
		return s, nil // what is on file is not judged again
	}
	ev := h.knownAs(ctx, s, sub)
	rule, _ := h.Kinds.Rule(s.View, ev.Verb)
	if h.needsCaps(rule, s.View) {
		if s.Declared, err = h.Caps.Declared(ctx, ev.Actor()); err != nil {
			return s, fmt.Errorf("look up capabilities of %s: %w", ev.Actor(), err)
		}
	}
	if h.Member != nil && ev.Verb == federation.Offer && !s.View.Exists() {
		member, err := h.Member(ctx, ev)
		if err != nil {
			return s, fmt.Errorf("look for %s in %s: %w", ev.Actor(), cmp.Or(ev.Arrival.Place.Venue, ev.Venue), err)
		}
		s.Outsider = !member
	}
	return s, nil
}

// query returns what the record is asked about a submission.
func (r Rules) query(sub Submission) federation.SnapshotQuery {
	ev := sub.Event
	q := federation.SnapshotQuery{Step: ev, Inboxes: r.boundsInboxes(ev)}
	if sub.Ruling != nil {
		q.Version = sub.Ruling.Version
	}
	if ev.Verb == federation.Offer && r.Limits.OpenHandoffs > 0 {
		q.OpenOf = Snapshot{}.party(ev).Actor()
	}
	return q
}

// knownAs collects which DIDs are the same agent's, and returns the step with the party
// that its signer turns out to be.
func (h *Home) knownAs(ctx context.Context, s Snapshot, sub Submission) federation.Event {
	note := func(did, other federation.DID) bool {
		same := did == other || h.Same(ctx, did, other)
		s.Same[[2]federation.DID{did, other}] = same
		return same
	}
	ev := s.asSent(sub)
	if sub.By != Receipt {
		signer := ev
		signer.Arrival.Party = ""
		actor, parties := signer.Actor(), s.View.Others("")
		for _, party := range parties {
			if slices.Contains(parties, actor) || note(actor, party) {
				break
			}
		}
		ev = s.party(ev)
	}
	parties := append(s.View.Others(ev.Actor()), ev.To)
	if s.Named != nil {
		parties = append(parties, s.Named.Event.Actor())
	}
	for _, rule := range h.Policy.Rules {
		if !rule.mayFit(ev) {
			continue
		}
		fits := len(rule.Senders) == 0
		for _, listed := range rule.Senders {
			fits = note(ev.Actor(), listed) || fits
		}
		for i := 0; fits && i < len(rule.Recipients); i++ {
			for _, party := range parties {
				note(party, rule.Recipients[i])
			}
		}
	}
	return ev
}

// same reports whether two DIDs are one agent's.
func (s Snapshot) same(did, other federation.DID) bool {
	return did == other || s.Same[[2]federation.DID{did, other}]
}

// party returns a step with the party of its handoff whose step it is, where the signer is
// another DID of that party. What this gateway knows comes before what the home of the
// signer says.
func (s Snapshot) party(ev federation.Event) federation.Event {
	said := ev.Arrival.Party
	ev.Arrival.Party = ""
	actor, parties := ev.Actor(), s.View.Others("")
	if !slices.Contains(parties, actor) {
		if i := slices.IndexFunc(parties, func(party federation.DID) bool { return s.same(actor, party) }); i >= 0 {
			ev.Arrival.Party = parties[i]
		}
	}
	if ev.Arrival.Party == "" && ev.Arrival.Abroad {
		ev.Arrival.Party = said
	}
	return ev
}

// asSent returns a step as it came in here, where it did before its home ruled on it: with
// the link that is not told again, with the evidence, and with what this home signed of it
// since. An offer is filed where it comes in.
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
