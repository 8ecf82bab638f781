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

// homeLog returns the log of the home, which records traces where the environment configures that.
func (s *Server) homeLog() home.Log { //nolint:ireturn // traces decide which one it is
	if s.traces == nil {
		return s.Record
	}
	return tracedLog{s.Record, s.traces}
}

// tracedLog is a log whose filings are recorded.
type tracedLog struct {
	home.Log

	traces *tracing.Tracer
}

// Append implements [home.Log].
func (l tracedLog) Append(ctx context.Context, f federation.Filing) (federation.Entry, error) {
	start := time.Now()
	entry, err := l.Log.Append(ctx, f)
	if err != nil || entry.Filed.Equal(f.Filed) { // else it was on file before
		l.traces.Filed(ctx, f, err, start)
	}
	return entry, err
}
