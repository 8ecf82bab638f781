package contract

import "baton/federation"

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

// DeadLetter is a delivery that was given up. In a list it has no attempts and no raw
// bytes.
type DeadLetter struct {
	ID        int64                 `json:"id"`
	Link      string                `json:"link,omitempty"`
	Peer      string                `json:"peer,omitempty"` // another registry
	Reason    federation.DeadReason `json:"reason"`
	LastError string                `json:"last_error"`
	EventID   federation.EventID    `json:"event_id,omitzero"`
	HandoffID federation.HandoffID  `json:"handoff_id,omitzero"`
	Verb      federation.Verb       `json:"verb,omitempty"`
	Message   string                `json:"message,omitempty"` // id of the message that a registry was owed
	Attempt   int                   `json:"attempt"`
	Queued    Moment                `json:"queued"`
	Died      Moment                `json:"died"`
	Replayed  Moment                `json:"replayed,omitzero"`

	*DeadDetail
}

// DeadDetail is what one dead letter says of itself when it is read alone.
type DeadDetail struct {
	Verdict   string `json:"verdict"` // on the signature, when it was filed; "" where it cannot be read
	Raw       string `json:"raw"`     // what was signed, or the document of a message; base64 where it is not UTF-8
	Signature string `json:"signature,omitempty"`
	Attempts  []Try  `json:"attempts"` // the last of them
	Fix       string `json:"fix"`      // what may be done about it
	Broken    string `json:"broken,omitempty"`
}

// Try is one attempt that failed.
type Try struct {
	Number int    `json:"number"`
	Time   Moment `json:"time"`
	Error  string `json:"error"`
}
