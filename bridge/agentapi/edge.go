package agentapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"baton/bridge"
	"baton/bridge/agentapi/contract"
	"baton/bridge/credential"
	"baton/federation"
)

// The codes of problems that this API alone has.
const (
	codeConflict     = "conflict"
	codeOtherRequest = "idempotency-conflict" // the key was used for another request
)

func usage(detail string) error {
	return bridge.UsageProblem(detail)
}

func forbidden(detail string) error {
	return &bridge.ProblemError{Status: http.StatusForbidden, Code: bridge.CodeForbidden, Detail: detail}
}

func unauthorized(detail string) error {
	return &bridge.ProblemError{Status: http.StatusUnauthorized, Code: bridge.CodeUnauthorized, Detail: detail}
}

func conflict(detail string) error {
	return &bridge.ProblemError{Status: http.StatusConflict, Code: codeConflict, Detail: detail}
}

// tooMany is what is asked once too often of what comes by the minute.
func tooMany(has bridge.Allowance) error {
	return &federation.RefusalError{Code: federation.RateLimited, RetryAfter: time.Minute / time.Duration(has.Limit)}
}

// errNone refuses a handoff that the caller may not see. It does not reveal whether the
// handoff exists.
func errNone() error { return &federation.RefusalError{Code: federation.UnknownHandoff} }

// problemOf returns how an error is told.
func problemOf(err error) bridge.ProblemError {
	other, isOther := errors.AsType[*methodError](err)
	switch {
	case isOther:
		return bridge.ProblemError{Status: http.StatusMethodNotAllowed, Title: http.StatusText(http.StatusMethodNotAllowed), Code: bridge.CodeUsage, Detail: other.Error()}
	case errors.Is(err, federation.ErrLeaseLost):
		err = conflict("the lease holds no more: the entry was given out again, or does not wait")
	case errors.Is(err, federation.ErrTooManyDevices):
		err = conflict("there are as many devices as may be: " + strconv.Itoa(federation.MaxDevices))
	case errors.Is(err, credential.ErrTokenExpired):
		err = unauthorized("this token has expired")
	case errors.Is(err, credential.ErrToken):
		err = unauthorized("this token is not good here")
	case errors.Is(err, credential.ErrNoToken):
		err = unauthorized("a token is needed: Authorization: Bearer …")
	case errors.Is(err, credential.ErrChallenge):
		err = unauthorized("this challenge was not given out for this DID, or was used before")
	case errors.Is(err, credential.ErrChallengeExpired):
		err = unauthorized("this challenge has expired; ask for another")
	}
	return bridge.ProblemOf(err)
}

// shape returns a problem as the contract has it.
func shape(p bridge.ProblemError) contract.Problem {
	return contract.Problem{
		Type: "about:blank", Title: p.Title, Status: p.Status, Detail: p.Detail, Code: p.Code, RetryAfter: p.RetryAfter,
		Retryable: p.Status == http.StatusTooManyRequests || p.Status >= http.StatusInternalServerError,
	}
}

// tell answers a request with an error.
func (l *Link) tell(w http.ResponseWriter, r *http.Request, err error) {
	l.fail(r.Context(), w, r.URL.Path, err)
}

// fail answers with an error what was asked of a path.
func (l *Link) fail(ctx context.Context, w http.ResponseWriter, path string, err error) {
	p := problemOf(err)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		l.deps.Metrics.Refusals.WithLabelValues(network, refused.Code.Upper()).Inc()
	}
	if other, ok := errors.AsType[*methodError](err); ok {
		w.Header().Set("Allow", strings.Join(other.allowed, ", "))
	}
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests:
		l.deps.Metrics.Limited.WithLabelValues(network).Inc()
	}
	l.note(ctx, path, p, err)
	writeProblem(w, p)
}

// note logs a failure that the request did not cause.
func (l *Link) note(ctx context.Context, path string, p bridge.ProblemError, err error) {
	if p.Status >= http.StatusInternalServerError && ctx.Err() == nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelError, "request not answered", slog.String("network", network),
			slog.String("link", network), slog.String("path", path), slog.Any("err", err))
	}
}

func writeProblem(w http.ResponseWriter, p bridge.ProblemError) {
	text, err := json.Marshal(shape(p))
	if err != nil {
		p.Status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/problem+json")
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n')) // the client is gone
}
