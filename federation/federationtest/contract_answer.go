package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Answers keeps answers by DID and key. Its promises are in [Store].
type Answers interface {
	// Reserve files an answer unless there is one with its key, and returns the one that
	// is on file then.
	Reserve(ctx context.Context, a federation.Answer) (federation.Answer, error)
	// Answered puts an answer in the place of the one with its key.
	Answered(ctx context.Context, a federation.Answer) error
	// PruneAnswers forgets up to limit answers of a time or before.
	PruneAnswers(ctx context.Context, before time.Time, limit int) (pruned int, err error)
}

// Declarations keeps the capabilities that DIDs declare. Its promises are in [Store].
type Declarations interface {
	// Declare puts what a DID can do in the place of what it said before.
	Declare(ctx context.Context, did federation.DID, caps []string, now time.Time) error
	// Declaration returns what a DID declared, nothing for one that never did.
	Declaration(ctx context.Context, did federation.DID) ([]string, error)
}
