//go:build interop

package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracespb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"baton/federation"
)

// collected is the spans that a collector of OTLP received.
type collected struct {
	mu    sync.Mutex
	spans []exported
}

// exported is a span and the home that exported it.
type exported struct {
	*tracespb.Span

	home string
}

// newCollector serves OTLP over HTTP and has the gateways of this test export to it.
func newCollector(t *testing.T) *collected {
	t.Helper()
	c := &collected{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			http.Error(w, "not OTLP", http.StatusBadRequest)
			return
		}
		c.add(request.GetResourceSpans())
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { c.log(t) })
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
	return c
}

// log writes the spans into the log of a test that failed.
func (c *collected) log(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, span := range c.spans {
		if t.Failed() {
			t.Logf("%s: %s %x of %x below %x %v", span.home, span.GetName(), span.GetSpanId(), span.GetTraceId(), span.GetParentSpanId(), span.GetAttributes())
		}
	}
}

func (c *collected) add(all []*tracespb.ResourceSpans) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range all {
		home := ""
		for _, attribute := range of.GetResource().GetAttributes() {
			if attribute.GetKey() == "service.namespace" {
				home = attribute.GetValue().GetStringValue()
			}
		}
		for _, scope := range of.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans = append(c.spans, exported{span, home})
			}
		}
	}
}

// of returns the spans of a step.
func (c *collected) of(step federation.EventID) []exported {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s exported) bool { return !slices.Equal(s.GetTraceId(), step[:]) })
}

// find returns the span with a name of a home that has the value of an attribute, nil for none.
func find(spans []exported, home, name, key, value string) *tracespb.Span {
	for _, span := range spans {
		for _, attribute := range span.GetAttributes() {
			if span.home == home && span.GetName() == name && attribute.GetKey() == key && attribute.GetValue().GetStringValue() == value {
				return span.Span
			}
		}
	}
	return nil
}

// below reports whether a span is a child of another one in the same trace.
func below(child, parent *tracespb.Span) bool {
	return child != nil && parent != nil && slices.Equal(child.GetParentSpanId(), parent.GetSpanId()) && slices.Equal(child.GetTraceId(), parent.GetTraceId())
}

// A user of InspIRCd at one home offers work to an agent of an AIRC registry at another home: the line, the record of
// both homes, the relay between them and the inbox are one trace.
func TestAHandoffBetweenHomesIsOneTrace(t *testing.T) {
	c := newCollector(t)
	tr := newTriple(t)
	offer := rfcTags.offer(tr.alice.person, channel, extras{"to": tr.scout.DID, "title": title})
	send(t, tr.alice.IRCClient, offer.tags)
	id, err := federation.ParseEventID(offer.handoff)
	if err != nil {
		t.Fatal(err)
	}
	var spans []exported
	await(t, "the trace of the offer", func() bool {
		spans = c.of(id)
		return find(spans, "b.test", "inbox", "network", "airc") != nil && find(spans, "gw.test", "deliver", "network", "home") != nil &&
			find(spans, "gw.test", "deliver", "link", "lab") != nil
	})
	judged := find(spans, "gw.test", "judge", "outcome", "filed")
	filed := find(spans, "gw.test", "file", "event_id", offer.handoff)
	sent := find(spans, "gw.test", "deliver", "network", "home")
	taken := find(spans, "b.test", "judge", "outcome", "filed")
	kept := find(spans, "b.test", "file", "event_id", offer.handoff)
	inbox := find(spans, "b.test", "inbox", "network", "airc")
	if judged == nil || len(judged.GetParentSpanId()) != 0 || find(spans, "gw.test", "judge", "network", "spanningtree") != judged {
		t.Errorf("the line from IRC has no span at the top: %v", judged)
	}
	for name, pair := range map[string][2]*tracespb.Span{
		"the record of the line below its judgement":        {filed, judged},
		"the relay below the judgement":                     {sent, judged},
		"the judgement of the other home below the relay":   {taken, sent},
		"the record of the other home below its judgement":  {kept, taken},
		"the inbox of the agent below that record":          {inbox, kept},
		"the channel of the home below the first judgement": {find(spans, "gw.test", "deliver", "link", "lab"), judged},
	} {
		if !below(pair[0], pair[1]) {
			t.Errorf("%s: %v is no child of %v", name, pair[0], pair[1])
		}
	}
}
