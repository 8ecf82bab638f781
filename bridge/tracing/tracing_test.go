package tracing_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/tracing"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

func TestTracerNeedsACollector(t *testing.T) {
	for name, c := range map[string]struct {
		environment map[string]string
		want        bool
	}{
		"nothing":                   {nil, false},
		"an exporter, no collector": {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, false},
		"a collector":               {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c.test"}, true},
		"a collector of traces":     {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c.test"}, true},
		"turned off":                {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c.test", "OTEL_SDK_DISABLED": "true"}, false},
		"no exporter":               {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c.test", "OTEL_TRACES_EXPORTER": "none"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range c.environment {
				t.Setenv(key, value)
			}
			if got := tracing.Wanted(); got != c.want {
				t.Errorf("wanted is %t, want %t", got, c.want)
			}
		})
	}
}

func TestTracerNamesAnUnsupportedProtocol(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	_, err := tracing.Open(t.Context(), "a.test", "1", slog.New(slog.DiscardHandler))
	if want := `OTEL_EXPORTER_OTLP_PROTOCOL is "grpc": want "http/protobuf" or no value`; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

// pair is the tracers of two homes that export to one collector.
type pair struct {
	*bridgetest.TraceCollector

	a, b *tracing.Tracer
}

func newPair(t *testing.T) pair {
	t.Helper()
	p := pair{TraceCollector: bridgetest.NewTraceCollector()}
	t.Cleanup(p.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", p.URL)
	p.a, p.b = open(t, "a.test"), open(t, "b.test")
	return p
}

func open(t *testing.T, home federation.HomeID) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.Open(t.Context(), home, "1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

// link is a link to another home that delivers nothing.
type link struct{ bridge.Link }

func (link) Name() string    { return "b.test" }
func (link) Network() string { return "home" }

// filing is an offer in a handoff of the first home.
func filing() federation.Filing {
	ev := federationtest.Offer(1, "did:key:alice", "did:key:scout")
	ev.ID = ev.Handoff
	return federation.Filing{Event: ev, View: federation.View{ID: ev.Handoff, Home: "a.test"}, Fanout: federation.Fanout{Topics: []string{bridge.InboxTopic("scout")}}}
}

func judgedAs(f federation.Filing, err error) bridge.Judged {
	return bridge.Judged{Event: f.Event, Judgement: federation.Judgement{Entry: federation.Entry{Event: f.Event}}, Err: err, Start: time.Now()}
}

func TestTraceOfAStepSpansTwoHomes(t *testing.T) {
	p, f := newPair(t), filing()
	p.a.Filed(t.Context(), f, nil, time.Now())
	p.a.Submitted(t.Context(), judgedAs(f, nil))
	delivering, end := p.a.Delivering(t.Context(), link{}, federation.Delivery{Entry: federation.Entry{Event: f.Event, Version: 1}, View: f.View})
	header := p.a.Parent(delivering, f.Event.ID)
	end(nil)
	arrived := p.b.Join(t.Context(), header)
	p.b.Filed(arrived, f, nil, time.Now())
	p.b.RecordRuling(arrived, judgedAs(f, nil))
	p.a.Close()
	p.b.Close()
	spans := p.Of(f.Event.ID)
	judged, sent := find(spans, "a.test", "judge"), find(spans, "a.test", "deliver")
	taken, kept := find(spans, "b.test", "judge"), find(spans, "b.test", "file")
	if len(spans) != 7 || judged.Parent != "" || sent.Parent != judged.ID || find(spans, "a.test", "file").Parent != judged.ID ||
		taken.Parent != sent.ID || kept.Parent != taken.ID || find(spans, "b.test", "inbox").Parent != kept.ID {
		t.Errorf("the spans are %+v", spans)
	}
}

func find(spans []bridgetest.Span, home, name string) bridgetest.Span {
	for _, s := range spans {
		if s.Home == home && s.Name == name {
			return s
		}
	}
	return bridgetest.Span{}
}

// A span id must be unique: a step that comes twice is judged in two spans, and so is a refused
// one.
func TestTraceOfARepeatedStepHasItsOwnSpan(t *testing.T) {
	p, f := newPair(t), filing()
	again := judgedAs(f, nil)
	again.Judgement.Duplicate = true
	for _, j := range []bridge.Judged{
		judgedAs(f, nil), again, again, judgedAs(f, federation.Refuse(f.Event, federation.PolicyDenied, "no")), judgedAs(f, errors.New("away")),
	} {
		p.a.Submitted(t.Context(), j)
	}
	p.a.Close()
	ids, failed := map[string]bool{}, 0
	for _, s := range p.Of(f.Event.ID) {
		ids[s.ID] = true
		if s.Failed {
			failed++
		}
	}
	if len(ids) != 5 || failed != 2 {
		t.Errorf("%d ids, %d failed, want 5 and 2", len(ids), failed)
	}
}

// A header of another home decides nothing: one that cannot be read, or is of another step, is no parent.
func TestTraceIgnoresForgedHeaders(t *testing.T) {
	p, f := newPair(t), filing()
	for _, header := range []string{"garbage", "00-00000000000000000000000000000000-0000000000000000-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		p.a.RecordRuling(p.a.Join(t.Context(), header), judgedAs(f, errors.New("away")))
	}
	p.a.Close()
	spans := p.Of(f.Event.ID)
	for _, s := range spans {
		if s.Parent != "" {
			t.Errorf("the parent is %s", s.Parent)
		}
	}
	if len(spans) != 3 {
		t.Errorf("%d spans, want 3", len(spans))
	}
}

func TestTracerShutdownIgnoresADeadCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+federationtest.FreeAddr(t))
	tracer := open(t, "a.test")
	tracer.Submitted(context.Background(), judgedAs(filing(), nil))
	start := time.Now()
	tracer.Close()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the end took %s", took)
	}
}
