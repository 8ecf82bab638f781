package federation

import (
	"time"
)

// Change is something that an operator did.
type Change struct {
	ID      int64 // in the order in which changes were noted, from 1
	At      time.Time
	Actor   string // the operator, as the audit log names it
	What    string // the words of the command, such as "feed hold"
	Subject string // the object of the change
	Reason  string // why, in the operator's words; may be empty
}

// ChangeFilter says which changes are asked for. A zero member agrees with all.
type ChangeFilter struct {
	Since time.Time
	Actor string
}

// PeerMode is the mode that an operator set for a peer or another home.
type PeerMode struct {
	Domain string // or the name of a home
	Mode   string // allow, limit, hold or block
	Since  time.Time
}
