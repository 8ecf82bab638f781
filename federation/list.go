package federation

import (
	"slices"
	"time"
)

// Filter selects handoffs that match each of its members. A zero member matches all.
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
