package airc

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/signing"
)

const envelopeVersion = "0.1"

const systemHandle = "system"

const anyoneHandle = "anyone"

// spec: airc-v0.1.1 §7
type envelope struct {
	id, kid, aud, from, to string
	replyTo                string // "" for none
	nonce                  string // only in the form of Appendix B
	timestamp              time.Time
	body                   string
	payload                json.RawMessage // nil for none
	signature              string
	raw                    []byte
}

// parseEnvelope ignores unknown members, which are signed. In the form of Appendix B, a nonce replaces
// kid and aud.
//
// spec: airc-v0.1.1 §7.2
func parseEnvelope(text []byte, appendixB bool) (envelope, error) {
	o, err := wire.ParseObject(text)
	if err != nil {
		return envelope{}, err
	}
	version := o.Text("v")
	e := envelope{
		id: o.Text("id"), from: o.Text("from"), to: o.Text("to"),
		replyTo:   o.First("replyTo", "reply_to"),
		signature: o.Text("signature"), payload: o.Nested("payload"), raw: text,
	}
	if appendixB && !o.Has("kid") && !o.Has("aud") && o.Has("nonce") {
		e.nonce = o.Text("nonce")
	} else {
		e.kid, e.aud = o.Text("kid"), o.Text("aud")
	}
	var seconds int64
	if !o.Has("timestamp") || federation.DecodeJSON(o.Members["timestamp"], &seconds) != nil {
		o.Fail("timestamp is missing or not a whole number of seconds")
	}
	e.timestamp = time.Unix(seconds, 0)
	if o.Has("body") && federation.DecodeJSON(o.Members["body"], &e.body) != nil {
		o.Fail("body is not a string")
	}
	if e.payload != nil && payloadType(e.payload) == "" {
		o.Fail("payload.type is missing or not a string")
	}
	_, hasSeq := o.Members["seq"]
	switch {
	case o.Err != nil:
	case version != envelopeVersion:
		o.Fail(`v is not "` + envelopeVersion + `"`)
	case hasSeq:
		o.Fail("seq is assigned by the registry")
	case len(e.id) < 16 || len(e.id) > 128 || strings.Trim(e.id, wire.IDChars) != "": // 128 bits take 22 characters, but clients write more
		o.Fail("id is not 16 to 128 characters of A-Z a-z 0-9 _ . : -")
	case e.payload == nil && !o.Has("body"):
		o.Fail("body or payload is required")
	}
	return e, o.Err
}

// spec: airc-v0.1.1 §10
func payloadType(payload json.RawMessage) string {
	o, err := wire.ParseObject(payload)
	if err != nil {
		return ""
	}
	return o.First("type")
}

type outgoing struct {
	V         string `json:"v"`
	ID        string `json:"id"`
	KeyID     string `json:"kid"`
	Audience  string `json:"aud"`
	From      string `json:"from"`
	To        string `json:"to"`
	Timestamp int64  `json:"timestamp"` // Unix seconds
	Body      string `json:"body"`
	Payload   any    `json:"payload,omitempty"`

	Evidence *proofOfText `json:"evidence,omitempty"` // for text from another network
	ReplyTo  string       `json:"reply_to,omitempty"`

	// The following members are set for messages that were sent with a token and without their sender's
	// signature.

	Assurance string  `json:"assurance,omitempty"` // why the registry vouches for the message
	Scheme    scheme  `json:"sig,omitempty"`       // of the request
	Origin    *origin `json:"origin,omitempty"`
}

// sign also fills in the members common to all messages and a missing ID.
//
// spec: airc-v0.1.1 §9.3
func (l *Link) sign(ctx context.Context, m outgoing, now time.Time) (agents.Message, error) {
	switch {
	case m.ID != "":
	case m.From == systemHandle:
		m.ID = wire.NewMessageID("sys_")
	default:
		m.ID = wire.NewMessageID("")
	}
	key := l.deps.Keyring.Registry()
	m.V, m.KeyID, m.Audience, m.Timestamp = envelopeVersion, signing.RegistryKeyID(key.Public), l.domain, now.Unix()
	signed, err := signing.SignEnvelope(ctx, key, m)
	if err != nil {
		return agents.Message{}, fmt.Errorf("compose message to %s: %w", m.To, err)
	}
	return agents.Message{ID: m.ID, From: m.From, To: m.To, Envelope: signed, Received: now}, nil
}

// current updates and signs the envelope again if this registry composed it and the handoff has changed.
//
// spec: airc-shapes "Sessions and proofs"
func (l *Link) current(ctx context.Context, m agents.Message) ([]byte, error) {
	if m.Now == "" {
		return m.Envelope, nil
	}
	s := l.readStored(m)
	if !s.updated {
		return m.Envelope, nil
	}
	var envelope map[string]json.RawMessage
	if err := federation.DecodeJSON(m.Envelope, &envelope); err != nil {
		return nil, fmt.Errorf("read message %s: %w", m.ID, err)
	}
	key := l.deps.Keyring.Registry()
	envelope["payload"], envelope["kid"] = s.Payload, wire.JSONString(signing.RegistryKeyID(key.Public))
	signed, err := signing.SignEnvelope(ctx, key, envelope)
	if err != nil {
		return nil, fmt.Errorf("sign message %s again: %w", m.ID, err)
	}
	return signed, nil
}
