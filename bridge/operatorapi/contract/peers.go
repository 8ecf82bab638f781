package contract

import (
	"baton/federation"
)

// Peer is another registry, or another home.
type Peer struct {
	Name      string `json:"name"` // its domain, or its home.name
	Network   string `json:"network"`
	Mode      string `json:"mode"`             // allow, limit, hold or block
	Origin    string `json:"origin"`           // of the mode
	Source    string `json:"source,omitempty"` // of the peer: configuration, or record where an operator added it
	URL       string `json:"url,omitempty"`
	Dialect   string `json:"dialect,omitempty"`  // registries only
	Unsigned  string `json:"unsigned,omitempty"` // policy for its unsigned messages
	Waiting   int    `json:"waiting"`            // undelivered messages, or steps without a receipt
	Oldest    Moment `json:"oldest,omitzero"`
	Dead      int    `json:"dead"`
	Held      bool   `json:"held"`
	LastError string `json:"last_error,omitempty"`

	*PeerHome // of a home
}

// PeerHome is what is known of another home alone.
type PeerHome struct {
	State       string  `json:"state"` // of the link to it: up, dialling or down
	Path        string  `json:"path"`  // relay or https
	LastHeard   Moment  `json:"last_heard,omitzero"`
	SkewSeconds float64 `json:"skew_seconds"` // by which our clock is ahead of its clock
	Forks       []Fork  `json:"forks"`        // newest first
	Doubts      []Doubt `json:"doubts"`
}

// Doubt is what a home said and was not believed in.
type Doubt struct {
	Kind  federation.OffenceKind `json:"kind"` // voice, mailbox, ruling or step
	Times int                    `json:"times"`
	First Moment                 `json:"first"`
	Last  Moment                 `json:"last"`
	Why   string                 `json:"why"` // the last time
}

// Fork is a handoff of which a home tells two histories. Both are kept.
type Fork struct {
	Handoff federation.HandoffID `json:"handoff"`
	Version federation.Version   `json:"version"` // at which they part
	Found   Moment               `json:"found"`
}

// Peering is the body of a request to add another home.
type Peering struct {
	Act

	URL string `json:"url"` // where it is reached, without a path
	// AllowPrivate says that the operator knows that the address is a private one, or
	// without TLS.
	AllowPrivate bool `json:"allow_private,omitempty"`
}

// Peered is what was found out about another home, and what came of adding it.
type Peered struct {
	Peer   Peer    `json:"peer"`
	Checks []Check `json:"checks"`
	// Canary is what became of a handoff that was offered to it; nil where none was.
	Canary *Canary `json:"canary,omitempty"`
}

// Canary is a handoff from this home to another one, which that completes by itself.
type Canary struct {
	Handoff federation.HandoffID `json:"handoff"`
	Green   bool                 `json:"green"`
	Took    string               `json:"took"`             // a duration
	Reason  string               `json:"reason,omitempty"` // where it is not green
}

// Mode is the body of a change of mode.
type Mode struct {
	Act

	Mode string `json:"mode"`
	New  bool   `json:"new,omitempty"` // the name is that of a registry that is not known yet
}

// Compared is the result of a comparison of histories with another home.
type Compared struct {
	Compared int    `json:"compared"` // handoffs
	Sent     int    `json:"sent"`     // handoffs of this home of which the other one lacked steps, and has them now
	Lost     []Loss `json:"lost"`
}

// Loss is a handoff of the other home of which that has lost steps.
type Loss struct {
	Handoff federation.HandoffID `json:"handoff_id"`
	Version federation.Version   `json:"version"` // steps that are here
	Have    federation.Version   `json:"have"`    // steps that the other home has
}

// Check is what was found out about one thing.
type Check struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warn or FAIL
	Detail string `json:"detail"`
}
