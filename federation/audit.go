package federation

import (
	"context"
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

// Audit keeps what operators did, for good. Its promises are those of [Store].
type Audit interface {
	// Note keeps a change, and gives it its ID.
	Note(ctx context.Context, c Change) error
	// Changes returns up to limit changes, the newest first, before an ID, or from the
	// start with 0.
	Changes(ctx context.Context, f ChangeFilter, before int64, limit int) ([]Change, error)
}

// PeerMode is an operator's word on how a peer is treated, or another home:
// whoever has the name.
type PeerMode struct {
	Domain string // or the name of a home
	Mode   string // allow, limit, hold or block
	Since  time.Time
}

// PeerModes keeps those words. Its promises are those of [Store].
type PeerModes interface {
	// SetPeerMode puts a word in the place of the one before.
	SetPeerMode(ctx context.Context, m PeerMode) error
	// PeerModes returns all of them, by domain.
	PeerModes(ctx context.Context) ([]PeerMode, error)
}
