// Package tracing exports what a gateway does with steps as OpenTelemetry traces, over OTLP. It is
// the only package that uses OpenTelemetry.
//
// Each step is one trace, and the id of the trace is the id of the step: both have 16 bytes, and a
// step has one id at every home and on every network. So the spans of several homes and replicas,
// and of attempts after a restart, are one trace without any state. The spans:
//
//	judge     a step came in: verified, checked and filed, or refused, or kept until its key arrives
//	file      the record wrote it, with its inboxes and deliveries
//	inbox     the step is in the inbox of an agent of the registry, or of a DID
//	deliver   one attempt to deliver it to a link or to another home
//
// A span that others are children of has an id that is derived from the home and the step, so that a
// delivery that begins hours later, at another replica, names its parent. Between homes the header
// traceparent carries the span of the delivery. It belongs to the first step of a message; no
// signature covers it, and it decides nothing.
//
// # Configuration
//
// The variables OTEL_* configure it, as the specification of OpenTelemetry defines them. Nothing is
// recorded unless OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, or while
// OTEL_SDK_DISABLED is true or OTEL_TRACES_EXPORTER is none. The sampler "traceidratio" makes the same
// choice for a step at each home.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"baton/federation"
)

// closeTime is how long the end of a gateway waits for a collector.
const closeTime = time.Second

// complainEach is how often the log says that a collector takes no spans.
const complainEach = time.Minute

// Tracer exports spans. Open one with [Open]. It implements [bridge.Tracer].
type Tracer struct {
	home   federation.HomeID
	tracer trace.Tracer
	flush  func() // exports what was recorded
}

// Wanted reports whether the environment configures an exporter of traces.
func Wanted() bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Open returns a tracer that exports as the environment configures. It does no I/O: a collector that
// is down costs spans and nothing else. The error names a variable with a value that is not supported.
func Open(ctx context.Context, home federation.HomeID, version string, log *slog.Logger) (*Tracer, error) {
	for name, supported := range map[string]string{
		"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
	} {
		if value := os.Getenv(name); value != "" && value != supported {
			return nil, fmt.Errorf("%s is %q: want %q or no value", name, value, supported)
		}
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("configure the export of traces: %w", err)
	}
	described, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "baton"), attribute.String("service.version", version), attribute.String("service.namespace", string(home)),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("configure the export of traces: %w", err)
	}
	// OpenTelemetry has one place for errors in a process.
	var last atomic.Int64 // unix nanoseconds
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		now := time.Now().UnixNano()
		if before := last.Load(); now-before > int64(complainEach) && last.CompareAndSwap(before, now) {
			log.LogAttrs(context.WithoutCancel(ctx), slog.LevelWarn, "traces not exported", slog.Any("err", err))
		}
	}))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithIDGenerator(ids{}), sdktrace.WithResource(described))
	flush := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime) // the gateway ends
		defer cancel()
		_ = provider.Shutdown(ctx) // a collector that is down loses the last spans
	}
	return &Tracer{home: home, tracer: provider.Tracer("baton"), flush: flush}, nil
}

// Close exports what was recorded, for a second at most. A nil tracer has nothing to close.
func (t *Tracer) Close() {
	if t != nil {
		t.flush()
	}
}
