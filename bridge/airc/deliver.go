package airc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/agents"
	"baton/translate"
	"baton/translate/aircmsg"
)

// Effects implements [bridge.Recorder]: a message for each agent that is told of the step, or
// reads the text of a participant.
func (l *Link) Effects(ctx context.Context, d federation.Delivery) (effects []federation.Effect, topics []string, err error) {
	messages := l.messages
	if d.Entry.Event.IsMessage() {
		messages = l.text
	}
	filed, err := messages(ctx, d)
	for _, message := range filed {
		effects, topics = append(effects, message), append(topics, bridge.InboxTopic(message.Message.To))
		if message.Relay != nil {
			topics = append(topics, bridge.RelayTopic)
		}
	}
	return effects, topics, err
}

// messages writes one message for each agent that is a recipient of the step and accepts
// messages about it. No agent is told of receipts of the home.
func (l *Link) messages(ctx context.Context, d federation.Delivery) ([]agents.Posting, error) {
	if d.Entry.Event.Verb == federation.Confirm {
		return nil, nil
	}
	after := d.View
	after.Version = d.Entry.Version
	listeners, err := l.listeners(ctx, d.Entry.Event, after)
	if err != nil || len(listeners) == 0 {
		return nil, err
	}
	author, err := l.author(ctx, d.Entry.Event)
	if err != nil {
		return nil, err
	}
	var messages []agents.Posting
	for _, to := range listeners {
		message, err := l.tell(ctx, d, author, to)
		if err != nil {
			return nil, fmt.Errorf("tell %s of %s: %w", to.handle, d.Entry.Event.ID, err)
		}
		if message != nil {
			messages = append(messages, *message)
		}
	}
	return messages, nil
}

// Carries implements [bridge.Link]. Nothing waits for the agents: see [Link.Effects].
func (*Link) Carries(context.Context, federation.Event, federation.View) (bool, error) {
	return false, nil
}

// Deliver implements [bridge.Link] for the rows that earlier versions of the program
// kept in the feed of the registry. A message that an agent has already is not
// filed again.
func (l *Link) Deliver(ctx context.Context, d federation.Delivery) error {
	messages, err := l.messages(ctx, d)
	if err != nil {
		return err
	}
	for _, message := range messages {
		if _, err := l.put(ctx, message); err != nil {
			return fmt.Errorf("deliver %s to %s: %w", d.Entry.Event.ID, message.Message.To, err)
		}
	}
	return nil
}

// author returns the author of a step. The home writes as the registry.
func (l *Link) author(ctx context.Context, ev federation.Event) (contact, error) {
	if ev.From == l.deps.Home.DID() {
		return contact{handle: systemHandle}, nil
	}
	return l.contactOf(ctx, ev.Actor(), ev.Signature.Key)
}

// contactOf returns the contact of a DID, an agent or not.
func (l *Link) contactOf(ctx context.Context, did federation.DID, key []byte) (contact, error) {
	agent, err := l.deps.Record.AgentOf(ctx, did)
	switch {
	case err == nil:
		return contact{handle: agent.Handle, agent: &agent}, nil
	case !errors.Is(err, federation.ErrNotFound):
		return contact{}, fmt.Errorf("look up agent: %w", err)
	}
	return contact{handle: Handle(did), foreign: federation.Binding{DID: did, Key: key}}, nil
}

