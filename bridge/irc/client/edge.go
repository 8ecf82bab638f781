package client

import (
	"context"
	"errors"
	"log/slog"

	"baton/federation"
)

// refTag says to clients that read tags which handoff a line is about.
//
// spec: handofftag "Humans"
const refTag = "+freeq.at/ref"

// internalError is the word for a failure of this gateway, which is no refusal.
const internalError = "INTERNAL_ERROR"

// answer is one of our errors in the words of this network.
type answer struct {
	code     string // second word, and label of the counter
	subject  string // id of the step, or "*"
	sentence string
}

// answerTo turns one of our errors into what a client is told. It is the only place in
// this package that does. The second result is false for an error that has no words
// here: a not-now, or the end of the program.
//
// spec: handofftag "The client's side"
func answerTo(err error) (answer, bool) {
	if r, ok := errors.AsType[*federation.RefusalError](err); ok {
		return answer{code: r.Code.Upper(), subject: r.Subject(), sentence: r.Sentence()}, true
	}
	if _, ok := errors.AsType[*federation.UnavailableError](err); ok || errors.Is(err, context.Canceled) {
		return answer{}, false
	}
	return answer{code: internalError, subject: "*", sentence: "the gateway could not judge the step"}, true
}

// refuse logs a refusal that the gateway never saw, and tells the client.
func (s *server) refuse(ctx context.Context, u *user, err error) {
	if r, ok := errors.AsType[*federation.RefusalError](err); ok {
		s.log.LogAttrs(ctx, slog.LevelInfo, "step refused", slog.String("event_id", r.Event.String()),
			slog.String("handoff_id", r.Handoff.String()), slog.String("reason", r.Error()))
	}
	s.tell(ctx, u, err)
}

// tell tells a client what became of a step that was refused.
func (s *server) tell(ctx context.Context, u *user, err error) {
	a, has := answerTo(err)
	if !has {
		return
	}
	metrics := s.link.ports.Metrics
	if a.code == internalError {
		s.log.LogAttrs(ctx, slog.LevelError, "step not judged", slog.Any("err", err))
	} else {
		metrics.Refusals.WithLabelValues(network, a.code).Inc()
	}
	if a.code == federation.RateLimited.Upper() {
		metrics.Limited.WithLabelValues(network).Inc()
	}
	s.fail(u, "TAGMSG", a.code, a.subject, a.sentence)
}
