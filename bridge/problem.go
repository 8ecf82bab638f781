package bridge

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Codes of problems other than refusals.
const (
	CodeUsage         = "usage"
	CodeNotFound      = "not-found" // the named object does not exist
	CodeUnknownName   = "unknown-name"
	CodeAmbiguousName = "ambiguous-name"
	CodeUnauthorized  = "unauthorized" // the caller is not authenticated
	CodeForbidden     = "forbidden"
	CodeUnavailable   = "unavailable"
	CodeFailed        = "failed"
)

// unavailableAfter is the Retry-After for an outage of unknown length.
const unavailableAfter = 5 * time.Second

// ProblemError is an error in the form of the HTTP APIs.
//
// spec: RFC 9457 §3
type ProblemError struct {
	Status     int    `json:"status"`
	Title      string `json:"title"`
	Detail     string `json:"detail"`
	Code       string `json:"code"`        // of a refusal, or usage, not-found, unauthorized, forbidden, rate-limited, unavailable, failed
	RetryAfter int    `json:"retry_after"` // in seconds; 0 if it is unknown
}

func (p *ProblemError) Error() string { return p.Detail }

// UsageProblem returns the problem of a malformed request.
func UsageProblem(detail string) error {
	return &ProblemError{Status: http.StatusBadRequest, Code: CodeUsage, Detail: detail}
}

// OneLine returns the text of an error on one line.
func OneLine(err error) string {
	return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
}

// ProblemOf returns the problem of an error. It hides the text of an unknown error, which is a bug
// of the gateway.
func ProblemOf(err error) ProblemError {
	p := ProblemError{Status: http.StatusInternalServerError, Code: CodeFailed, Detail: "internal error; see the log of the gateway"}
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	away, isAway := errors.AsType[*federation.UnavailableError](err)
	told, isTold := errors.AsType[*ProblemError](err)
	switch {
	case isTold:
		p = *told
	case isRefusal:
		p = ProblemError{Status: statusOf(refused.Code), Code: string(refused.Code), Detail: refused.Sentence(), RetryAfter: retrySeconds(refused.RetryAfter)}
	case isAway:
		p = ProblemError{Status: http.StatusServiceUnavailable, Code: CodeUnavailable, Detail: away.What + " is unavailable; try again", RetryAfter: retrySeconds(away.RetryAfter)}
	case errors.Is(err, federation.ErrUnknownCursor):
		p = ProblemError{Status: http.StatusBadRequest, Code: CodeUsage, Detail: "this cursor was not issued here: start without one"}
		if unknown, ok := errors.AsType[*federation.CursorError](err); ok && unknown.Newest != "" {
			p.Detail += ", or go on from " + string(unknown.Newest)
		}
	}
	if after := waitOf(p.Status); p.RetryAfter <= 0 {
		p.RetryAfter = retrySeconds(after)
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// RetryHeader sets the Retry-After header of a response. If seconds is 0, a 503 or a 429 gets the
// default delay, and other statuses get no header.
func RetryHeader(h http.Header, status, seconds int) {
	if seconds <= 0 {
		seconds = retrySeconds(waitOf(status))
	}
	if seconds > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
}

func waitOf(status int) time.Duration {
	switch status {
	case http.StatusServiceUnavailable:
		return unavailableAfter
	case http.StatusTooManyRequests:
		return time.Minute // the period of most rate limits
	}
	return 0
}

// retrySeconds rounds up, so that a client does not repeat its request too early.
func retrySeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// spec: handofftag "The client's side"
func statusOf(code federation.RefusalCode) int {
	switch code {
	case federation.NeedSignature, federation.SignatureInvalid, federation.AccountRequired:
		return http.StatusUnauthorized
	case federation.SignatureUnverifiable: // it could not be deferred: the client must resend it
		return http.StatusServiceUnavailable
	case federation.ActorMismatch, federation.WrongSender, federation.WrongVenue, federation.PolicyDenied, federation.MissingCapability:
		return http.StatusForbidden
	case federation.UnknownHandoff:
		return http.StatusNotFound
	case federation.IllegalStep, federation.TerminalHandoff, federation.DeadlinePassed, federation.EventIDInUse, federation.ReplacesNotTerminal:
		return http.StatusConflict
	case federation.QuotaExceeded, federation.InboxFull, federation.RateLimited:
		return http.StatusTooManyRequests
	case federation.UnknownVerb, federation.InvalidEventID, federation.EventIDClockSkew, federation.InvalidContext,
		federation.InvalidTarget, federation.InvalidTag, federation.WrongReference, federation.MissingRequirement,
		federation.DuplicateTag, federation.MixedTags, federation.UnknownKind:
	}
	return http.StatusBadRequest
}

// Document is a response sent byte for byte, because a signature covers it.
type Document struct {
	MediaType string
	Content   []byte
}
