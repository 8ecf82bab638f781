package server

import (
	"context"
	"time"

	"baton/bridge"
	"baton/bridge/tracing"
	"baton/federation"
	"baton/federation/home"
	"baton/federation/relay"
)

// openTraces begins to record traces where the environment configures that.
func (s *Server) openTraces(ctx context.Context) (err error) {
	if tracing.Wanted() {
		s.traces, err = tracing.Open(ctx, s.homeID(), s.options.Version, s.log)
	}
	return err
}

// tracer returns what records the traces of steps, nil where none are recorded.
func (s *Server) tracer() bridge.Tracer { //nolint:ireturn // a nil pointer in the interface would look like one
	if s.traces == nil {
		return nil
	}
	return s.traces
}

// tracesBetweenHomes returns what carries traces to other homes, nil where none are recorded.
func (s *Server) tracesBetweenHomes() relay.Traces { //nolint:ireturn // a nil pointer in the interface would look like one
	if s.traces == nil {
		return nil
	}
	return s.traces
}

// commitLog is the log of the home.
type commitLog struct {
	home.Log

	links  *LinkSet
	traces *tracing.Tracer // nil records none
}

// Append implements [home.Log]. A filing counts the first attempts at the links that show a step
// at most once. These links learn before it that the attempts are still to be made: they may read
// their outbox right after it.
func (l commitLog) Append(ctx context.Context, f federation.Filing) (federation.Entry, error) {
	start := time.Now()
	l.links.expect(f.Event.ID, f.Once)
	entry, err := l.Log.Append(ctx, f)
	if l.traces != nil && (err != nil || entry.Filed.Equal(f.Filed)) { // else it was on file before
		l.traces.Filed(ctx, f, err, start)
	}
	return entry, err
}
