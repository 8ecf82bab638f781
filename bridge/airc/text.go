package airc

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/aircmsg"
)

func errNoText() error {
	return wire.Refuse(wire.CodeUnsupportedPayload, "a participant of another network accepts only steps and text: a body without a payload")
}

// postText makes the agent accept the recipient: the gateway calls [Link.Answer].
//
// spec: airc-shapes "First contact"
func (l *Link) postText(ctx context.Context, d *inbound) (answer, error) {
	if d.recipient.did() == "" || l.deps.Messages == nil {
		return answer{}, errNoText()
	}
	about, replyTo, ok := aircmsg.Mentions(d.payload)
	if !ok || d.body == "" {
		return answer{}, errNoText()
	}
	replyTo, err := l.answers(ctx, d, cmp.Or(replyTo, d.replyTo))
	if err != nil {
		return answer{}, err
	}
	var fields map[string]string
	if replyTo != "" {
		fields = map[string]string{federation.Reply: replyTo}
	}
	if about.IsZero() && replyTo != "" {
		if about, err = l.deps.Messages.Answered(ctx, replyTo); err != nil && !errors.Is(err, federation.ErrNotFound) {
			return answer{}, fmt.Errorf("look up message: %w", err)
		}
	}
	id, err := textID(d)
	if err != nil {
		return answer{}, err
	}
	d.charged = true // by the gateway
	at := arrivalOf(d)
	at.Place = d.recipient.place
	said, err := l.deps.Messages.Say(ctx, federation.Text{
		ID: id, Author: d.sender.DID, To: d.recipient.did(), Body: d.body, Fields: fields, About: about, Arrival: at,
	}, signing.Original{Network: wire.Network, Received: d.received, Document: string(d.raw), KeyID: d.key.ID, Key: d.key.Public})
	if err != nil {
		return answer{}, unreached(fmt.Errorf("send text to %s: %w", d.recipient.handle, err))
	}
	m, err := l.put(ctx, agents.Posting{Message: d.message(nil)})
	if err != nil {
		return answer{}, err
	}
	if said.Away {
		why := "the recipient is away: the message waits"
		if said.ToNick {
			why = bridge.ToNickNote
		}
		return answer{status: http.StatusAccepted, body: posted{ID: d.id, Status: "held", Seq: m.Seq, Message: why}}, nil
	}
	return answer{status: http.StatusCreated, body: posted{ID: d.id, Status: "delivered", Seq: m.Seq}}, nil
}

// unreached returns any other error unchanged.
func unreached(err error) error {
	if errors.Is(err, federation.ErrNotFound) {
		return wire.Refuse(wire.CodeIdentityNotFound, "no link reaches this participant")
	}
	return err
}

// answers returns "" for none.
func (l *Link) answers(ctx context.Context, d *inbound, replyTo string) (id string, err error) {
	if replyTo == "" {
		return "", nil
	}
	m, err := l.deps.Record.Named(ctx, d.from, replyTo)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return "", fmt.Errorf("look up message: %w", err)
	}
	if err == nil && !m.Event.IsZero() {
		replyTo = m.Event.String()
	}
	return replyTo, nil
}

func arrivalOf(d *inbound) federation.Arrival {
	a := d.arrival()
	a.MessageID = d.id
	return a
}

// textID is the same if the sender retries after a lost response.
func textID(d *inbound) (federation.EventID, error) {
	sum := sha256.Sum256([]byte("airc " + d.from + " " + d.id))
	return federation.NewEventID(d.timestamp, bytes.NewReader(sum[:]))
}

// text holds a first message, and refuses a blocked sender.
func (l *Link) text(ctx context.Context, t federation.Text) ([]agents.Posting, error) {
	agent, err := l.deps.Record.AgentOf(ctx, t.To)
	if errors.Is(err, federation.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up agent: %w", err)
	}
	author, err := l.contactOf(ctx, t.Author, nil)
	if err != nil {
		return nil, err
	}
	if _, isRemote := wire.SplitAddress(agent.Handle); isRemote {
		return l.remoteText(ctx, t, author.handle, agent.Handle)
	}
	admitted, err := l.checkConsent(ctx, author.handle, agent.Handle)
	if p, ok := errors.AsType[*wire.ProblemError](err); ok && p.Code == wire.CodeConsentBlocked {
		return nil, t.Refuse(federation.PolicyDenied, "the recipient does not accept messages from you")
	}
	if err != nil {
		return nil, err
	}
	now := time.Now()
	m, err := l.sealText(ctx, t, author.handle, agent.Handle, now)
	if err != nil {
		return nil, err
	}
	p := agents.Posting{Message: m, Held: !admitted, Source: sourceOf(author.handle, t.Arrival)}
	if !admitted {
		p.FirstContacts = l.deps.Quotas().FirstContacts
		p.Handshake, err = l.handshake(ctx, author, agent.Handle, t.Body, now)
	}
	return []agents.Posting{p}, err
}

// remoteText queues the message for the remote registry, which applies the agent's consent.
func (l *Link) remoteText(ctx context.Context, t federation.Text, from, to string) ([]agents.Posting, error) {
	if reason, unverified := writeInstead(to); unverified {
		return nil, t.Refuse(federation.InvalidTarget, reason)
	}
	domain, _ := wire.SplitAddress(to)
	if _, federated := l.peers.Exchanges(domain); !federated {
		return nil, t.Refuse(federation.PolicyDenied, "no messages are exchanged with "+domain)
	}
	if utf8.RuneCountInString(t.Body) > wire.MaxTextChars {
		return nil, t.Refuse(federation.InvalidTag, fmt.Sprintf("a text for another registry has at most %d characters", wire.MaxTextChars))
	}
	m, err := l.sealText(ctx, t, from, to, time.Now())
	if err != nil {
		return nil, err
	}
	p := agents.Posting{Message: m}
	p.Relay, err = l.peers.Relay(to, m, t.Body, mention(t))
	return []agents.Posting{p}, err
}

func (l *Link) sealText(ctx context.Context, t federation.Text, from, to string, now time.Time) (agents.Message, error) {
	replyTo, err := l.answeredAs(ctx, t)
	if err != nil {
		return agents.Message{}, err
	}
	m, err := l.sign(ctx, outgoing{
		From: from, To: to, Body: t.Body, Payload: orNone(mention(t)), ReplyTo: replyTo,
		Evidence: &proofOfText{URL: t.Evidence.URL, SHA256: hex.EncodeToString(t.Evidence.Digest[:])},
	}, now)
	m.Event, m.Handoff = t.ID, t.Order
	return m, err
}

// answeredAs returns "" unless an agent of this registry wrote the answered message.
func (l *Link) answeredAs(ctx context.Context, t federation.Text) (string, error) {
	reply := t.Fields[federation.Reply]
	if reply == "" {
		return "", nil
	}
	id, err := l.deps.Messages.ShownAs(ctx, l.Name(), reply)
	if errors.Is(err, federation.ErrNotFound) || id == reply {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look up message %s: %w", reply, err)
	}
	return id, nil
}

type proofOfText struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"`
}

func mention(t federation.Text) json.RawMessage {
	if t.About.IsZero() {
		return nil
	}
	return aircmsg.Mention(t.About)
}
