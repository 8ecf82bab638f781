package contract

import "baton/federation"

// Arrived is one step in an inbox.
type Arrived struct {
	Cursor     federation.Cursor     `json:"cursor"` // after it
	HandoffID  federation.HandoffID  `json:"handoff_id"`
	EventID    federation.EventID    `json:"event_id"`
	Verb       federation.Verb       `json:"verb"`
	From       federation.DID        `json:"from"` // whose step it is
	Name       string                `json:"name"`
	State      federation.State      `json:"state"` // of the handoff after it
	Filed      Moment                `json:"filed"`
	Provenance federation.Provenance `json:"provenance"`
	Title      string                `json:"title,omitempty"`
	Note       string                `json:"note,omitempty"`
}

// Ack is the body of an acknowledgement.
type Ack struct {
	Cursor federation.Cursor `json:"cursor"`
	Device string            `json:"device,omitempty"`
	Reason string            `json:"reason,omitempty"`
}

// Move is the body of a request to give a mailbox to another home.
type Move struct {
	Act

	Home string `json:"home"`
}

// Moved is what came of that.
type Moved struct {
	DID     federation.DID `json:"did"`
	Home    string         `json:"home"`    // where its mailbox is now
	Taken   int            `json:"taken"`   // entries that went along
	Waiting int            `json:"waiting"` // entries that are still here
}
