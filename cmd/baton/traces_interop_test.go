//go:build interop

package main_test

import (
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// A user of InspIRCd at one home offers work to an agent of an AIRC registry at another home: the line, the
// records of both homes, the relay between them and the inbox are one trace.
func TestTraceOfAHandoffSpansHomes(t *testing.T) {
	collector := bridgetest.NewTraceCollector()
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100") // milliseconds
	tr := newTriple(t)
	offer := rfcTags.offer(tr.alice.person, channel, extras{"to": tr.scout.DID, "title": title})
	send(t, tr.alice.IRCClient, offer.tags)
	id, err := federation.ParseEventID(offer.handoff)
	if err != nil {
		t.Fatal(err)
	}
	var judged, filed, shown, sent, taken, kept, inbox bridgetest.Span
	await(t, "the trace of the offer", func() bool {
		spans := collector.Of(id)
		judged = bridgetest.FindSpan(spans, "gw.test", "judge", "network", "spanningtree")
		filed = bridgetest.FindSpan(spans, "gw.test", "file", "network", "spanningtree")
		shown = bridgetest.FindSpan(spans, "gw.test", "deliver", "network", "spanningtree")
		sent = bridgetest.FindSpan(spans, "gw.test", "deliver", "network", "home")
		taken = bridgetest.FindSpan(spans, "b.test", "judge", "network", "home")
		kept = bridgetest.FindSpan(spans, "b.test", "file", "network", "home")
		inbox = bridgetest.FindSpan(spans, "b.test", "inbox", "network", "airc")
		return judged.ID != "" && filed.ID != "" && shown.ID != "" && sent.ID != "" && taken.ID != "" && kept.ID != "" && inbox.ID != ""
	})
	if judged.Parent != "" {
		t.Errorf("the line from IRC is not at the top: %+v", judged)
	}
	for name, pair := range map[string][2]bridgetest.Span{
		"the record below the line":                           {filed, judged},
		"the channel below the line":                          {shown, judged},
		"the relay below the line":                            {sent, judged},
		"the other home below the relay":                      {taken, sent},
		"the record of the other home below its judgement":    {kept, taken},
		"the inbox of the agent below the record of its home": {inbox, kept},
	} {
		if pair[0].Parent != pair[1].ID {
			t.Errorf("not %s: %+v, %+v", name, pair[0], pair[1])
		}
	}
}
