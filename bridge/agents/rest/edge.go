package rest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/federation"
)

func usage(detail string) error {
	return bridge.UsageProblem(detail)
}

func problemOf(err error) bridge.ProblemError {
	other, isOther := errors.AsType[*methodError](err)
	if isOther {
		return bridge.ProblemError{Status: http.StatusMethodNotAllowed, Title: http.StatusText(http.StatusMethodNotAllowed), Code: bridge.CodeUsage, Detail: other.Error()}
	}
	return participant.ProblemOf(err)
}

func shape(p bridge.ProblemError) contract.Problem {
	return contract.Problem{
		Type: "about:blank", Title: p.Title, Status: p.Status, Detail: p.Detail, Code: p.Code, RetryAfter: p.RetryAfter,
		Retryable: participant.Retryable(p),
	}
}

func (l *Link) writeError(w http.ResponseWriter, r *http.Request, err error) {
	l.fail(r.Context(), w, r.URL.Path, err)
}

func (l *Link) fail(ctx context.Context, w http.ResponseWriter, path string, err error) {
	p := problemOf(err)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		l.deps.Metrics.Refusals.WithLabelValues(network, refused.Code.Upper()).Inc()
	}
	if other, ok := errors.AsType[*methodError](err); ok {
		w.Header().Set("Allow", strings.Join(other.allowed, ", "))
	}
	if _, replayed := errors.AsType[*participant.ReplayedError](err); replayed {
		w.Header().Set(participant.ReplayedHeader, "true")
	}
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests:
		l.deps.Metrics.Limited.WithLabelValues(network).Inc()
	}
	l.logProblem(ctx, path, p, err)
	problem := shape(p)
	problem.Candidates = participant.CandidatesOf(err)
	writeProblem(w, problem)
}

func (l *Link) logProblem(ctx context.Context, path string, p bridge.ProblemError, err error) {
	if p.Status >= http.StatusInternalServerError && ctx.Err() == nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelError, "request not answered", slog.String("network", network),
			slog.String("link", network), slog.String("path", path), slog.Any("err", err))
	}
}

func writeProblem(w http.ResponseWriter, p contract.Problem) {
	text, err := json.Marshal(p)
	if err != nil {
		p.Status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/problem+json")
	bridge.RetryHeader(w.Header(), p.Status, p.RetryAfter)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}
