package federation

import (
	"context"
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
	Behind  bool      // another one of its lane goes first
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

// Waits lets operators see and steer what is still to be delivered. Its promises are
// those of [Store].
type Waits interface {
	// Waiting returns up to limit deliveries that a filter admits after a cursor, those of
	// links first, and the cursor to go on from: "" at the end. The error is
	// [ErrUnknownCursor] for a cursor that was never given out.
	WaitingFor(ctx context.Context, f WaitingFilter, after Cursor, limit int) ([]Waiting, Cursor, error)
	// Shapes returns a row for each destination that anything waits for, links first.
	Shapes(ctx context.Context, now time.Time) ([]Shape, error)
	// Retry lets deliveries be tried at once, and returns how many.
	Retry(ctx context.Context, f WaitingFilter, now time.Time) (int, error)
	// GiveUp ends deliveries by the word of an operator: as a dead letter, its signer
	// told; or, to be dropped, without either. It returns how many.
	GiveUp(ctx context.Context, f WaitingFilter, drop bool, reason string, now time.Time) (int, error)
	// Hold keeps deliveries to a link or a peer back until Release. Holding it again
	// changes the reason alone.
	Hold(ctx context.Context, h Withheld) error
	// Release returns [ErrNotFound] for what is not held.
	Release(ctx context.Context, to string) error
	// Holds returns what is held, by name.
	Holds(ctx context.Context) ([]Withheld, error)
}
