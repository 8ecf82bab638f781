package contract

import (
	"baton/federation"
)

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
