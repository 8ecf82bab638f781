package federation

import (
	"context"
	"slices"
	"time"
)

// Filter says which handoffs are asked for: those that agree with each of its
// members. A zero member agrees with all.
type Filter struct {
	DID        DID   // offerer, offeree or assignee
	State      State // as it stands now
	Kind       Kind
	Venue      string    // where its steps are written on a chat network
	Capability string    // one that its offer asks for
	Since      time.Time // moved then or later
}

// Admits reports whether a handoff is asked for.
func (f Filter) Admits(v View) bool {
	return (f.DID == "" || f.DID == v.Offerer || f.DID == v.Offeree || f.DID == v.Assignee) &&
		(f.State == "" || f.State == v.State) &&
		(f.Kind == "" || f.Kind == v.Kind) &&
		(f.Venue == "" || f.Venue == v.Venue) &&
		(f.Capability == "" || slices.Contains(v.Caps, f.Capability)) &&
		!v.Moved.Before(f.Since)
}

// MinSuffix is how many of the last characters of an id name a handoff at least.
const MinSuffix = 6

// MaxFound bounds how many handoffs one suffix may be said to name.
const MaxFound = 16

// Handoffs looks for handoffs. Its promises are those of [Store].
type Handoffs interface {
	// Handoffs returns up to limit handoffs that a filter admits, the newest
	// movement first, from after a cursor on, and the cursor to go on from: "" once
	// all were looked at. A page may be shorter than asked for and even empty before
	// that, since one call looks at a bounded number of handoffs. A handoff that moves
	// meanwhile is at the front again, and may so be missing from later pages. The
	// error is [ErrUnknownCursor] for a cursor that was never given out.
	Handoffs(ctx context.Context, f Filter, after Cursor, limit int) (views []View, next Cursor, err error)
	// Find returns up to [MaxFound] handoffs whose canonical id ends in a suffix, in
	// the order of their ids. One shorter than [MinSuffix] names none.
	Find(ctx context.Context, suffix string) ([]HandoffID, error)
}
