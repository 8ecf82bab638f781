package bridge

import (
	"context"

	"baton/federation"
)

// Notifier is a [Link] that can tell the signers of steps which came by it what became
// of those later, and its people that a webhook of theirs is disabled.
type Notifier interface {
	Link
	// Notify tells the reader of the notice, and returns once that is on its way,
	// or nobody is ever to be told. Its error means that the reader is not there now: it
	// is to be told later. It may be called while Run runs.
	Notify(ctx context.Context, n federation.Notice) error
}
