package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/bridge/agents/mcp"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

func TestIdempotencyKeyNamesOneStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	eliza, scout := w.agent(t, "eliza"), w.agent(t, "scout")
	arguments := map[string]any{"to": scout.did, "title": "Cite", "context": map[string]any{"pages": 3}, "idempotency_key": "k"}
	offer := call(t, eliza.connect(t, "", nil), "handoff_offer", arguments).filed()
	asked := participant.Offer{To: string(scout.did), Title: "Cite", Context: json.RawMessage(`{"pages":3}`)}
	again, err := w.access.Offer(t.Context(), participant.Caller{DID: eliza.did}, asked, participant.Request{Key: "k"}) // by REST
	if err != nil || again.EventID != offer.EventID || !again.Replayed {
		t.Errorf("REST answers the same key with %+v, %v; want %s", again, err, offer.EventID)
	}
	arguments["title"] = "Cite four"
	if got := call(t, eliza.connect(t, "", nil), "handoff_offer", arguments).problem(); got.Error.Code != participant.CodeOtherRequest {
		t.Errorf("another step with the key is answered %+v", got)
	}
}

func TestContextIsShownAsALinkIfLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	eliza, scout := w.agent(t, "eliza"), w.agent(t, "scout")
	session := scout.connect(t, "", nil)
	for size, want := range map[int]string{100: "context", 5000: "context_ref"} {
		offer := call(t, eliza.connect(t, "", nil), "handoff_offer", map[string]any{
			"to": scout.did, "title": "Cite", "context": map[string]any{"text": strings.Repeat("x", size)},
		}).filed()
		var shown struct {
			Steps []struct{ Untrusted map[string]string }
		}
		got := call(t, session, "handoff_get", map[string]any{"id": offer.ID}).ok()
		got.into(&shown)
		text := shown.Steps[0].Untrusted[want]
		whole := want == "context" && len(text) > size
		link := want == "context_ref" && strings.Contains(text, federation.BlobPath) && !strings.Contains(got.Text, "xxxx")
		if !whole && !link || len(shown.Steps[0].Untrusted) != 3 { // with the name and the title
			t.Errorf("a context of %d bytes is shown as %v", size, shown.Steps[0].Untrusted)
		}
	}
}

func TestArgumentsOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	session := newWorld(t).agent(t, "scout").connect(t, "", nil)
	for _, tt := range []struct {
		tool, argument string
		values         []any
	}{
		{"inbox_list", "limit", []any{0, 101, 1.5, "20"}},
		{"inbox_wait", "limit", []any{0, 101}},
		{"inbox_wait", "seconds", []any{0, 601, -1}},
		{"handoff_list", "limit", []any{0, 101}},
	} {
		for _, value := range tt.values {
			if got := call(t, session, tt.tool, map[string]any{tt.argument: value}).problem(); got.Error.Code != "usage" {
				t.Errorf("%s with %s %v is answered %+v", tt.tool, tt.argument, value, got)
			}
		}
	}
}

func TestWatchedResourceIsReportedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFake(t)
		eliza, scout := w.agent(t, "eliza"), w.agent(t, "scout")
		l := serveLines(t, scout.account(), mcp.Options{})
		l.initialize()
		l.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"inbox://me"}}`)
		<-l.messages
		told := 0
		for range 25 { // for two seconds and a half
			eliza.offer(t, scout.did, "Cite")
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			for len(l.messages) > 0 {
				if m := <-l.messages; m["method"] != "notifications/resources/updated" {
					t.Errorf("the client is sent %v", m)
				}
				told++
			}
		}
		if told < 2 || told > 3 {
			t.Errorf("it is told %d times in two seconds and a half", told)
		}
	})
}
