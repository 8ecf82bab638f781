// Package tracing exports the steps of a gateway as OpenTelemetry traces, over OTLP. It is the only
// package that uses OpenTelemetry.
//
// Each step is one trace. The trace ID is the step ID: both have 16 bytes, and a step has the same ID
// at every home and on every network. So the spans of all homes and replicas, and of attempts after a
// restart, form one trace without any stored state. The spans:
//
//	judge     a step arrived, and was filed, refused, or kept until its key arrives
//	file      the record wrote the step, with its inboxes and deliveries
//	inbox     the step is in the inbox of an agent of the registry, or of a DID
//	deliver   one attempt to deliver the step to a link or to another home
//
// The ID of a parent span is derived from the home and the step. A delivery hours later, at another
// replica, can therefore name its parent. Between homes, the header traceparent has the span of the
// delivery, for the first step of a message. No signature covers it, and no decision depends on it.
//
// # Configuration
//
// The standard OTEL_* variables configure the tracer. Nothing is recorded unless
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, or if OTEL_SDK_DISABLED is
// true or OTEL_TRACES_EXPORTER is none. The sampler "traceidratio" makes the same choice for a step at
// each home.
package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

const closeTime = time.Second

// complainEach is the minimum interval between log lines about a collector that accepts no spans.
const complainEach = time.Minute

// Tracer exports spans. It implements [bridge.Tracer].
type Tracer struct {
	home   federation.HomeID
	tracer trace.Tracer
	flush  func()
}

// Wanted reports whether the environment configures an exporter of traces.
func Wanted() bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Open returns a tracer configured by the environment. It does no I/O, so an unreachable collector only
// loses spans. The error names a variable with an unsupported value.
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
	// OpenTelemetry has one error handler per process.
	var last atomic.Int64 // unix nanoseconds
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		now := time.Now().UnixNano()
		if before := last.Load(); now-before > int64(complainEach) && last.CompareAndSwap(before, now) {
			log.LogAttrs(context.WithoutCancel(ctx), slog.LevelWarn, "traces not exported", slog.Any("err", err))
		}
	}))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithIDGenerator(ids{}), sdktrace.WithResource(described))
	flush := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime) // the gateway is stopping
		defer cancel()
		_ = provider.Shutdown(ctx) // a dead collector loses the last spans
	}
	return &Tracer{home: home, tracer: provider.Tracer("baton"), flush: flush}, nil
}

// Close exports the recorded spans, for at most [closeTime]. A nil tracer does nothing.
func (t *Tracer) Close() {
	if t != nil {
		t.flush()
	}
}

var _ bridge.Tracer = (*Tracer)(nil)

// Submitted implements [bridge.Tracer].
func (t *Tracer) Submitted(ctx context.Context, j bridge.Judged) { t.judged(ctx, j, submitted) }

// RecordRuling implements [bridge.Tracer].
func (t *Tracer) RecordRuling(ctx context.Context, j bridge.Judged) { t.judged(ctx, j, ruled) }

// A step without an ID gets one while it is judged.
func (t *Tracer) judged(ctx context.Context, j bridge.Judged, r role) {
	ev := j.Event
	if filed := j.Judgement.Entry.Event; !filed.ID.IsZero() {
		ev.ID = filed.ID
	}
	outcome, kept := outcomeOf(j)
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(ev.ID)})
	if kept { // a repeated or refused step has no children
		span = t.derived(ev.ID, r)
	}
	if parent, ok := ctx.Value(arrivedKey{}).(trace.SpanContext); ok && parent.TraceID() == span.TraceID() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	} else {
		ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	}
	attributes := append(stepAttributes(ev), attribute.String("outcome", outcome), attribute.String("verdict", j.Judgement.Verdict.String()))
	t.record(wish(ctx, span), "judge", trace.SpanKindServer, j.Start, j.Err, attributes)
}

func outcomeOf(j bridge.Judged) (outcome string, kept bool) {
	refused, isRefusal := errors.AsType[*federation.RefusalError](j.Err)
	switch {
	case isRefusal && refused.Waits, j.Err == nil && j.Judgement.Awaits:
		return "deferred", true
	case isRefusal:
		return "refused", false
	case j.Err != nil:
		return "unavailable", false
	case j.Judgement.Duplicate:
		return "duplicate", false
	}
	return "filed", true
}

