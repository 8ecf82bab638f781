package federationtest

import (
	"context"

	"baton/federation"
)

// Spoken reads what was said where. Its promises are those of [Store].
type Spoken interface {
	// Spoken returns up to limit steps of a stretch, oldest first. Receipts are none.
	Spoken(ctx context.Context, s federation.Stretch, limit int) ([]federation.Said, error)
	// Mark returns the mark of the step at a place that has an event ID, or else was
	// carried by the message with that id. It returns [federation.ErrNotFound] for one that was
	// not said there.
	Mark(ctx context.Context, p federation.Place, id string) (federation.Mark, error)
}
