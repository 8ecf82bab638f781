package federation

import (
	"slices"
	"strings"
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
	Title      string    // words that its title has, in any order and case
}

// Admits reports whether a handoff is asked for.
func (f Filter) Admits(v View) bool {
	return (f.DID == "" || f.DID == v.Offerer || f.DID == v.Offeree || f.DID == v.Assignee) &&
		(f.State == "" || f.State == v.State) &&
		(f.Kind == "" || f.Kind == v.Kind) &&
		(f.Venue == "" || f.Venue == v.Venue) &&
		(f.Capability == "" || slices.Contains(v.Caps, f.Capability)) &&
		!v.Moved.Before(f.Since) && f.titled(v.Title)
}

// titled reports whether a title has each word of the filter.
func (f Filter) titled(title string) bool {
	if f.Title == "" {
		return true
	}
	title = strings.ToLower(title)
	for word := range strings.FieldsSeq(strings.ToLower(f.Title)) {
		if !strings.Contains(title, word) {
			return false
		}
	}
	return true
}

// MinSuffix is how many of the last characters of an id name a handoff at least.
const MinSuffix = 6

// MaxFound bounds how many handoffs one suffix may be said to name.
const MaxFound = 16
