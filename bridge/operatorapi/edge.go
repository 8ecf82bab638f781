package operatorapi

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"baton/bridge/stepbuilder"
	"baton/federation"
)

// The codes of a problem that are no refusals.
const (
	CodeUsage       = "usage"       // the request cannot be meant
	CodeNotFound    = "not-found"   // what it names is not there
	CodeUnavailable = "unavailable" // not now
	CodeFailed      = "failed"      // anything else
)

// ProblemError is how an error is told.
//
// spec: RFC 9457 §3
type ProblemError struct {
	Status     int    `json:"status"`
	Title      string `json:"title"`
	Detail     string `json:"detail"`
	Code       string `json:"code"`        // of a refusal, or one of the above
	RetryAfter int    `json:"retry_after"` // seconds; 0 where nobody knows
}

// Error implements error.
func (p *ProblemError) Error() string { return p.Detail }

// usage is the problem of a request that cannot be meant.
func usage(detail string) error {
	return &ProblemError{Status: http.StatusBadRequest, Code: CodeUsage, Detail: detail}
}

// tell answers with an error.
func (o *Operator) tell(w http.ResponseWriter, r *http.Request, err error) {
	p := ProblemOf(err)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		o.deps.Refused(refused.Code)
	}
	if p.Status >= http.StatusInternalServerError {
		o.deps.Log.LogAttrs(r.Context(), slog.LevelError, "operator not answered", slog.String("network", network),
			slog.String("path", r.URL.Path), slog.Any("err", err))
	}
	text, err := json.Marshal(p)
	if err != nil {
		p.Status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	if p.Code == CodeUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n')) // the client is gone
}

// ProblemOf returns how an error is told. What it does not know is a mistake of
// ours, and told without its text.
func ProblemOf(err error) ProblemError {
	p := ProblemError{Status: http.StatusInternalServerError, Code: CodeFailed, Detail: "something went wrong here; the log has it"}
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	away, isAway := errors.AsType[*federation.UnavailableError](err)
	told, isTold := errors.AsType[*ProblemError](err)
	unmeant, isUnmeant := errors.AsType[*stepbuilder.RequestError](err)
	switch {
	case isTold:
		p = *told
	case isUnmeant:
		p = ProblemError{Status: http.StatusBadRequest, Code: CodeUsage, Detail: unmeant.Why}
	case isRefusal:
		p = ProblemError{Status: status(refused.Code), Code: string(refused.Code), Detail: refused.Sentence(), RetryAfter: seconds(refused.RetryAfter)}
	case isAway:
		p = ProblemError{Status: http.StatusServiceUnavailable, Code: CodeUnavailable, Detail: away.What + " is unavailable; try again", RetryAfter: seconds(away.RetryAfter)}
	case errors.Is(err, federation.ErrUnknownCursor):
		p = ProblemError{Status: http.StatusBadRequest, Code: CodeUsage, Detail: "this cursor was never given out here: start without one"}
		if unknown, ok := errors.AsType[*federation.CursorError](err); ok && unknown.Newest != "" {
			p.Detail += ", or go on from " + string(unknown.Newest)
		}
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// seconds rounds up: whoever waits so long does not come too early.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// status returns what HTTP says of a refusal.
//
// spec: handofftag "The client's side"
func status(code federation.RefusalCode) int {
	switch code {
	case federation.NeedSignature, federation.SignatureInvalid, federation.AccountRequired:
		return http.StatusUnauthorized
	case federation.SignatureUnverifiable: // there was no room for it to wait: it is to come again
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
