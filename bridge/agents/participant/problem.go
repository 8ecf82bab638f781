package participant

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

// Codes of problems of participants.
const (
	CodeConflict     = "conflict"
	CodeOtherRequest = "idempotency-conflict" // the key was used for another request
)

// ReplayedError is the refusal of an earlier request with the same Idempotency-Key.
type ReplayedError struct{ Problem bridge.ProblemError }

// Error implements error.
func (e *ReplayedError) Error() string { return e.Problem.Error() }

// Unwrap returns the problem.
func (e *ReplayedError) Unwrap() error { return &e.Problem }

// LostError is the refusal of a late step, with the name of the assignee.
type LostError struct {
	Problem  bridge.ProblemError
	Assignee federation.DID
}

// Error implements error.
func (e *LostError) Error() string { return e.Problem.Error() }

// Unwrap returns the problem.
func (e *LostError) Unwrap() error { return &e.Problem }

// Winner returns the assignee of a handoff if err refuses a late step, or "".
func Winner(err error) federation.DID {
	if lost, ok := errors.AsType[*LostError](err); ok {
		return lost.Assignee
	}
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if ok && (refused.Code == federation.IllegalStep || refused.Code == federation.TerminalHandoff) {
		return refused.View.Assignee
	}
	return ""
}

// Forbidden returns the problem of a caller without permission.
func Forbidden(detail string) error {
	return &bridge.ProblemError{Status: http.StatusForbidden, Code: bridge.CodeForbidden, Detail: detail}
}

// Unauthorized returns the problem of an unknown caller.
func Unauthorized(detail string) error {
	return &bridge.ProblemError{Status: http.StatusUnauthorized, Code: bridge.CodeUnauthorized, Detail: detail}
}

// Conflict returns the problem of a request that contradicts the record.
func Conflict(detail string) error {
	return &bridge.ProblemError{Status: http.StatusConflict, Code: CodeConflict, Detail: detail}
}

// TooMany refuses a caller over its limit per minute.
func TooMany(has bridge.Allowance) error {
	return &federation.RefusalError{Code: federation.RateLimited, RetryAfter: time.Minute / time.Duration(has.Limit)}
}

// errNone does not reveal whether a hidden handoff exists.
func errNone() error { return &federation.RefusalError{Code: federation.UnknownHandoff} }

// ProblemOf is [bridge.ProblemOf] plus the errors of credentials and inboxes.
func ProblemOf(err error) bridge.ProblemError {
	switch {
	case errors.Is(err, federation.ErrLeaseLost):
		err = Conflict("the lease has expired: the entry was leased again, or is no longer pending")
	case errors.Is(err, federation.ErrTooManyDevices):
		err = Conflict("the maximum number of devices is reached: " + strconv.Itoa(federation.MaxDevices))
	case errors.Is(err, credential.ErrTokenExpired):
		err = Unauthorized("this token has expired")
	case errors.Is(err, credential.ErrSession), errors.Is(err, federation.ErrSessionEnded):
		err = Unauthorized("the session of this token has ended")
	case errors.Is(err, credential.ErrToken):
		err = Unauthorized("this token is not valid here")
	case errors.Is(err, credential.ErrNoToken):
		err = Unauthorized("a token is needed: Authorization: Bearer …")
	case errors.Is(err, credential.ErrPairing):
		err = Unauthorized("this pairing code is unknown, used or expired; ask for another")
	case errors.Is(err, credential.ErrChallenge):
		err = Unauthorized("this challenge was not issued for this DID, or was used before")
	case errors.Is(err, credential.ErrChallengeExpired):
		err = Unauthorized("this challenge has expired; ask for another")
	}
	return bridge.ProblemOf(err)
}

// Retryable reports whether the same request may succeed later.
func Retryable(p bridge.ProblemError) bool {
	return p.Status == http.StatusTooManyRequests || p.Status >= http.StatusInternalServerError
}
