package aircmsg

import (
	"encoding/json"

	"baton/federation"
)

// TypeMessage is the type of the payload of a message that is text about a handoff, and no step.
const TypeMessage = "at.freeq:message"

// mentioned is the payload of such a message.
type mentioned struct {
	Type string `json:"type"`
	Data struct {
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

// Mentions returns the handoff that a payload of text names, the zero ID for none, and false for
// a payload that is not one of text. Text may have no payload.
func Mentions(payload json.RawMessage) (federation.HandoffID, bool) {
	if payload == nil {
		return federation.HandoffID{}, true
	}
	var m mentioned
	if json.Unmarshal(payload, &m) != nil || m.Type != TypeMessage {
		return federation.HandoffID{}, false
	}
	id, err := federation.ParseEventID(m.Data.Handoff.ID)
	return id, err == nil
}
