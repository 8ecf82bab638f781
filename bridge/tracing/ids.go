package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"baton/federation"
)

// role is what a span does that others are children of.
type role string

// The roles.
const (
	submitted role = "submit"
	ruled     role = "ruled"
)

// rootOf returns the role of the span below which the deliveries of a step are: a home files the
// steps of its own handoffs itself, and steps of other handoffs by the rulings of their homes.
func (t *Tracer) rootOf(home federation.HomeID) role {
	if home == t.home {
		return submitted
	}
	return ruled
}

// derived returns the span of a step that has a role at this home.
func (t *Tracer) derived(step federation.EventID, r role) trace.SpanContext {
	digest := sha256.Sum256([]byte(string(t.home) + "\n" + string(r) + "\n" + step.String()))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(step), SpanID: trace.SpanID(digest[:8]), TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

// wishKey is the key of the ids that the next span gets.
type wishKey struct{}

// wish returns ctx with the trace, and the span id where it is not zero, of a span that is started with it.
func wish(ctx context.Context, span trace.SpanContext) context.Context {
	return context.WithValue(ctx, wishKey{}, span)
}

// ids gives spans the ids that were wished, and random ids otherwise. It implements the
// IDGenerator of the SDK.
type ids struct{}

// NewIDs returns the ids of a span without a parent.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	wished, _ := ctx.Value(wishKey{}).(trace.SpanContext)
	id := wished.TraceID()
	if !id.IsValid() {
		_, _ = rand.Read(id[:]) // never fails
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID returns the id of a span in a trace.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	wished, _ := ctx.Value(wishKey{}).(trace.SpanContext)
	id := wished.SpanID()
	if !id.IsValid() {
		_, _ = rand.Read(id[:]) // never fails
	}
	return id
}

// header is the name of the W3C header in a carrier.
const header = "traceparent"

// Parent returns the value of the header traceparent for a step that is sent to another home: the span that
// ctx has, or the one in which the step was judged here.
func (t *Tracer) Parent(ctx context.Context, step federation.EventID) string {
	if now := trace.SpanContextFromContext(ctx); now.TraceID() != trace.TraceID(step) {
		ctx = trace.ContextWithSpanContext(ctx, t.derived(step, submitted))
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get(header)
}

// arrivedKey is the key of the span that another home named.
type arrivedKey struct{}

// Join returns ctx with the span that the header traceparent of another home names. A header that cannot be
// read names none.
func (*Tracer) Join(ctx context.Context, parent string) context.Context {
	named := propagation.TraceContext{}.Extract(context.WithoutCancel(ctx), propagation.MapCarrier{header: parent})
	return context.WithValue(ctx, arrivedKey{}, trace.SpanContextFromContext(named))
}