// tell writes the message about a step for one agent, as far as the agent consents:
// nil where it does not want any.
func (l *Link) tell(ctx context.Context, d federation.Delivery, author contact, to listener) (*agents.Posting, error) {
	if reason, unverified := writeInstead(to.handle); unverified {
		return nil, federation.Refuse(d.Entry.Event, federation.InvalidTarget, reason)
	}
	guarded := author.handle // whose consent the message waits for
	if author.handle == systemHandle && !to.loser {
		offerer, err := l.contactOf(ctx, d.View.Offerer, nil)
		if err != nil {
			return nil, err
		}
		guarded = offerer.handle // the end of an offer goes with the offer
	}
	admitted, err := l.welcomes(ctx, d, guarded, author, to)
	if p, ok := errors.AsType[*problem](err); ok && p.code == codeConsentBlocked {
		// The agent does not want to know, and the author is not told: the record keeps
		// that the agent was not shown it, and nothing else.
		admitted, err = false, nil
	}
	if err != nil || to.stranger && !admitted {
		return nil, err
	}
	now := time.Now()
	said, refersTo, err := l.say(ctx, d, to)
	if err != nil {
		return nil, err
	}
	if to.loser {
		author = contact{handle: systemHandle}
	}
	m, err := l.seal(ctx, outgoing{From: author.handle, To: to.handle, Body: said.Body, Payload: said.Payload}, now)
	if err != nil {
		return nil, err
	}
	m.Event, m.Handoff = d.Entry.Event.ID, d.Entry.Event.Handoff
	if _, isRemote := splitAddress(to.handle); isRemote {
		p := &agents.Posting{Message: m, Blob: federation.CapabilityIn(refersTo)}
		return p, l.relayStep(p, said.Body, said.Payload)
	}
	p := &agents.Posting{
		Message: m, Held: !admitted, Quiet: true, Blob: federation.CapabilityIn(refersTo), Source: sourceOf(author.handle, d.Entry.Event.Arrival),
	}
	if !admitted && d.Entry.Event.Verb == federation.Offer {
		if err := l.checkUnread(ctx, d.Entry.Event); err != nil {
			return nil, err
		}
		p.FirstContacts = l.deps.Quotas().FirstContacts
	}
	switch {
	case admitted:
	case guarded != author.handle:
		p.Edge = guarded
	default:
		if p.Handshake, err = l.handshake(ctx, author, to.handle, said.Body, now); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// checkUnread refuses an offer of a DID whose earlier ones wait for an agent that has not
// consented to it. It looks at the inbox instead of what is held, so that a sender which is
// blocked, and of which nothing is held, gets the same answer.
func (l *Link) checkUnread(ctx context.Context, offer federation.Event) error {
	waits, err := l.deps.Record.Use(ctx, offer.To, offer.From)
	if err != nil {
		return fmt.Errorf("count steps: %w", err)
	}
	share := federation.InboxLimits{EventsPerSender: l.deps.Quotas().FirstContacts.EventsPerSender}
	return share.CheckFirstContact(waits, false)
}

// welcomes reports whether an agent takes the message of a step now. Its error is
// that of admits.
func (l *Link) welcomes(ctx context.Context, d federation.Delivery, guarded string, author contact, to listener) (bool, error) {
	if _, isRemote := splitAddress(to.handle); to.loser || isRemote { // its own registry asks it
		return true, nil
	}
	admitted, err := l.admits(ctx, guarded, to.handle)
	switch {
	case err != nil, to.stranger:
		return admitted, err
	case author.agent == nil && to.is(d.View.Offerer): // it asked for the answer
		return true, nil
	}
	return admitted || l.cfg.Offers == OffersDeliver, nil
}

// say writes what an agent is told of a step, and returns the context that it has in
// that, which may be a reference by now.
func (l *Link) say(ctx context.Context, d federation.Delivery, to listener) (said aircmsg.Message, refersTo string, err error) {
	caps, err := parseCapabilities(to.agent.Capabilities)
	if err != nil {
		return said, "", err
	}
	out := aircmsg.Out{Native: slices.Contains(caps.Payloads, aircmsg.TypeHandoff)}
	if d.Entry.Event.Verb != federation.Offer {
		if out.OfferMessage, err = l.offerMessage(ctx, d, to); err != nil {
			return said, "", err
		}
	}
	step := translate.Step{Entry: d.Entry, View: d.View, Name: func(did federation.DID) string { return l.name(ctx, d.Entry.Event, did) }}
	if to.loser {
		return aircmsg.EncodeTaken(step, out), "", nil
	}
	return l.fit(ctx, step, out, caps.MaxPayloadSize)
}

// name returns what people call a DID. The signer of a step may be new here: then it
// is known by its arrival alone.
func (l *Link) name(ctx context.Context, ev federation.Event, did federation.DID) string {
	if did == ev.From && ev.Arrival.Name != "" {
		return ev.Arrival.Name
	}
	return l.deps.Gateway.Name(ctx, did)
}

// offerMessage returns the id of the message by which an agent knows the offer, "" without
// one. An open offer has no recipient.
func (l *Link) offerMessage(ctx context.Context, d federation.Delivery, to listener) (string, error) {
	handle := to.handle
	if d.View.Offeree == "" && to.is(d.View.Offerer) {
		handle = anyoneHandle
	}
	m, err := l.deps.Record.OfferMessage(ctx, handle, d.View.ID)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return "", fmt.Errorf("look up offer: %w", err)
	}
	return m.ID, nil
}

// logLosses tells the operator what a message could not carry of a step.
func (l *Link) logLosses(ctx context.Context, ev federation.Event, losses []federation.Loss) {
	for _, loss := range losses {
		l.deps.Log.LogAttrs(ctx, slog.LevelInfo, "message carries a step in part",
			slog.String("network", network), slog.String("link", network),
			slog.String("handoff_id", ev.Handoff.String()), slog.String("event_id", ev.ID.String()),
			slog.String("field", loss.Field), slog.String("fate", string(loss.Fate)), slog.String("reason", loss.Why))
	}
}
