package airc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/signing"
)

type inbound struct {
	envelope

	sender    agents.Agent
	key       agents.Key
	recipient contact
	received  time.Time
	charged   bool // counted against the sender's rate
	session   federation.Session
}

type posted struct {
	ID      string              `json:"id"`
	Status  string              `json:"status"`
	Consent agents.ConsentState `json:"consent,omitempty"`
	Message string              `json:"message,omitempty"`
	Seq     uint64              `json:"seq,omitempty"`
	Handoff *filed              `json:"handoff,omitempty"`
}

type filed struct {
	ID      federation.HandoffID `json:"id"`
	Event   federation.Verb      `json:"event"`
	EventID federation.EventID   `json:"event_id"`
	State   federation.State     `json:"state"`
	Lost    []string             `json:"lost,omitempty"`

	held bool // on disk, but still without a ruling of the handoff's home or a key
}

// postMessage counts a message once in its sender's rate, whatever the outcome.
func (l *Link) postMessage(c *call) (answer, error) {
	agent, err := c.caller()
	if err != nil {
		return answer{}, err
	}
	d := &inbound{sender: agent, received: time.Now(), session: c.session}
	if err := l.mayWrite(c.Context(), agent.DID, d.received); err != nil {
		return answer{}, err
	}
	a, err := l.process(c, d)
	if !d.charged {
		_ = l.charge(c.Context(), d) // the message is already refused for another reason
	}
	if err == nil && d.nonce != "" {
		l.nonces.spend(d.from, d.nonce, d.received)
	}
	return a, err
}

// process files the message after its step: if the response is lost, a retry finds the step filed. Only
// a 2xx consumes the ID.
func (l *Link) process(c *call, d *inbound) (answer, error) {
	body, err := l.readBody(c)
	if err != nil {
		return answer{}, err
	}
	if d.envelope, err = parseEnvelope(body, l.cfg.AppendixB); err != nil {
		return answer{}, err
	}
	ctx := c.Context()
	if err := l.authorize(ctx, d); err != nil {
		return answer{}, err
	}
	return l.dispatch(ctx, d)
}

func (l *Link) dispatch(ctx context.Context, d *inbound) (answer, error) {
	if d.to == systemHandle && strings.EqualFold(strings.TrimSpace(d.body), pairCommand) {
		return l.postPair(ctx, d)
	}
	var err error
	if d.to == anyoneHandle {
		d.recipient = contact{handle: anyoneHandle}
	} else if d.recipient, err = known(l.find(ctx, d.to)); err != nil {
		return answer{}, err
	}
	if err := l.checkPayload(d); err != nil {
		return answer{}, err
	}
	switch domain, isRemote := wire.SplitAddress(d.recipient.handle); {
	case isRemote:
		return l.postToRemote(ctx, d, domain)
	case d.recipient.agent == nil:
		return l.postStep(ctx, d)
	}
	return l.postToAgent(ctx, d)
}

// spec: airc-v0.1.1 §7.3
func (l *Link) authorize(ctx context.Context, d *inbound) error {
	switch {
	case d.from != d.sender.Handle:
		return wire.Refuse(wire.CodeUnauthorized, "from is not the handle of this token")
	case d.aud != l.domain && d.nonce == "":
		return wire.Refuse(wire.CodeAudienceMismatch, "aud is not "+l.domain)
	case d.received.Sub(d.timestamp).Abs() > wire.ClockSkew:
		return wire.Refuse(wire.CodeInvalidTimestamp, "timestamp is more than 300 seconds from the clock here")
	}
	d.key = d.sender.Key(d.kid)
	if d.nonce != "" {
		d.key = d.sender.Primary(d.received)
	}
	if err := checkKey(d.key, d.received); err != nil {
		return err
	}
	verdict, err := signing.VerifyEnvelope(d.raw, d.signature, d.key.Public)
	if err != nil {
		return &wire.ProblemError{Code: wire.CodeBadRequest, Message: "the message has no canonical form: " + err.Error(), Unreadable: "json"}
	}
	if verdict != federation.Valid {
		return wire.Refuse(wire.CodeInvalidSignature, "the signature does not match the message")
	}
	if err := l.checkUnused(ctx, d); err != nil {
		return err
	}
	if d.nonce != "" {
		if err := l.nonces.checkUnused(d.from, d.nonce, d.received); err != nil {
			return err
		}
	}
	return l.proveSender(ctx, d)
}

