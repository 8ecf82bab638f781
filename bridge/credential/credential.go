// Package credential issues and checks the credentials of HTTP callers: challenges, which a caller
// signs to prove a key, and bearer tokens. One secret key authenticates both. Neither is stored, so
// a restart invalidates none. Only used challenges are stored, in memory, until they expire.
//
// The AIRC registry and the agent API use it under different names, and refuse each other's
// credentials.
package credential

import "errors"

var (
	// ErrChallenge means that a challenge was not issued for this subject, or was already used.
	ErrChallenge = errors.New("credential: not a challenge for this subject")
	// ErrChallengeExpired means that a challenge has expired.
	ErrChallengeExpired = errors.New("credential: the challenge has expired")
	// ErrNoToken means that a request has no bearer token.
	ErrNoToken = errors.New("credential: no bearer token")
	// ErrToken is returned for a token not valid here, or not for this use.
	ErrToken = errors.New("credential: invalid token")
	// ErrTokenExpired is returned for an expired token.
	ErrTokenExpired = errors.New("credential: the token has expired")
	// ErrSession means that the session of a token has ended.
	ErrSession = errors.New("credential: the session of the token has ended")
	// ErrSealed means that a text has no valid seal of this gateway for this purpose.
	ErrSealed = errors.New("credential: not sealed here")
	// ErrSealExpired means that a sealed text has expired.
	ErrSealExpired = errors.New("credential: the sealed text has expired")
	// ErrPairing means that a pairing code is unknown, used or expired.
	ErrPairing = errors.New("credential: not a valid pairing code")
)
