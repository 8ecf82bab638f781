package bridgetest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracespb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/federation"
)

// TraceCollector receives OTLP traces over HTTP.
type TraceCollector struct {
	URL string

	server *httptest.Server
	mu     sync.Mutex
	spans  []Span
}

// Span is a received span. IDs are hexadecimal.
type Span struct {
	Home, Name, ID, Parent, Trace string
	Attributes                    map[string]string
	Failed                        bool
}

// NewTraceCollector starts a collector. The caller closes it.
func NewTraceCollector() *TraceCollector {
	c := &TraceCollector{}
	c.server = httptest.NewServer(http.HandlerFunc(c.serve))
	c.URL = c.server.URL
	return c
}

// Close ends the collector.
func (c *TraceCollector) Close() { c.server.Close() }

func (c *TraceCollector) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	for _, of := range request.GetResourceSpans() {
		c.add(of)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *TraceCollector) add(of *tracespb.ResourceSpans) {
	c.mu.Lock()
	defer c.mu.Unlock()
	home := ""
	for _, attribute := range of.GetResource().GetAttributes() {
		if attribute.GetKey() == "service.namespace" {
			home = attribute.GetValue().GetStringValue()
		}
	}
	for _, scope := range of.GetScopeSpans() {
		for _, span := range scope.GetSpans() {
			s := Span{
				Home: home, Name: span.GetName(), ID: hex.EncodeToString(span.GetSpanId()), Parent: hex.EncodeToString(span.GetParentSpanId()),
				Trace: hex.EncodeToString(span.GetTraceId()), Attributes: map[string]string{}, Failed: span.GetStatus().GetCode() == tracespb.Status_STATUS_CODE_ERROR,
			}
			for _, attribute := range span.GetAttributes() {
				s.Attributes[attribute.GetKey()] = attribute.GetValue().GetStringValue()
			}
			c.spans = append(c.spans, s)
		}
	}
}

// Of returns the received spans of a step.
func (c *TraceCollector) Of(step federation.EventID) []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s Span) bool { return s.Trace != hex.EncodeToString(step[:]) })
}

// FindSpan returns the first span of a home with this name and attribute, or the zero Span.
func FindSpan(spans []Span, home, name, key, value string) Span {
	i := slices.IndexFunc(spans, func(s Span) bool { return s.Home == home && s.Name == name && s.Attributes[key] == value })
	if i < 0 {
		return Span{}
	}
	return spans[i]
}
