package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Sessions keeps the sessions of participants. Its promises are in [Store].
type Sessions interface {
	// StartSession begins a session. It returns [federation.ErrSessionEnded] for a participant
	// that is a DID for which the key of the session was revoked. A key that ends later ends the
	// session. Of more than [federation.MaxSessions] of one participant, the one that was used
	// least recently ends.
	StartSession(ctx context.Context, s federation.Session) error
	// HasSession reports whether a participant has a session that has not ended.
	HasSession(ctx context.Context, participant string, now time.Time) (bool, error)
	// Session returns a session, [federation.ErrSessionEnded] for one whose key has ended, and
	// [federation.ErrNotFound] for any other one that has ended.
	Session(ctx context.Context, id string, now time.Time) (federation.Session, error)
	// Sessions returns the sessions of some participants that have not ended, the newest first.
	Sessions(ctx context.Context, participants []string, now time.Time) ([]federation.Session, error)
	// AdvanceSession spends one refresh token: the session goes from that generation
	// to the next, and its end to expires. It returns [federation.ErrTokenUsed] when the session is
	// not at that generation any more, and ends it; and [federation.ErrNotFound] for a session
	// that has ended.
	AdvanceSession(ctx context.Context, id string, generation uint64, now, expires time.Time) (federation.Session, error)
	// ProlongSession notes that a session got a new token, and moves its end to expires. It
	// returns [federation.ErrNotFound] for a session that has ended.
	ProlongSession(ctx context.Context, id string, now, expires time.Time) (federation.Session, error)
	// BindSession notes that the participant made a proof that names this gateway in a session.
	BindSession(ctx context.Context, id string) error
	// EndSession ends one session of some participants. It returns [federation.ErrNotFound] for
	// one that they do not have.
	EndSession(ctx context.Context, participants []string, id string, now time.Time) error
	// EndSessions ends the sessions of some participants but one, "" for none, and returns how
	// many there were. With unbound it ends only unbound sessions, and disables the
	// webhooks that were made in them.
	EndSessions(ctx context.Context, participants []string, except string, unbound bool, now time.Time) (int, error)
}
