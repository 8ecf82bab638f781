package airc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"baton/federation"
	"baton/translate"
	"baton/translate/aircmsg"
)

// Carries implements [bridge.Link]: a step is owed to the parties that are agents
// here, besides the one that took it. A step that arrived here reached them as
// the message that it came in.
func (l *Link) Carries(ctx context.Context, ev federation.Event, after federation.View) (bool, error) {
	if ev.Arrival.Link == l.Name() {
		return false, nil
	}
	agents, err := l.recipients(ctx, ev, after)
	return len(agents) > 0, err
}

// recipients returns the agents that a step is owed to.
func (l *Link) recipients(ctx context.Context, ev federation.Event, after federation.View) ([]contact, error) {
	var agents []contact
	for _, did := range after.Others(ev.Actor()) {
		agent, err := l.deps.Registry.AgentOf(ctx, did)
		switch {
		case errors.Is(err, federation.ErrNotFound):
			continue
		case err != nil:
			return nil, fmt.Errorf("look up agent: %w", err)
		}
		c := contact{handle: agent.Handle, agent: &agent}
		same := func(other contact) bool { return other.handle == c.handle }
		if !c.is(ev.Actor()) && !slices.ContainsFunc(agents, same) {
			agents = append(agents, c)
		}
	}
	return agents, nil
}

// Deliver implements [bridge.Link]: each agent that the step is owed to has a
// message about it on file when it returns nil, or wants none. Delivering a step
// again files nothing.
func (l *Link) Deliver(ctx context.Context, d federation.Delivery) error {
	agents, err := l.recipients(ctx, d.Entry.Event, d.View)
	if err != nil {
		return err
	}
	author, err := l.author(ctx, d.Entry.Event)
	if err != nil {
		return err
	}
	for _, to := range agents {
		if err := l.tell(ctx, d, author, to); err != nil {
			return fmt.Errorf("deliver %s to %s: %w", d.Entry.Event.ID, to.handle, err)
		}
	}
	return nil
}

// author returns who a step is from. The home writes as the registry.
func (l *Link) author(ctx context.Context, ev federation.Event) (contact, error) {
	if ev.Verb == federation.Expire {
		return contact{handle: systemHandle}, nil
	}
	did := ev.Actor()
	agent, err := l.deps.Registry.AgentOf(ctx, did)
	switch {
	case err == nil:
		return contact{handle: agent.Handle, agent: &agent}, nil
	case !errors.Is(err, federation.ErrNotFound):
		return contact{}, fmt.Errorf("look up agent: %w", err)
	}
	return contact{handle: Handle(did), foreign: federation.Binding{DID: did, Key: ev.Signature.Key}}, nil
}

// tell files the message about a step for one agent, held until the agent
// consents to its author.
func (l *Link) tell(ctx context.Context, d federation.Delivery, author, to contact) error {
	admitted, err := l.admits(ctx, author.handle, to.handle)
	if p, ok := errors.AsType[*problem](err); ok && p.code == codeConsentBlocked {
		return nil // the agent does not want to know, and the author is not told
	}
	if err != nil {
		return err
	}
	caps, err := parseCapabilities(to.agent.Capabilities)
	if err != nil {
		return err
	}
	said, losses, err := aircmsg.Encode(
		translate.Step{Entry: d.Entry, View: d.View, Name: func(did federation.DID) string { return l.deps.Gateway.Name(ctx, did) }},
		aircmsg.Out{Native: slices.Contains(caps.Payloads, aircmsg.TypeHandoff)})
	if err != nil {
		return err
	}
	l.logLosses(ctx, d.Entry.Event, losses)
	now := time.Now()
	m, err := l.compose(ctx, author.handle, to.handle, said.Body, said.Payload, now)
	if err != nil {
		return err
	}
	m.Event, m.Handoff = d.Entry.Event.ID, d.Entry.Event.Handoff
	p := federation.Posting{Message: m}
	if !admitted && author.handle != systemHandle && l.cfg.Offers == OffersHold {
		p.Held = true
		if p.Handshake, err = l.handshake(ctx, author, to.handle, said.Body, now); err != nil {
			return err
		}
	}
	if _, err := l.deps.Registry.Post(ctx, p); err != nil {
		return fmt.Errorf("file message: %w", err)
	}
	return nil
}

// logLosses tells the operator what a message could not carry of a step.
func (l *Link) logLosses(ctx context.Context, ev federation.Event, losses []translate.Loss) {
	for _, loss := range losses {
		l.deps.Log.LogAttrs(ctx, slog.LevelInfo, "message carries a step in part",
			slog.String("network", network), slog.String("link", network),
			slog.String("handoff_id", ev.Handoff.String()), slog.String("event_id", ev.ID.String()),
			slog.String("field", loss.Field), slog.String("fate", string(loss.Fate)), slog.String("reason", loss.Why))
	}
}
