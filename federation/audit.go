package federation

import (
	"time"
)

// Change is something that an operator did.
type Change struct {
	ID      int64 // in the order in which changes were noted, from 1
	At      time.Time
	Actor   string // who
	What    string // the words of the command, such as "feed hold"
	Subject string // what it was done to
	Reason  string // why, in the operator's words; may be empty
}

// ChangeFilter says which changes are asked for. A zero member agrees with all.
type ChangeFilter struct {
	Since time.Time
	Actor string
}

// PeerMode is an operator's word on how a peer is treated, or another home:
// whoever has the name.
type PeerMode struct {
	Domain string // or the name of a home
	Mode   string // allow, limit, hold or block
	Since  time.Time
}
