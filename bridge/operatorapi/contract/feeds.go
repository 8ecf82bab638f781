package contract

import (
	"baton/federation"
)

// Waiting is a delivery that is still to be made.
type Waiting struct {
	ID        string               `json:"id"` // of the event; of a message that is no step its own
	Link      string               `json:"link,omitempty"`
	Peer      string               `json:"peer,omitempty"` // another registry
	HandoffID federation.HandoffID `json:"handoff_id,omitzero"`
	Verb      federation.Verb      `json:"verb,omitempty"`
	Queued    Moment               `json:"queued"`
	Attempt   int                  `json:"attempt"`
	Next      Moment               `json:"next,omitzero"` // not there of one that is tried at once, or waits behind another
	Behind    bool                 `json:"behind"`        // another one of its handoff goes first
	LastError string               `json:"last_error"`
	Held      bool                 `json:"held"` // an operator holds its destination
}

// Shape is how much waits for one destination, by age.
type Shape struct {
	Link   string `json:"link,omitempty"`
	Peer   string `json:"peer,omitempty"`
	Rows   int    `json:"rows"`
	Ages   []int  `json:"ages"` // younger than 1m, 5m, 1h, 24h, and older
	Oldest Moment `json:"oldest,omitzero"`
	Held   bool   `json:"held"`
	Reason string `json:"reason,omitempty"` // why it is held
}
