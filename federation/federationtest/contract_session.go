package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Sessions stores the sessions of participants. Its promises are in [Store].
type Sessions interface {
	// StartSession begins a session. It returns [federation.ErrSessionEnded] if the participant is
	// a DID and the key of the session was revoked for it. If the key has a later end, the session
	// gets that end. A participant has at most [federation.MaxSessions] sessions: beyond that, the
	// least recently used one ends.
	StartSession(ctx context.Context, s federation.Session) error
	// HasSession reports whether a participant has a live session.
	HasSession(ctx context.Context, participant string, now time.Time) (bool, error)
	// Seen reports whether a DID logged in to an API within a year, read its inbox or declared its
	// capabilities.
	Seen(ctx context.Context, did federation.DID) (bool, error)
	// Session returns a session, [federation.ErrSessionEnded] for one whose key has ended, and
	// [federation.ErrNotFound] for any other one that has ended.
	Session(ctx context.Context, id string, now time.Time) (federation.Session, error)
	// Sessions returns the live sessions of some participants, newest first.
	Sessions(ctx context.Context, participants []string, now time.Time) ([]federation.Session, error)
	// AdvanceSession spends a refresh token: it moves the session from that generation to the next
	// and extends it to expires. If the session is at another generation, it ends the session and
	// returns [federation.ErrTokenUsed]. It returns [federation.ErrNotFound] for an ended session.
	AdvanceSession(ctx context.Context, id string, generation uint64, now, expires time.Time) (federation.Session, error)
	// ProlongSession records a new token of a session and extends the session to expires. It
	// returns [federation.ErrNotFound] for an ended session.
	ProlongSession(ctx context.Context, id string, now, expires time.Time) (federation.Session, error)
	// BindSession records that the participant made a proof for this gateway in a session.
	BindSession(ctx context.Context, id string) error
	// EndSession ends one session of some participants. It returns [federation.ErrNotFound] if none
	// of them has it.
	EndSession(ctx context.Context, participants []string, id string, now time.Time) error
	// EndSessions ends the sessions of some participants except one, "" for none, and returns their
	// number. With unbound, it ends only unbound sessions and disables the webhooks made in them.
	EndSessions(ctx context.Context, participants []string, except string, unbound bool, now time.Time) (int, error)
}
