package operatorapi

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"baton/bridge"
	"baton/federation"
)

// The codes of a problem, and the problem itself, come from package bridge.
const (
	CodeUsage        = bridge.CodeUsage
	CodeNotFound     = bridge.CodeNotFound
	CodeUnauthorized = bridge.CodeUnauthorized
	CodeForbidden    = bridge.CodeForbidden
	CodeUnavailable  = bridge.CodeUnavailable
	CodeFailed       = bridge.CodeFailed
)

type (
	// ProblemError is the error document of the API.
	ProblemError = bridge.ProblemError
	// Document is an answer that is served byte for byte.
	Document = bridge.Document
)

// usage is the problem of a malformed request.
func usage(detail string) error { return bridge.UsageProblem(detail) }

// tell answers a request with an error.
func (o *Operator) tell(w http.ResponseWriter, r *http.Request, err error) {
	p := bridge.ProblemOf(err)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		o.deps.Gateway.Refused(refused.Code)
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
	bridge.RetryHeader(w.Header(), p.Status, p.RetryAfter)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n')) // the client is gone
}
