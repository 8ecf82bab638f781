// Package credential issues and checks the credentials of callers over HTTP: challenges,
// which a caller signs to prove a key, and the bearer tokens that follow. One secret key
// authenticates both, and neither is stored, so that a restart invalidates none. Only used
// challenges are remembered, until they expire.
//
// The AIRC registry and the API for agents use it under different names. Each refuses the
// credentials of the other.
package credential

import "errors"

// Errors of invalid credentials.
var (
	// ErrChallenge is returned for a challenge not issued for this subject, or already
	// used.
	ErrChallenge = errors.New("credential: not a challenge for this subject")
	// ErrChallengeExpired is returned for an expired challenge.
	ErrChallengeExpired = errors.New("credential: the challenge has expired")
	// ErrNoToken is returned for a request without a bearer token.
	ErrNoToken = errors.New("credential: no bearer token")
	// ErrToken is returned for a token not valid here, or not for this use.
	ErrToken = errors.New("credential: not a good token")
	// ErrTokenExpired is returned for an expired token.
	ErrTokenExpired = errors.New("credential: the token has expired")
	// ErrSession is returned for a token of an ended session.
	ErrSession = errors.New("credential: the session of the token has ended")
	// ErrSealed is returned for a text without a valid seal of this gateway for this purpose.
	ErrSealed = errors.New("credential: not sealed here")
	// ErrSealExpired is returned for a sealed text after its expiry.
	ErrSealExpired = errors.New("credential: the sealed text has expired")
	// ErrPairing is returned for an unknown, used or expired pairing code.
	ErrPairing = errors.New("credential: not a valid pairing code")
)
