// Package aircmsg reads and writes the steps of a handoff as AIRC payloads. It uses the standard
// types if one exists (task:request, ack, task:result), each with the whole handoff in data.handoff.
// It uses "at.freeq:handoff" for all other steps and for agents that request it.
//
// It converts payloads and bodies. The registry adds the envelope around them, with its handles, IDs
// and signature. STATUS lists the implemented sections of the sources.
//
// spec: airc-shapes "A step as payload"; airc-v0.1.1 §10
package aircmsg

import (
	"encoding/json"
	"time"

	"github.com/baton-gateway/baton/federation"
)

//go:generate go test -run TestFidelityTable -fidelity .

// Payload types of steps.
const (
	typeRequest = "task:request"
	typeResult  = "task:result"
	typeAck     = "ack"
	typeSession = "handoff:session"
	typeFlat    = "handoff"

	// TypeHandoff is the type for every verb. An agent that lists it in capabilities.payloads
	// receives no other type.
	TypeHandoff = "at.freeq:handoff"
)

// Texts of an ack and a result.
const (
	statusReceived  = "received"
	statusProcessed = "processed"
	statusRejected  = "rejected"
	statusUnread    = "unsupported_payload" // the recipient cannot process the payload
	statusPartial   = "partial"
	statusCompleted = "completed"
	statusFailed    = "failed"
)

const noticeTaken = "taken"

// Message is the part of an AIRC message that reports a step.
type Message struct {
	Body    string
	Payload Payload
}

// Payload is typed data.
type Payload struct {
	Type string         `json:"type"`
	Data map[string]any `json:"data"`
}

// Handoff is the description of a handoff in each of its messages.
type Handoff struct {
	ID         federation.HandoffID  `json:"id"`
	Kind       federation.Kind       `json:"kind"`
	Event      federation.Verb       `json:"event"`
	EventID    federation.EventID    `json:"event_id"`
	Seq        federation.Version    `json:"seq"`
	State      federation.State      `json:"state"`
	Home       federation.HomeID     `json:"home"`
	Venue      string                `json:"venue"`
	Dialect    federation.Dialect    `json:"dialect"`
	From       federation.DID        `json:"from_did"`
	To         federation.DID        `json:"to_did,omitempty"`
	Assignee   federation.DID        `json:"assignee,omitempty"`
	Title      string                `json:"title"`
	Deadline   int64                 `json:"deadline,omitempty"` // unix seconds
	Caps       []string              `json:"caps,omitempty"`
	Replaces   federation.HandoffID  `json:"replaces,omitzero"`
	ContextRef string                `json:"context_ref,omitempty"`
	ContextH   string                `json:"context_h,omitempty"`
	Note       string                `json:"note,omitempty"`
	Provenance federation.Provenance `json:"provenance"`
	Proof      *Proof                `json:"proof,omitempty"`
	Evidence   *Evidence             `json:"evidence,omitempty"`
}

// Proof is the signed document of a step.
type Proof struct {
	Scheme    federation.Dialect `json:"scheme"`
	Document  string             `json:"document"`
	Signature string             `json:"signature"`
	PublicKey string             `json:"publicKey"` // base64url
}

// Evidence locates the original behind a vouched step.
type Evidence struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"` // hex
}

// Step is the step requested by a payload.
type Step struct {
	Verb federation.Verb
	// Explicit is true if the payload named the verb. Its type then has no meaning.
	Explicit bool
	// Handoff and Refs name the handoff: by its ID, and by the IDs of messages about it. Each may be
	// zero.
	Handoff federation.HandoffID
	Refs    []string
	Note    string
	Context string // JSON, or a reference to it
	// ContextHash is the hash of the content behind Context, or empty if the sender sent none.
	ContextHash string
	Proof       *Proof // nil if the sender signed no document of its own

	// The terms of an offer.

	Title    string
	Caps     []string
	Deadline time.Time            // zero for none
	Replaces federation.HandoffID `json:",omitzero"` // the earlier handoff offered again; zero for none
	Priority string
	Channel  string // may be empty

	Losses []federation.Loss // members that no step can carry, in any dialect
}

// envelope is a received payload. Its data is under either name, or is the other members beside the
// type.
type envelope struct {
	Type    string          `json:"type"`
	Data    json.RawMessage `json:"data"`
	Content json.RawMessage `json:"content"` // an object, or a text
}

// Each dialect has its own place for the members.
func (e envelope) members(payload json.RawMessage) json.RawMessage {
	var text string
	switch {
	case there(e.Data):
		return e.Data
	case federation.DecodeJSON(e.Content, &text) == nil && text != "":
		return json.RawMessage(`{"text":` + string(e.Content) + `}`)
	case there(e.Content):
		return e.Content
	}
	return payload
}

// TypeMessage is the payload type of a text about a handoff without a step.
const TypeMessage = "at.freeq:message"

type mentioned struct {
	Type    string `json:"type"`
	ReplyTo string `json:"replyTo,omitempty"` // ID of a message about the handoff, instead of the handoff ID
	Data    struct {
		Handoff struct {
			ID string `json:"id"`
		} `json:"handoff"`
	} `json:"data"`
}

// Mention returns the payload of text about a handoff.
func Mention(id federation.HandoffID) json.RawMessage {
	var m mentioned
	m.Type, m.Data.Handoff.ID = TypeMessage, id.String()
	text, _ := json.Marshal(m) //nolint:errchkjson // only strings
	return text
}

// Mentions returns the handoff named by a payload of text, or the zero ID, and the message that the
// text answers. It returns false for any other payload. Text may have no payload.
func Mentions(payload json.RawMessage) (id federation.HandoffID, replyTo string, ok bool) {
	if payload == nil {
		return id, "", true
	}
	var m mentioned
	if federation.DecodeJSON(payload, &m) != nil || m.Type != TypeMessage {
		return id, "", false
	}
	if m.Data.Handoff.ID == "" && m.ReplyTo != "" {
		return id, m.ReplyTo, true
	}
	id, err := federation.ParseEventID(m.Data.Handoff.ID)
	return id, m.ReplyTo, err == nil
}
