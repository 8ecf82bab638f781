package contract

import (
	"net/http"

	"baton/federation"
)

// Block is a source that an operator blocked.
type Block struct {
	What    string               `json:"what"`
	Kind    federation.BlockKind `json:"kind"`
	Reason  string               `json:"reason"`
	Since   Moment               `json:"since"`
	Expires Moment               `json:"expires"` // "" where it holds until it is removed
}

// BlockAsk asks for a block.
type BlockAsk struct {
	Act

	What  string `json:"what"`          // see [federation.ParseBlock]
	For   string `json:"for,omitempty"` // a duration; "" until it is removed
	Purge bool   `json:"purge,omitempty"`
}

// Purged counts what a purge ended and dropped, or would.
type Purged struct {
	federation.Purged

	Handoffs int `json:"handoffs"` // that the source had offered
}

// Blocked is a block that was made just now, or would be.
type Blocked struct {
	Block

	Purged *Purged `json:"purged,omitempty"` // nil where nothing was to be purged
	DryRun bool    `json:"dry_run,omitempty"`
}

// AnswerStatus implements [route.Statused].
func (b Blocked) AnswerStatus() int {
	if b.DryRun {
		return http.StatusOK
	}
	return http.StatusCreated
}

// Sender is what came from one DID, address or link.
type Sender struct {
	Name    string `json:"name"`
	Steps   int    `json:"steps"`   // all that were judged
	Refused int    `json:"refused"` // of those
	Limited int    `json:"limited"` // refused because there were too many
	Blocked int    `json:"blocked"` // steps, logins and connections that an operator's block refused
	Bytes   int64  `json:"bytes"`   // of the documents and evidence of all steps
}
