package airc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/aircmsg"
)

// A divisor: unverified senders get one fifth of the first contacts of one recipient.
const unverifiedPart = 5

// holdUnverified never files a message as a step.
func (l *Link) holdUnverified(ctx context.Context, m relayed, now time.Time) (answer, error) {
	if m.to == anyoneHandle {
		return answer{}, wire.Refuse(wire.CodeInvalidRegistrySignature, "an open offer has no recipient that can consent: it needs the signature of its registry")
	}
	to, err := known(l.find(ctx, m.to))
	if err != nil {
		return answer{}, err
	}
	if _, isRemote := wire.SplitAddress(to.handle); isRemote {
		return answer{}, wire.Refuse(wire.CodeIdentityNotFound, "messages are not forwarded from one registry to another")
	}
	sealed, err := l.sealRelayed(ctx, m, now)
	if err != nil {
		return answer{}, err
	}
	d := &inbound{envelope: envelope{raw: sealed.Envelope, from: m.sender(), payload: m.payload}, recipient: to, received: now}
	if err := l.checkPayload(d); err != nil {
		return answer{}, err
	}
	edge, err := l.deps.Record.Consent(ctx, d.from, to.handle)
	if err != nil {
		return answer{}, fmt.Errorf("look up consent: %w", err)
	}
	admitted, err := accepted(edge, d.from)
	if err == nil {
		err = l.checkUnverifiedRoom(ctx, d, edge, sealed)
	}
	if err != nil {
		return answer{}, err
	}
	p := agents.Posting{
		Message: sealed, Held: !admitted, FirstContacts: l.deps.Quotas().FirstContacts, Source: sourceOf(d.from, federation.Arrival{}),
	}
	switch {
	case admitted:
	case to.agent != nil:
		p.Handshake, err = l.handshake(ctx, contact{handle: d.from}, to.handle, m.body, now)
	case edge.State == agents.ConsentNone:
		err = unreached(l.announce(ctx, d.from, to, now))
	}
	if err != nil {
		return answer{}, err
	}
	filed, err := l.put(ctx, p)
	if err != nil {
		return answer{}, err
	}
	if filed.Seq > 0 {
		err = unreached(l.show(ctx, filed, now))
	} else {
		l.deps.Metrics.Events.WithLabelValues(wire.Network, federation.TextVerb, federation.Unverifiable.String(), "held").Inc()
		l.deps.Log.LogAttrs(ctx, slog.LevelInfo, "relay held", slog.String("network", wire.Network), slog.String("link", wire.Network),
			slog.String("from", d.from), slog.String("to", to.handle), slog.String("message_id", m.id))
	}
	return l.answerRelayed(m, posted{ID: m.id, Seq: filed.Seq}, now), err
}

// checkUnverifiedRoom limits unverified senders: inventing them costs nothing, and they would crowd out
// verified ones.
func (l *Link) checkUnverifiedRoom(ctx context.Context, d *inbound, edge agents.Consent, sealed agents.Message) error {
	limits := l.deps.Quotas().FirstContacts
	if err := l.deps.Record.MayAsk(ctx, d.from, d.recipient.handle, sourceOf(d.from, federation.Arrival{}), limits, d.received); err != nil {
		return err
	}
	pending, err := l.deps.Record.Pending(ctx, d.recipient.handle, limits.Events)
	if err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	waiting := 0
	for _, edge := range pending {
		if strings.HasPrefix(edge.From, agents.Unverified) && edge.From != d.from {
			waiting++
		}
	}
	if edge.State == agents.ConsentNone && limits.Events > 0 && waiting >= max(1, limits.Events/unverifiedPart) {
		return wire.Refuse(wire.CodeOverCapacity, "too many unverified senders wait for this recipient")
	}
	switch {
	case d.recipient.agent != nil:
		return l.checkRoom(ctx, d)
	case d.recipient.did() == "" || l.deps.Messages == nil:
		return errNoText()
	case utf8.RuneCountInString(l.unverifiedText(sealed)) > federation.MaxMessageChars:
		return wire.Refuse(wire.CodePayloadTooLarge, "a text to this recipient is at most "+strconv.Itoa(federation.MaxMessageChars)+" characters")
	}
	return nil
}

