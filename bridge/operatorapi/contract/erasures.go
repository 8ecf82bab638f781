package contract

import "baton/federation"

// EraseAsk asks for the erasure of a person.
type EraseAsk struct {
	Act

	DID string `json:"did"`
}

// Erased is what an erasure erased, or would.
type Erased struct {
	federation.Erasing

	DID    federation.DID `json:"did"`
	Files  []string       `json:"files"` // below data_dir, which may have the text still: the operator deletes them
	DryRun bool           `json:"dry_run,omitempty"`
}
