package contract

import (
	"baton/federation"
)

// Binding is a name that stands for a DID.
type Binding struct {
	Network string         `json:"network"`
	Name    string         `json:"name"`
	DID     federation.DID `json:"did"`
	Vouch   bool           `json:"vouch"`
	Origin  string         `json:"origin"`
	Since   Moment         `json:"since,omitzero"` // of one in the record
}

// Bind is the body of a binding.
type Bind struct {
	Act

	DID   string `json:"did"`
	Vouch bool   `json:"vouch,omitempty"`
}
