package federation

import (
	"cmp"
	"time"
)

// Mark is a position among the steps that were said at one place: at a step, or
// between two. The zero Mark is before all.
type Mark struct {
	At time.Time // see [Event.Said]
	N  uint64    // tells steps of one moment apart; 0 is before them
}

// Compare orders marks by time, and marks of one moment by their number.
func (m Mark) Compare(other Mark) int {
	return cmp.Or(m.At.Compare(other.At), cmp.Compare(m.N, other.N))
}

// Said is a filed step as it stands at its place.
type Said struct {
	Entry Entry
	View  View // of the handoff as it stands now
	Mark  Mark
}

// Stretch is a part of what was said at a place, without both of its ends.
type Stretch struct {
	// Place is where the handoffs are written. The link of a private venue is not
	// looked at: it is one exchange wherever it is written.
	Place  Place
	After  Mark // zero for the start
	Before Mark // zero for the end
	Newest bool // of more steps than are asked for, the newest
}

// Said returns when a step was said, as all messages tell that carry it: when it first
// came in.
func (e Event) Said() time.Time {
	if e.Verb == Confirm || e.Arrival.Received.IsZero() {
		return e.Time()
	}
	return e.Arrival.Received
}

// Place returns where the steps of a handoff are written. A private exchange has no link: it
// is wherever its two parties are.
func (v View) Place() Place {
	if Private(v.Venue) {
		return Place{Venue: v.Venue}
	}
	return Place{Link: v.Link, Venue: v.Venue}
}
