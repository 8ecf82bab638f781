package airc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"baton/federation"
	"baton/federation/agents"
)

// listener is an agent that hears of a step.
type listener struct {
	contact

	stranger bool // it is shown an open offer that is not to it
	loser    bool // it was shown one, and is told that it is over
}

// listeners returns the agents that must have a step, each once: the parties that are agents
// here, except the author, and the agents that were shown an open offer. A step that arrived
// here reached the parties as the message that it came in. The view is that after the step.
func (l *Link) listeners(ctx context.Context, ev federation.Event, after federation.View) ([]listener, error) {
	cameIn, open := ev.Arrival.Link == l.Name(), after.Offeree == ""
	if cameIn && !open {
		return nil, nil
	}
	parties, err := l.parties(ctx, ev, after)
	if err != nil || !open {
		return parties, err
	}
	others, err := l.others(ctx, ev, after, parties)
	if err != nil || cameIn {
		return others, err
	}
	return append(parties, others...), nil
}

// others returns the agents besides the parties that a step of an open offer is
// told to.
func (l *Link) others(ctx context.Context, ev federation.Event, after federation.View, parties []listener) ([]listener, error) {
	author, err := l.author(ctx, ev)
	if err != nil {
		return nil, err
	}
	var others []listener
	switch {
	case ev.Verb == federation.Offer && after.State == federation.Open:
		others, err = l.strangers(ctx, author, after.Caps)
	case after.Version == after.Answered:
		others, err = l.losers(ctx, after.ID)
	}
	return slices.DeleteFunc(others, func(o listener) bool {
		return o.handle == author.handle || slices.ContainsFunc(parties, func(p listener) bool { return p.handle == o.handle })
	}), err
}

// parties returns the agents that take part in a handoff, besides the one that took
// the step.
func (l *Link) parties(ctx context.Context, ev federation.Event, after federation.View) ([]listener, error) {
	if ev.Verb == federation.Offer {
		after.Assignee = "" // its assignee now knows it as more than an offer
	}
	var parties []listener
	for _, did := range after.Others(ev.Actor()) {
		agent, err := l.deps.Record.AgentOf(ctx, did)
		switch {
		case errors.Is(err, federation.ErrNotFound):
			continue
		case err != nil:
			return nil, fmt.Errorf("look up agent: %w", err)
		}
		c := contact{handle: agent.Handle, agent: &agent}
		same := func(other listener) bool { return other.handle == c.handle }
		if !c.is(ev.Actor()) && !slices.ContainsFunc(parties, same) {
			parties = append(parties, listener{contact: c})
		}
	}
	return parties, nil
}

// strangers returns the agents that an open offer is shown to: the agents that have the
// capabilities and let its author write to them.
func (l *Link) strangers(ctx context.Context, author contact, caps []string) ([]listener, error) {
	able, err := l.deps.Record.Capable(ctx, caps)
	if err != nil {
		return nil, fmt.Errorf("look up agents by skill: %w", err)
	}
	var shown []listener
	for _, agent := range able {
		edge, err := l.deps.Record.Consent(ctx, author.handle, agent.Handle)
		if err != nil {
			return nil, fmt.Errorf("look up consent: %w", err)
		}
		if edge.State == agents.ConsentAccepted {
			shown = append(shown, listener{contact: contact{handle: agent.Handle, agent: &agent}, stranger: true})
		}
	}
	return shown, nil
}

// losers returns the agents that were shown an open offer.
func (l *Link) losers(ctx context.Context, id federation.HandoffID) ([]listener, error) {
	handles, err := l.deps.Record.Shown(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("look up the agents that were shown an offer: %w", err)
	}
	var losers []listener
	for _, handle := range handles {
		agent, err := l.deps.Record.Agent(ctx, handle)
		switch {
		case errors.Is(err, federation.ErrNotFound): // a role, or a DID of another network
			continue
		case err != nil:
			return nil, fmt.Errorf("look up agent: %w", err)
		}
		losers = append(losers, listener{contact: contact{handle: handle, agent: &agent}, loser: true})
	}
	return losers, nil
}
