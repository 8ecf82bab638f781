package aircmsg

import (
	"encoding/json"

	"baton/federation"
)

// TypeMessage is the type of the payload of a message that is text about a handoff, and no step.
const TypeMessage = "at.freeq:message"

// mentioned is the payload of such a message.
type mentioned struct {
	Type    string `json:"type"`
	ReplyTo string `json:"replyTo,omitempty"` // the id of a message about the handoff, in the place of the id
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
	text, _ := json.Marshal(m) //nolint:errchkjson // strings alone
	return text
}

// Mentions returns the handoff that a payload of text names, the zero ID for none, the message that
// the text answers, and false for a payload that is not one of text. Text may have no payload.
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
