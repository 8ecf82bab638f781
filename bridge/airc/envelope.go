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
	"baton/federation/signing"
)

// envelopeVersion is the "v" of every message.
const envelopeVersion = "0.1"

// systemHandle is who the registry itself writes as.
const systemHandle = "system"

// anyoneHandle is whom an open offer is written to.
const anyoneHandle = "anyone"

// messageIDBytes is how much of a message id is random.
const messageIDBytes = 16

// envelope is one signed message as it came.
//
// spec: airc-v0.1.1 §7
type envelope struct {
	id, kid, aud, from, to string
	timestamp              time.Time
	body                   string
	payload                json.RawMessage // nil where there is none
	signature              string
	raw                    []byte // the whole of it, untouched
}

// parseEnvelope reads a message strictly, but for members that it does not know:
// those are signed, and ignored.
//
// spec: airc-v0.1.1 §7.2
func parseEnvelope(text []byte) (envelope, error) {
	o, err := parseObject(text)
	if err != nil {
		return envelope{}, err
	}
	version := o.text("v")
	e := envelope{
		id: o.text("id"), kid: o.text("kid"), aud: o.text("aud"), from: o.text("from"), to: o.text("to"),
		signature: o.text("signature"), payload: o.nested("payload"), raw: text,
	}
	var seconds int64
	if !o.has("timestamp") || json.Unmarshal(o.members["timestamp"], &seconds) != nil {
		o.fail("timestamp is missing or no whole number of seconds")
	}
	e.timestamp = time.Unix(seconds, 0)
	if o.has("body") && json.Unmarshal(o.members["body"], &e.body) != nil {
		o.fail("body is no string")
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

// isMessageID holds an id to a size, not to the 22 characters of 128 bits: clients
// in use write longer ones with a prefix.
func isMessageID(id string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-"
	return len(id) >= 16 && len(id) <= 128 && strings.Trim(id, allowed) == ""
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
	Payload   any    `json:"payload"`
}

// compose returns a message signed by the registry key.
//
// spec: airc-v0.1.1 §9.3
func (l *Link) compose(ctx context.Context, from, to, body string, payload any, now time.Time) (federation.Message, error) {
	random := make([]byte, messageIDBytes)
	_, _ = rand.Read(random) // never fails
	id := base64.RawURLEncoding.EncodeToString(random)
	if from == systemHandle {
		id = "sys_" + id
	}
	key := l.deps.RegistryKey()
	signed, err := signing.SignEnvelope(ctx, key, outgoing{
		V: envelopeVersion, ID: id, KeyID: signing.RegistryKeyID(key.Public), Audience: l.domain, From: from, To: to,
		Timestamp: now.Unix(), Body: body, Payload: payload,
	})
	if err != nil {
		return federation.Message{}, fmt.Errorf("compose message to %s: %w", to, err)
	}
	return federation.Message{ID: id, From: from, To: to, Envelope: signed, Received: now}, nil
}
