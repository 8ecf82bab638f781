package federation

import (
	"context"
	"time"
)

// Answer is what somebody was told who gave a request a key of their own, so that the
// same request again is answered as the first time.
type Answer struct {
	DID    DID
	Key    string   // the caller's, at most 255 bytes
	Digest [32]byte // SHA-256 of the request
	// Event is the id of the step that the request is, whenever it comes.
	Event  EventID
	Status int    // of HTTP; 0 while the request was not answered yet
	Body   []byte // nil until then
	At     time.Time
}

// Answers keeps answers by DID and key. Its promises are those of [Store].
type Answers interface {
	// Reserve files an answer unless there is one with its key, and returns the one that
	// is on file then.
	Reserve(ctx context.Context, a Answer) (Answer, error)
	// Answered puts an answer in the place of the one with its key.
	Answered(ctx context.Context, a Answer) error
	// PruneAnswers forgets up to limit answers of a time or before.
	PruneAnswers(ctx context.Context, before time.Time, limit int) (pruned int, err error)
}

// Declarations keeps what DIDs say that they can do. Its promises are those of [Store].
type Declarations interface {
	// Declare puts what a DID can do in the place of what it said before.
	Declare(ctx context.Context, did DID, caps []string, now time.Time) error
	// Declaration returns what a DID declared, nothing for one that never did.
	Declaration(ctx context.Context, did DID) ([]string, error)
}
