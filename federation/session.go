package federation

import (
	"context"
	"errors"
	"time"
)

// ErrSpent is returned by [Sessions.AdvanceSession] for a refresh token that was used before.
var ErrSpent = errors.New("federation: refresh token used before")

// Session is one family of refresh tokens: each is spent by the next.
type Session struct {
	ID          string
	Participant string // a name on a link, or a DID
	Generation  uint64 // of the token that is good now
	Expires     time.Time
}

// Sessions keeps the families of refresh tokens. Its promises are those of [Store].
type Sessions interface {
	// StartSession begins a family of refresh tokens.
	StartSession(ctx context.Context, s Session) error
	// AdvanceSession spends one refresh token: the family goes from that generation
	// to the next, and its end to expires. It returns [ErrSpent] when the family is
	// not at that generation any more, and ends it; and [ErrNotFound] for a family
	// that has ended.
	AdvanceSession(ctx context.Context, id string, generation uint64, now, expires time.Time) (Session, error)
}
