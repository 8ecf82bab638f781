package airc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/aircmsg"
)

// Effects implements [bridge.Recorder].
func (l *Link) Effects(ctx context.Context, d federation.Delivery) (effects []federation.Effect, topics []string, err error) {
	messages, err := l.messages(ctx, d)
	effects, topics = effectsOf(messages)
	return effects, topics, err
}

// TextEffects implements [bridge.Recorder].
func (l *Link) TextEffects(ctx context.Context, t federation.Text) (effects []federation.Effect, topics []string, err error) {
	messages, err := l.text(ctx, t)
	effects, topics = effectsOf(messages)
	return effects, topics, err
}

func effectsOf(messages []agents.Posting) (effects []federation.Effect, topics []string) {
	for _, message := range messages {
		effects, topics = append(effects, message), append(topics, bridge.InboxTopic(message.Message.To))
		if message.Relay != nil {
			topics = append(topics, bridge.RelayTopic)
		}
	}
	return effects, topics
}

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
		message, err := l.posting(ctx, d, author, to)
		if err != nil {
			return nil, fmt.Errorf("notify %s of %s: %w", to.handle, d.Entry.Event.ID, err)
		}
		if message != nil {
			messages = append(messages, *message)
		}
	}
	return messages, nil
}

// Carries implements [bridge.Link] and always returns false: see [Link.Effects].
func (*Link) Carries(context.Context, federation.Event, federation.View) (bool, error) {
	return false, nil
}

// Deliver implements [bridge.Link] for rows that earlier versions left in the feed of the registry.
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

func (l *Link) contactOf(ctx context.Context, did federation.DID, key []byte) (contact, error) {
	agent, err := l.deps.Record.AgentOf(ctx, did)
	switch {
	case err == nil:
		return contact{handle: agent.Handle, agent: &agent}, nil
	case !errors.Is(err, federation.ErrNotFound):
		return contact{}, fmt.Errorf("look up agent: %w", err)
	}
	return contact{handle: wire.Handle(did), foreign: federation.Binding{DID: did, Key: key}}, nil
}

// posting returns nil if the agent wants no message.
func (l *Link) posting(ctx context.Context, d federation.Delivery, author contact, to listener) (*agents.Posting, error) {
	if reason, unverified := writeInstead(to.handle); unverified {
		return nil, federation.Refuse(d.Entry.Event, federation.InvalidTarget, reason)
	}
	guarded := author.handle // the message requires consent to this handle
	if author.handle == systemHandle && !to.loser {
		offerer, err := l.contactOf(ctx, d.View.Offerer, nil)
		if err != nil {
			return nil, err
		}
		guarded = offerer.handle // the end of an offer is delivered like the offer
	}
	admitted, err := l.checkStepConsent(ctx, d, guarded, author, to)
	if p, ok := errors.AsType[*wire.ProblemError](err); ok && p.Code == wire.CodeConsentBlocked {
		// The author is not notified.
		admitted, err = false, nil
	}
	if err != nil || to.stranger && !admitted {
		return nil, err
	}
	now := time.Now()
	said, refersTo, err := l.message(ctx, d, to)
	if err != nil {
		return nil, err
	}
	if to.loser {
		author = contact{handle: systemHandle}
	}
	m, err := l.sign(ctx, outgoing{From: author.handle, To: to.handle, Body: said.Body, Payload: said.Payload}, now)
	if err != nil {
		return nil, err
	}
	m.Event, m.Handoff = d.Entry.Event.ID, d.Entry.Event.Handoff
	if _, isRemote := wire.SplitAddress(to.handle); isRemote {
		p := &agents.Posting{Message: m, Blob: federation.CapabilityIn(refersTo)}
		payload, err := wire.Marshal(said.Payload)
		if err != nil {
			return nil, fmt.Errorf("relay step: %w", err)
		}
		p.Relay, err = l.peers.Relay(to.handle, m, said.Body, payload)
		return p, err
	}
	p := &agents.Posting{
		Message: m, Held: !admitted, Quiet: true, Blob: federation.CapabilityIn(refersTo), Source: sourceOf(author.handle, d.Entry.Event.Arrival),
	}
	if !admitted && d.Entry.Event.Verb == federation.Offer {
		// Count the inbox instead of the held messages. A blocked sender, whose messages are never
		// held, then gets the same response.
		waits, err := l.deps.Record.Use(ctx, d.Entry.Event.To, d.Entry.Event.From)
		if err != nil {
			return nil, fmt.Errorf("count steps: %w", err)
		}
		p.FirstContacts = l.deps.Quotas().FirstContacts
		share := federation.InboxLimits{EventsPerSender: p.FirstContacts.EventsPerSender}
		if err := share.CheckFirstContact(waits, false); err != nil {
			return nil, err
		}
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

func (l *Link) checkStepConsent(ctx context.Context, d federation.Delivery, guarded string, author contact, to listener) (bool, error) {
	if _, isRemote := wire.SplitAddress(to.handle); to.loser || isRemote { // the remote registry asks for consent
		return true, nil
	}
	admitted, err := l.checkConsent(ctx, guarded, to.handle)
	switch {
	case err != nil, to.stranger:
		return admitted, err
	case author.agent == nil && to.is(d.View.Offerer): // the offerer requested the answer
		return true, nil
	}
	return admitted || l.cfg.Offers == OffersDeliver, nil
}

func (l *Link) message(ctx context.Context, d federation.Delivery, to listener) (said aircmsg.Message, refersTo string, err error) {
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
	step := translate.Step{Entry: d.Entry, View: d.View, Name: func(did federation.DID) string {
		if did == d.Entry.Event.From && d.Entry.Event.Arrival.Name != "" {
			return d.Entry.Event.Arrival.Name
		}
		return l.deps.Gateway.Name(ctx, did)
	}}
	if to.loser {
		return aircmsg.EncodeTaken(step, out), "", nil
	}
	return l.fit(ctx, step, out, caps.MaxPayloadSize)
}

// offerMessage returns "" for an open offer, which has no recipient.
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

type listener struct {
	contact

	stranger bool // sees an open offer not addressed to it
	loser    bool // saw an open offer, and is notified of its end
}

// listeners omits the parties if the step arrived here: the original message has already reached them.
// The view after includes the step.
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

func (l *Link) parties(ctx context.Context, ev federation.Event, after federation.View) ([]listener, error) {
	if ev.Verb == federation.Offer {
		after.Assignee = "" // its assignee receives more than the offer
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
