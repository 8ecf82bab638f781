package federation

import (
	"time"
)

// Waiting is a delivery that is still to be made, to a link or to a peer of one.
type Waiting struct {
	Link    string // or
	Peer    string // the name of a peer
	Event   EventID
	Message string // id of the document for a peer
	Handoff HandoffID
	Verb    Verb
	Queued  time.Time
	Attempt int
	Next    time.Time // zero for at once
	Behind  bool      // an earlier delivery with its order key goes first
	Reason  string    // why the last attempt failed
}

// To returns where it is to be delivered.
func (w Waiting) To() string {
	if w.Link != "" {
		return w.Link
	}
	return w.Peer
}

// WaitingFilter says which deliveries are asked for. A zero member agrees with all;
// with a Link there are none to peers, with a Peer none to links.
type WaitingFilter struct {
	Link    string
	Peer    string
	Handoff HandoffID
	Before  time.Time // queued then or earlier
	ID      string    // of an event, or of a message
}

// Shape is how much waits for one destination, by age.
type Shape struct {
	Link   string
	Peer   string
	Rows   int
	Ages   [shapeAges + 1]int // younger than each of [ShapeAges] and not than the one before; the last older
	Oldest time.Time
}

// shapeAges is how many borders there are.
const shapeAges = 4

// ShapeAges are the borders of [Shape.Ages].
func ShapeAges() [shapeAges]time.Duration {
	return [...]time.Duration{time.Minute, 5 * time.Minute, time.Hour, 24 * time.Hour}
}
