// Package credential gives out and takes what a caller over HTTP shows instead of a
// connection: challenges, which somebody signs to prove a key, and the bearer tokens
// that follow. Both are made with one secret key and kept nowhere, so that a restart
// ends none; only that a challenge was used is remembered, for as long as it would be
// good.
//
// The AIRC registry and the API for agents both use it, each under a name of its own:
// what one gave out is nothing to the other.
package credential

import "errors"

// The errors of what a caller shows.
var (
	// ErrChallenge is returned for a challenge that was not given out for this subject, or
	// was used before.
	ErrChallenge = errors.New("credential: not a challenge for this subject")
	// ErrChallengeExpired is returned for a challenge whose time is over.
	ErrChallengeExpired = errors.New("credential: the challenge has expired")
	// ErrNoToken is returned for a request without a bearer token.
	ErrNoToken = errors.New("credential: no bearer token")
	// ErrToken is returned for a token that is not good here, or not for this use.
	ErrToken = errors.New("credential: not a good token")
	// ErrTokenExpired is returned for a token that was good.
	ErrTokenExpired = errors.New("credential: the token has expired")
)
