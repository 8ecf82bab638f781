package main

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
func (p *program) openTraces(ctx context.Context) (err error) {
	if tracing.Wanted() {
		p.traces, err = tracing.Open(ctx, p.homeID(), buildVersion().Version, p.log)
	}
	return err
}

// tracer returns what records the traces of steps, nil where none are recorded.
func (p *program) tracer() bridge.Tracer {
	if p.traces == nil {
		return nil
	}
	return p.traces
}

// tracesBetweenHomes returns what carries traces to other homes, nil where none are recorded.
func (p *program) tracesBetweenHomes() relay.Traces {
	if p.traces == nil {
		return nil
	}
	return p.traces
}

// homeLog returns the log of the home, which records traces where the environment configures that.
func (p *program) homeLog() home.Log {
	if p.traces == nil {
		return p.record
	}
	return tracedLog{p.record, p.traces}
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
	l.traces.Filed(ctx, f, err, start)
	return entry, err
}