// announce sends a notice without the text.
func (l *Link) announce(ctx context.Context, from string, to contact, now time.Time) error {
	text := fmt.Sprintf("%s wants to write to you. Nothing proves who that is, so the message is held. To read it, allow %s; to refuse it, block %[2]s."+
		" On IRC say that to me; over REST, PUT {\"state\":\"allowed\"} to /api/v1/contacts/%s", strings.TrimPrefix(from, agents.Unverified), from, strings.Replace(from, "?", "%3F", 1))
	_, err := l.deps.Messages.Say(ctx, federation.Text{
		Author: l.deps.Home.DID(), To: to.did(), Body: text,
		Arrival: federation.Arrival{Network: wire.Network, Link: wire.Network, Name: l.domain, Received: now},
	}, signing.Original{Network: wire.Network, Received: now, Document: text})
	return err
}

// show is idempotent. It does nothing for a local agent, which has the message in its inbox.
func (l *Link) show(ctx context.Context, m agents.Message, now time.Time) error {
	to, err := l.find(ctx, m.To)
	if err != nil || to.agent != nil {
		return err
	}
	sender, err := l.acquaint(ctx, m.From, now)
	if err != nil {
		return err
	}
	d := l.sealedDelivery(sender, m, envelope{}, m.Received)
	id, err := textID(d)
	if err != nil {
		return err
	}
	_, err = l.deps.Messages.Say(ctx, federation.Text{
		ID: id, Author: sender.DID, To: to.did(), Body: l.unverifiedText(m), Arrival: arrivalOf(d),
	}, signing.Original{Network: wire.Network, Received: m.Received, Document: string(m.Envelope), KeyID: d.key.ID, Key: d.key.Public})
	return err
}

// unverifiedText marks the text as unverified. An offer opens no handoff: its title is in the text.
func (l *Link) unverifiedText(m agents.Message) string {
	said := l.readStored(m)
	text := said.Body
	if step, err := aircmsg.Decode(said.Payload); err == nil && step.Verb == federation.Offer && !strings.Contains(text, step.Title) {
		text = strings.TrimSpace(text + "\nOffer: " + step.Title)
	}
	if text == "" {
		text = string(said.Payload)
	}
	return "[unverified, from " + strings.TrimPrefix(m.From, agents.Unverified) + "] " + text
}

func (l *Link) showHeld(ctx context.Context, from, to string, now time.Time) error {
	for {
		held, err := l.deps.Record.HeldRelays(ctx, from, to, 0, 1)
		if err != nil || len(held) == 0 {
			return err
		}
		if err := l.allow(ctx, held[0], now); err != nil {
			return err
		}
	}
}

// AllowHeld implements [bridge.Registrar].
func (l *Link) AllowHeld(ctx context.Context, id int64, now time.Time) error {
	m, err := l.deps.Record.HeldRelay(ctx, id)
	if err != nil {
		return err
	}
	return l.allow(ctx, agents.Held{ID: id, Message: m}, now)
}

// allow keeps the row until the message is on file elsewhere.
func (l *Link) allow(ctx context.Context, held agents.Held, now time.Time) error {
	if err := l.show(ctx, held.Message, now); err != nil {
		return fmt.Errorf("show %s: %w", held.Message.ID, err)
	}
	err := l.deps.Record.DeliverHeld(ctx, held.ID, now)
	if errors.Is(err, federation.ErrNotFound) { // by a concurrent request
		return nil
	}
	l.deps.PubSub.Wake(bridge.InboxTopic(held.To), bridge.WebhooksTopic)
	return err
}

// writeInstead returns false unless the handle is an unverified sender's.
func writeInstead(handle string) (reason string, unverified bool) {
	signed, unverified := strings.CutPrefix(handle, agents.Unverified)
	return handle + " names a sender that its registry did not sign for: write to " + signed + " instead", unverified
}
