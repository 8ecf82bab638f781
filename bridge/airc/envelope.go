package airc

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/signing"
)

// envelopeVersion is the "v" of every message.
const envelopeVersion = "0.1"

// systemHandle is the handle under which the registry itself writes.
const systemHandle = "system"

// anyoneHandle is the recipient of an open offer.
const anyoneHandle = "anyone"

// messageIDBytes is how much of a message id is random.
const messageIDBytes = 16

// envelope is one signed message as it came.
//
// spec: airc-v0.1.1 §7
type envelope struct {
	id, kid, aud, from, to string
	replyTo                string // the message that it answers; "" for none
	nonce                  string // of Appendix B, which has no kid and no aud
	timestamp              time.Time
	body                   string
	payload                json.RawMessage // nil where there is none
	signature              string
	raw                    []byte // the whole of it, untouched
}

// parseEnvelope reads a message strictly, but for members that it does not know:
// those are signed, and ignored. In the form of Appendix B, where that is taken, a
// nonce is there instead of kid and aud.
//
// spec: airc-v0.1.1 §7.2
func parseEnvelope(text []byte, appendixB bool) (envelope, error) {
	o, err := parseObject(text)
	if err != nil {
		return envelope{}, err
	}
	version := o.text("v")
	e := envelope{
		id: o.text("id"), from: o.text("from"), to: o.text("to"),
		replyTo:   o.first("replyTo", "reply_to"),
		signature: o.text("signature"), payload: o.nested("payload"), raw: text,
	}
	if appendixB && !o.has("kid") && !o.has("aud") && o.has("nonce") {
		e.nonce = o.text("nonce")
	} else {
		e.kid, e.aud = o.text("kid"), o.text("aud")
	}
	var seconds int64
	if !o.has("timestamp") || federation.DecodeJSON(o.members["timestamp"], &seconds) != nil {
		o.fail("timestamp is missing or not a whole number of seconds")
	}
	e.timestamp = time.Unix(seconds, 0)
	if o.has("body") && federation.DecodeJSON(o.members["body"], &e.body) != nil {
		o.fail("body is no string")
	}
	if e.payload != nil && payloadType(e.payload) == "" {
		o.fail("payload.type is missing or no string")
	}
	_, hasSeq := o.members["seq"]
	switch {
	case o.err != nil:
	case version != envelopeVersion:
		o.fail(`v is not "` + envelopeVersion + `"`)
	case hasSeq:
		o.fail("seq is given by the registry")
	case !isMessageID(e.id):
		o.fail("id is not 16 to 128 characters of A-Z a-z 0-9 _ . : -")
	case e.payload == nil && !o.has("body"):
		o.fail("body or payload is needed")
	}
	return e, o.err
}

// payloadType returns the type of a payload, "" where it has none.
//
// spec: airc-v0.1.1 §10
func payloadType(payload json.RawMessage) string {
	o, err := parseObject(payload)
	if err != nil {
		return ""
	}
	return o.first("type")
}

// idChars are what ids of messages and keys are made of.
const idChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-"

// isMessageID holds an id to a size, not to the 22 characters of 128 bits: clients
// in use write longer ones with a prefix.
func isMessageID(id string) bool {
	return len(id) >= 16 && len(id) <= 128 && strings.Trim(id, idChars) == ""
}

// outgoing is one message of this registry before it is signed.
type outgoing struct {
	V         string `json:"v"`
	ID        string `json:"id"`
	KeyID     string `json:"kid"`
	Audience  string `json:"aud"`
	From      string `json:"from"`
	To        string `json:"to"`
	Timestamp int64  `json:"timestamp"` // unix seconds
	Body      string `json:"body"`
	Payload   any    `json:"payload,omitempty"`

	Evidence *proofOfText `json:"evidence,omitempty"` // of text from another network

	// Of messages that came with a token and without a signature of their sender.

	ReplyTo   string  `json:"reply_to,omitempty"`
	Assurance string  `json:"assurance,omitempty"` // what the registry vouches for them by
	Scheme    scheme  `json:"sig,omitempty"`       // how the request was signed, for the record
	Origin    *origin `json:"origin,omitempty"`    // of a message from another registry
}

// newMessageID returns an id of 128 random bits after a prefix.
func newMessageID(prefix string) string {
	random := make([]byte, messageIDBytes)
	_, _ = rand.Read(random) // never fails
	return prefix + base64.RawURLEncoding.EncodeToString(random)
}

// signer returns the key of the registry that signs now, as messages name it.
func (l *Link) signer() agents.Key {
	key := l.deps.Keyring.Registry()
	return agents.Key{ID: signing.RegistryKeyID(key.Public), Public: key.Public}
}

// seal fills in the members of a message that are the same for all, and an id where it has
// none, and signs it with the registry key.
//
// spec: airc-v0.1.1 §9.3
func (l *Link) seal(ctx context.Context, m outgoing, now time.Time) (agents.Message, error) {
	switch {
	case m.ID != "":
	case m.From == systemHandle:
		m.ID = newMessageID("sys_")
	default:
		m.ID = newMessageID("")
	}
	key := l.deps.Keyring.Registry()
	m.V, m.KeyID, m.Audience, m.Timestamp = envelopeVersion, signing.RegistryKeyID(key.Public), l.domain, now.Unix()
	signed, err := signing.SignEnvelope(ctx, key, m)
	if err != nil {
		return agents.Message{}, fmt.Errorf("compose message to %s: %w", m.To, err)
	}
	return agents.Message{ID: m.ID, From: m.From, To: m.To, Envelope: signed, Received: now}, nil
}

// current returns the envelope of a message. If this registry composed the message and the handoff
// has moved on since, the envelope shows the current state and is signed again. Its other members
// stay, except the kid after a rotation of the registry key.
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
	envelope["payload"], envelope["kid"] = s.Payload, jsonString(signing.RegistryKeyID(key.Public))
	signed, err := signing.SignEnvelope(ctx, key, envelope)
	if err != nil {
		return nil, fmt.Errorf("sign message %s again: %w", m.ID, err)
	}
	return signed, nil
}