// proveSender ignores a message that names no registry, because it could have been signed for another
// one.
//
// spec: airc-shapes "Who is who", "Sessions and proofs"
func (l *Link) proveSender(ctx context.Context, d *inbound) error {
	if d.aud != l.domain {
		return nil
	}
	if !d.session.Bound && d.session.Key == federation.KeyID(d.key.Public) {
		if err := l.deps.Record.BindSession(ctx, d.session.ID); err != nil {
			return err
		}
	}
	if d.key.Proved() {
		return nil
	}
	agent, err := l.prove(ctx, d.sender, d.key, d.received)
	if err != nil {
		return err
	}
	d.sender, d.key = agent, agent.Key(d.key.ID)
	return nil
}

// checkUnused reports a repeat of the same message, which means success to a client that retries.
func (l *Link) checkUnused(ctx context.Context, d *inbound) error {
	m, err := l.deps.Record.Sent(ctx, d.from, d.id, d.received.Add(-agents.MessageIDWindow))
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("look up message: %w", err)
	case bytes.Equal(m.Envelope, d.raw):
		return wire.Refuse(wire.CodeDuplicateMessage, "this message was accepted before, with the same bytes")
	}
	return wire.Refuse(wire.CodeDuplicateMessage, "this id was used in the last 24 hours, for other bytes")
}

// spec: airc-v0.1.1 §11.5
func (l *Link) checkPayload(d *inbound) error {
	if d.payload == nil {
		return nil
	}
	canonical, err := jcs.Transform(d.payload)
	if err != nil {
		return fmt.Errorf("measure payload: %w", err)
	}
	limit := l.cfg.MaxPayloadBytes
	if d.recipient.agent != nil {
		c, err := parseCapabilities(d.recipient.agent.Capabilities)
		if err != nil {
			return err
		}
		if c.MaxPayloadSize > 0 {
			limit = min(limit, c.MaxPayloadSize)
		}
	}
	if len(canonical) > limit {
		return wire.Refuse(wire.CodePayloadTooLarge, "a payload to this recipient is at most "+strconv.Itoa(limit)+" bytes")
	}
	return nil
}

// postStep needs no consent: by writing to a DID of another network, the agent consents.
func (l *Link) postStep(ctx context.Context, d *inbound) (answer, error) {
	s, err := l.readStep(ctx, d)
	if errors.Is(err, errPlain) {
		return l.postText(ctx, d)
	}
	if err != nil {
		return answer{}, err
	}
	step, err := l.submit(ctx, d, s)
	if err != nil {
		return answer{}, err
	}
	if d.recipient.did() != "" {
		if err := l.befriend(ctx, d.recipient.handle, d.from, d.received); err != nil {
			return answer{}, err
		}
	}
	return l.post(ctx, agents.Posting{Message: d.message(step)}, step)
}

func (l *Link) postToAgent(ctx context.Context, d *inbound) (answer, error) {
	admitted, err := l.checkConsent(ctx, d.from, d.recipient.handle)
	if err != nil {
		return answer{}, err
	}
	s, stepErr := l.readStep(ctx, d)
	if stepErr == nil {
		answers := s.Verb != federation.Offer && d.recipient.is(s.view.Offerer) // an offerer wants answers
		admitted = admitted || answers || l.cfg.Offers == OffersDeliver
	}
	if !admitted {
		room := l.deps.Quotas().FirstContacts
		if stepErr == nil && s.Verb != federation.Offer { // later steps always fit
			room = federation.InboxLimits{}
		}
		if err := l.deps.Record.MayAsk(ctx, d.from, d.recipient.handle, d.source(ctx), room, d.received); err != nil {
			return answer{}, withRemedy(err, d.from, d.recipient.handle)
		}
	}
	var step *filed
	switch err = stepErr; {
	case err == nil:
		step, err = l.submit(ctx, d, s)
	case errors.Is(err, errPlain):
		if err = l.charge(ctx, d); err == nil {
			err = l.deps.Admit(ctx, d.sender.DID, d.received)
		}
		if err == nil {
			err = l.checkRoom(ctx, d)
		}
	}
	if err != nil {
		return answer{}, err
	}
	p := agents.Posting{Message: d.message(step)}
	if admitted && d.from != d.recipient.handle { // a sender wants answers
		if err := l.befriend(ctx, d.recipient.handle, d.from, d.received); err != nil {
			return answer{}, err
		}
	}
	if !admitted {
		p.Held, p.Source = true, d.source(ctx)
		if step == nil { // otherwise it is on file, and its quota was checked before
			p.FirstContacts = l.deps.Quotas().FirstContacts
		}
		p.Handshake, err = l.handshake(ctx, contact{handle: d.from, agent: &d.sender}, d.recipient.handle, d.body, d.received)
		if err != nil {
			return answer{}, err
		}
	}
	return l.post(ctx, p, step)
}

