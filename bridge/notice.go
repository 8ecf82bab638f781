package bridge

import (
	"context"

	"baton/federation"
)

// Notifier is a [Link] that can tell the signers of steps which came by it what became
// of those later.
type Notifier interface {
	Link
	// Notify tells the actor of the notice's event, and returns once that is on its way,
	// or nobody is ever to be told. Its error means that the actor is not there now: it
	// is to be told later. It may be called while Run runs.
	Notify(ctx context.Context, n federation.Notice) error
}
