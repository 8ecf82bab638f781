package tracing

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"baton/bridge"
	"baton/federation"
)

var _ bridge.Tracer = (*Tracer)(nil)

// Submitted implements [bridge.Tracer].
func (t *Tracer) Submitted(ctx context.Context, j bridge.Judged) { t.judged(ctx, j, submitted) }

// Ruled implements [bridge.Tracer].
func (t *Tracer) Ruled(ctx context.Context, j bridge.Judged) { t.judged(ctx, j, ruled) }

// judged records a judgement that is over: a step without an id gets one while it is judged.
func (t *Tracer) judged(ctx context.Context, j bridge.Judged, r role) {
	ev := j.Event
	if filed := j.Judgement.Entry.Event; !filed.ID.IsZero() {
		ev.ID = filed.ID
	}
	outcome, kept := outcomeOf(j)
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(ev.ID)})
	if kept { // a step that comes again, or is refused, has no children
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

// outcomeOf returns the outcome of a judgement as metrics name it, and whether the step is kept.
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

// Filed records that the record wrote a step, or could not, and the inboxes that have it now.
func (t *Tracer) Filed(ctx context.Context, f federation.Filing, err error, start time.Time) {
	root := t.derived(f.Event.ID, t.rootOf(f.View.Home))
	links := attribute.StringSlice("deliveries", f.Links)
	if f.Event.From == t.home.DID() { // a step of the home itself: it came from nowhere
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

// Delivering implements [bridge.Tracer]. A receipt is no step: it has no trace.
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
		note(span, err)
		span.End()
	}
}

// record records a span that is over, and returns it.
func (t *Tracer) record(ctx context.Context, name string, kind trace.SpanKind, start time.Time, err error, attributes []attribute.KeyValue) trace.SpanContext {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(start), trace.WithSpanKind(kind), trace.WithAttributes(attributes...))
	note(span, err)
	span.End()
	return span.SpanContext()
}

// note adds the result of its work to a span.
func note(span trace.Span, err error) {
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		span.SetAttributes(attribute.String("code", string(refused.Code)))
	}
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
}

// stepAttributes returns what each span says of its step, under the names of the log.
func stepAttributes(ev federation.Event) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("network", ev.Arrival.Network), attribute.String("link", ev.Arrival.Link),
		attribute.String("handoff_id", ev.Handoff.String()), attribute.String("event_id", ev.ID.String()),
		attribute.String("verb", string(ev.Verb)), attribute.String("did", string(ev.From)),
	}
}
