package airc

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"baton/federation"
)

// ErrTooLarge is wrapped in errors of a [Fetcher] where there is more of an answer than
// one reads.
var ErrTooLarge = errors.New("airc: answer too large")

// ErrElsewhere is wrapped in errors of [Fetcher.Get] when a host redirects to another one.
var ErrElsewhere = errors.New("airc: answer is elsewhere")

// Why an answer of another registry is of no use: reasons of the counter of what could
// not be read. One that does not answer at all is none of these.
const (
	unusableJSON      = "json"     // none, none of a kind that one reads, or one with two meanings
	unusableSize      = "size"     // more than one reads
	unusableElsewhere = "redirect" // it names another host, or a place that is none
	unusableSlow      = "slow"     // not whole in time
	unusableKey       = "key"      // cannot be read, or is not the one in DNS
)

// uselessError is an answer of another registry that was read and is of no use.
type uselessError struct{ reason, why string }

// Error implements error.
func (e *uselessError) Error() string { return e.why }

// useless says that an answer of a registry is of no use. The next one may be.
func useless(domain, reason, why string) error {
	return &federation.UnavailableError{What: "registry " + domain, Err: &uselessError{reason, why}}
}

// unusable returns why an answer is of no use, "" where there was none.
func unusable(err error) string {
	if e, ok := errors.AsType[*uselessError](err); ok {
		return e.reason
	}
	switch {
	case errors.Is(err, ErrTooLarge):
		return unusableSize
	case errors.Is(err, ErrElsewhere):
		return unusableElsewhere
	case errors.Is(err, context.DeadlineExceeded):
		return unusableSlow
	}
	return ""
}

// noteUnusable counts and logs an unusable answer of another registry, without the content
// of the answer. The rate of requests bounds the number of lines.
func (l *Link) noteUnusable(ctx context.Context, domain string, err error) {
	reason := unusable(err)
	if reason == "" || ctx.Err() != nil {
		return
	}
	l.deps.Metrics.BadInput.WithLabelValues(network, network, reason).Inc()
	l.deps.Log.LogAttrs(ctx, slog.LevelInfo, "answer of a registry not used", slog.String("network", network), slog.String("link", network),
		slog.String("peer", domain), slog.String("reason", reason), slog.Any("err", err))
}

// readDocument reads JSON of another registry that everybody reads alike.
func readDocument(text []byte, into any) error {
	if err := federation.ExactJSON(text); err != nil {
		return err
	}
	return federation.DecodeJSON(text, into)
}

// push sends JSON to another registry. Its errors are as for [Fetcher.Post]. The caller
// interprets the answer, an unusable one too.
func (l *Link) push(ctx context.Context, p peer, address string, body []byte) (Reply, error) {
	reply, err := l.deps.Fetch.Post(ctx, address, body)
	switch {
	case err != nil:
		l.noteUnusable(ctx, p.Domain, err)
	case reply.Status >= http.StatusMultipleChoices && reply.Status < http.StatusBadRequest:
		l.noteUnusable(ctx, p.Domain, useless(p.Domain, unusableElsewhere, "it answered with a redirect"))
	case !json.Valid(reply.Body):
		l.noteUnusable(ctx, p.Domain, useless(p.Domain, unusableJSON, "it answered no JSON"))
	}
	return reply, err
}