func (d *inbound) source(ctx context.Context) string {
	arrival := d.arrival()
	arrival.Address = bridge.SubnetFrom(ctx).String()
	return sourceOf(d.from, arrival)
}

// message returns a plain message if step is nil.
func (d *inbound) message(step *filed) agents.Message {
	m := agents.Message{ID: d.id, From: d.from, To: d.recipient.handle, Envelope: d.raw, Received: d.received}
	if step != nil {
		m.Event, m.Handoff = step.EventID, step.ID
	}
	return m
}

func (l *Link) post(ctx context.Context, p agents.Posting, step *filed) (answer, error) {
	m, err := l.put(ctx, p)
	if err != nil {
		return answer{}, err
	}
	if m.Seq == 0 {
		return answer{status: http.StatusAccepted, body: posted{
			ID: p.Message.ID, Status: "held", Consent: agents.ConsentPending, Handoff: step,
			Message: heldNotice(consentPath, p.Message.From, p.Message.To),
		}}, nil
	}
	if step != nil && step.held {
		return answer{status: http.StatusAccepted, body: posted{ID: p.Message.ID, Status: "held", Seq: m.Seq, Handoff: step}}, nil
	}
	return answer{status: http.StatusCreated, body: posted{
		ID: p.Message.ID, Status: "delivered", Seq: m.Seq, Handoff: step,
	}}, nil
}

// put also wakes the recipient if it can read the message now.
func (l *Link) put(ctx context.Context, p agents.Posting) (agents.Message, error) {
	m, err := l.deps.Record.Post(ctx, p)
	if err != nil {
		return agents.Message{}, fmt.Errorf("file message: %w", err)
	}
	if p.Relay != nil {
		l.deps.PubSub.Wake(bridge.RelayTopic)
	}
	if m.Seq > 0 || p.Handshake != nil {
		l.deps.PubSub.Wake(bridge.InboxTopic(p.Message.To), bridge.WebhooksTopic)
	}
	return m, nil
}

// A nonce counts as used for the whole range of accepted timestamps.
const nonceLife = 2 * wire.ClockSkew

// A remembered nonce takes about 150 bytes.
const maxNonces = 1 << 16

const maxNonceBytes = 128

// nonces are lost on restart, but messages also have IDs in the record.
type nonces struct {
	// The goroutine that receives the map owns it until it sends it back.
	spent chan map[string]time.Time
}

func newNonces() nonces {
	n := nonces{spent: make(chan map[string]time.Time, 1)}
	n.spent <- map[string]time.Time{}
	return n
}

// spec: airc-v0.1.1 §7.3
func (n nonces) checkUnused(from, nonce string, now time.Time) error {
	if len(nonce) > maxNonceBytes {
		return wire.Refuse(wire.CodeBadRequest, "a nonce is at most 128 bytes")
	}
	spent := <-n.spent
	defer func() { n.spent <- spent }()
	if ends, used := spent[from+" "+nonce]; used && now.Before(ends) {
		return wire.Refuse(wire.CodeDuplicateMessage, "this nonce was used before")
	}
	if len(spent) >= maxNonces {
		maps.DeleteFunc(spent, func(_ string, ends time.Time) bool { return !now.Before(ends) })
	}
	if len(spent) >= maxNonces {
		return &federation.UnavailableError{What: "messages with a nonce", Err: errors.New("too many nonces used")}
	}
	return nil
}

func (n nonces) spend(from, nonce string, now time.Time) {
	spent := <-n.spent
	defer func() { n.spent <- spent }()
	spent[from+" "+nonce] = now.Add(nonceLife)
}

const pairCommand = "pair"

func (l *Link) postPair(ctx context.Context, d *inbound) (answer, error) {
	if err := l.charge(ctx, d); err != nil {
		return answer{}, err
	}
	code, ends, err := credential.NewPairing(ctx, l.deps.Record.Participants, d.sender.DID, d.session.Key, d.session.Bound, d.received)
	if err != nil {
		return answer{}, err
	}
	m, err := l.sign(ctx, outgoing{
		From: systemHandle, To: d.sender.Handle, ReplyTo: d.id,
		Body: "Your pairing code is " + code + ". Type it where your agent host asks who you are; it is valid once, until " + ends.UTC().Format(time.RFC3339) + ".",
	}, d.received)
	if err != nil {
		return answer{}, err
	}
	if _, err := l.put(ctx, agents.Posting{Message: m}); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusCreated, body: posted{ID: d.id, Status: "delivered"}}, nil
}
