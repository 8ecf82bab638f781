package airc

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"baton/bridge/airc/wire"
)

// judgedError marks the refusal of a step that the gateway judged, and therefore
// logged.
type judgedError struct{ error }

// Unwrap returns the refusal.
func (e judgedError) Unwrap() error { return e.error }

// note counts a request that was turned away and writes its one log line: for what
// a client can cause at will what it was told, for anything else what went wrong.
// A step that the gateway judged has its line already.
func (l *Link) note(ctx context.Context, route string, f wire.Failure, err error) {
	if f.Status < http.StatusInternalServerError {
		l.deps.Metrics.Refusals.WithLabelValues(wire.Network, string(f.Code)).Inc()
	}
	if f.Code == wire.CodeRateLimited {
		l.deps.Metrics.Limited.WithLabelValues(wire.Network).Inc()
	}
	if p, ok := errors.AsType[*wire.Problem](err); ok && p.Unreadable != "" {
		l.deps.Metrics.BadInput.WithLabelValues(wire.Network, wire.Network, p.Unreadable).Inc()
	}
	if _, judged := errors.AsType[judgedError](err); judged {
		return
	}
	level, why := slog.LevelInfo, f.Message
	if f.Status >= http.StatusInternalServerError {
		why = err.Error()
	}
	if f.Code == wire.CodeInternal {
		level = slog.LevelError
	}
	attrs := []slog.Attr{
		slog.String("network", wire.Network), slog.String("link", wire.Network), slog.String("route", route),
		slog.String("reason", string(f.Code)), slog.String("err", why),
	}
	if f.Handoff != nil {
		attrs = append(attrs, slog.String("handoff_id", f.Handoff.ID.String()))
	}
	l.deps.Log.LogAttrs(ctx, level, "request refused", attrs...)
}
