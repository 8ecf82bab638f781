package federationtest

import (
	"context"

	"baton/federation"
)

// Spoken reads the steps of a place by time. Its promises are in [Store].
type Spoken interface {
	// Spoken returns up to limit steps of a stretch, oldest first. Receipts are none.
	Spoken(ctx context.Context, s federation.Stretch, limit int) ([]federation.Said, error)
	// Mark returns the mark of the step at a place that has an event ID, or else was
	// carried by the message with that id. It returns [federation.ErrNotFound] for one that was
	// not said there.
	Mark(ctx context.Context, p federation.Place, id string) (federation.Mark, error)
}
