package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Sessions keeps the families of refresh tokens. Its promises are in [Store].
type Sessions interface {
	// StartSession begins a family of refresh tokens.
	StartSession(ctx context.Context, s federation.Session) error
	// HasSession reports whether a participant has a session that has not expired.
	HasSession(ctx context.Context, participant string, now time.Time) (bool, error)
	// AdvanceSession spends one refresh token: the family goes from that generation
	// to the next, and its end to expires. It returns [federation.ErrTokenUsed] when the family is
	// not at that generation any more, and ends it; and [federation.ErrNotFound] for a family
	// that has ended.
	AdvanceSession(ctx context.Context, id string, generation uint64, now, expires time.Time) (federation.Session, error)
}