// Filed records that the record wrote a step or failed to, and the inboxes that now contain it.
func (t *Tracer) Filed(ctx context.Context, f federation.Filing, err error, start time.Time) {
	root := t.derived(f.Event.ID, t.rootOf(f.View.Home))
	links := attribute.StringSlice("deliveries", f.Links)
	if f.Event.From == t.home.DID() { // a step of the home itself, without a source
		ctx = wish(trace.ContextWithSpanContext(ctx, trace.SpanContext{}), root)
	} else {
		ctx = wish(trace.ContextWithRemoteSpanContext(ctx, root), trace.SpanContext{})
	}
	filed := t.record(ctx, "file", trace.SpanKindInternal, start, err, append(stepAttributes(f.Event), links))
	if err != nil {
		return
	}
	below := wish(trace.ContextWithRemoteSpanContext(ctx, filed), trace.SpanContext{})
	for _, topic := range f.Topics {
		if handle, ok := strings.CutPrefix(topic, bridge.InboxTopic("")); ok {
			t.record(below, "inbox", trace.SpanKindInternal, start, nil, []attribute.KeyValue{attribute.String("network", "airc"), attribute.String("agent", handle)})
		}
	}
	for _, did := range f.Inboxes {
		t.record(below, "inbox", trace.SpanKindInternal, start, nil, []attribute.KeyValue{attribute.String("did", string(did))})
	}
}

// Delivering implements [bridge.Tracer]. A receipt is not a step, so it has no trace.
func (t *Tracer) Delivering(ctx context.Context, link bridge.Link, d federation.Delivery) (delivering context.Context, end func(error)) {
	if d.Entry.Version == 0 {
		return ctx, func(error) {}
	}
	root := t.derived(d.Entry.Event.ID, t.rootOf(d.View.Home))
	ctx, span := t.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, root), "deliver", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("network", link.Network()), attribute.String("link", link.Name()), attribute.Int("attempt", d.Attempt+1),
		attribute.String("handoff_id", d.View.ID.String()), attribute.String("event_id", d.Entry.Event.ID.String()),
		attribute.String("verb", string(d.Entry.Event.Verb)), attribute.Int64("waited_ms", time.Since(d.Entry.Filed).Milliseconds()),
	))
	return ctx, func(err error) {
		recordError(span, err)
		span.End()
	}
}

func (t *Tracer) record(ctx context.Context, name string, kind trace.SpanKind, start time.Time, err error, attributes []attribute.KeyValue) trace.SpanContext {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(start), trace.WithSpanKind(kind), trace.WithAttributes(attributes...))
	recordError(span, err)
	span.End()
	return span.SpanContext()
}

func recordError(span trace.Span, err error) {
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		span.SetAttributes(attribute.String("code", string(refused.Code)))
	}
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
}

// The names are those in the log.
func stepAttributes(ev federation.Event) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("network", ev.Arrival.Network), attribute.String("link", ev.Arrival.Link),
		attribute.String("handoff_id", ev.Handoff.String()), attribute.String("event_id", ev.ID.String()),
		attribute.String("verb", string(ev.Verb)), attribute.String("did", string(ev.From)),
	}
}

type role string

const (
	submitted role = "submit"
	ruled     role = "ruled"
)

// rootOf returns the role of the parent span of a step's deliveries. A home files steps of its own
// handoffs when they are submitted, and steps of other handoffs when their home has ruled.
func (t *Tracer) rootOf(home federation.HomeID) role {
	if home == t.home {
		return submitted
	}
	return ruled
}

func (t *Tracer) derived(step federation.EventID, r role) trace.SpanContext {
	digest := sha256.Sum256([]byte(string(t.home) + "\n" + string(r) + "\n" + step.String()))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(step), SpanID: trace.SpanID(digest[:8]), TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

type wishKey struct{}

// wish returns ctx with the trace ID of the next span and, unless zero, its span ID.
func wish(ctx context.Context, span trace.SpanContext) context.Context {
	return context.WithValue(ctx, wishKey{}, span)
}

// ids returns the IDs set by wish, or else random IDs. It implements the IDGenerator of the SDK.
type ids struct{}

// NewIDs returns the IDs of a span without a parent.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	wished, _ := ctx.Value(wishKey{}).(trace.SpanContext)
	id := wished.TraceID()
	if !id.IsValid() {
		_, _ = rand.Read(id[:]) // never fails
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID returns the ID of a span in a trace.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	wished, _ := ctx.Value(wishKey{}).(trace.SpanContext)
	id := wished.SpanID()
	if !id.IsValid() {
		_, _ = rand.Read(id[:]) // never fails
	}
	return id
}

const header = "traceparent"

// Parent returns the traceparent of a step sent to another home: the span in ctx, or else the span
// in which the step was judged here.
func (t *Tracer) Parent(ctx context.Context, step federation.EventID) string {
	if now := trace.SpanContextFromContext(ctx); now.TraceID() != trace.TraceID(step) {
		ctx = trace.ContextWithSpanContext(ctx, t.derived(step, submitted))
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get(header)
}

type arrivedKey struct{}

// Join returns ctx with the span in another home's traceparent, if valid.
func (*Tracer) Join(ctx context.Context, parent string) context.Context {
	named := propagation.TraceContext{}.Extract(context.WithoutCancel(ctx), propagation.MapCarrier{header: parent})
	return context.WithValue(ctx, arrivedKey{}, trace.SpanContextFromContext(named))
}
