package airc_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/dialect"
)

// upload hands in a context, and returns the answer.
func (w *world) upload(t *testing.T, a *bridgetest.Agent, content string) (int, map[string]any) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/blob", strings.NewReader(content))
	request.Header.Set("Authorization", "Bearer "+a.Token)
	recorder := httptest.NewRecorder()
	w.mux.ServeHTTP(recorder, request)
	var answer map[string]any
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %v", recorder.Body, err)
	}
	if recorder.Code == http.StatusTooManyRequests && recorder.Header().Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	return recorder.Code, answer
}

// stored returns the content that a context refers to, checked against its hash.
func (w *world) stored(t *testing.T, context, hash string) string {
	t.Helper()
	blob, err := w.record.Blob(t.Context(), federation.CapabilityIn(context), time.Now())
	if err != nil {
		t.Fatalf("%s: %v", context, err)
	}
	if blob.Hash() != hash {
		t.Errorf("%s has the hash %s, and is told to have %q", context, blob.Hash(), hash)
	}
	return string(blob.Content)
}

// whole returns a context, from wherever it is.
func (w *world) whole(t *testing.T, context, hash string) string {
	t.Helper()
	if federation.InlineContext(context) {
		return context
	}
	return w.stored(t, context, hash)
}

// listOf returns a context of so many bytes, at least five, some of which tags escape.
func listOf(size int) string {
	return `["` + strings.Repeat("; x", size)[:size-4] + `"]`
}

func TestContextReachesIRCWholeOrByReference(t *testing.T) {
	t.Parallel()
	for _, tags := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
		w := newWorld(t)
		w.gateway.dialect = tags
		scout := w.agent(t, "scout_7", 0x01)
		w.meet(t)
		references := 0
		for _, size := range []int{5, 6, 64, 1000, 2000, 2600, 2700, 2800, 2900, 3000, 3200, 3900, 4095, 4096, 4097, 8000, 30000, 65000} {
			context := listOf(size)
			id, _ := start(t, scout, wire.Handle(alice.DID), request("Cite three sources on X", "context", json.RawMessage(context)))
			ev := w.steps(t, id)[0]
			if got := w.whole(t, ev.Context, ev.ContextHash); got != context {
				t.Errorf("%s: %d bytes: %d bytes arrive", tags, size, len(got))
			}
			if n := translate.TagBytes(ev.Fields); n > translate.MaxTagBytes {
				t.Errorf("%s: %d bytes: tags of %d bytes", tags, size, n)
			}
			if !federation.InlineContext(ev.Context) {
				references++
			} else if size > 4096 {
				t.Errorf("%s: %d bytes are in the tags", tags, size)
			}
			m, err := dialect.Encode(translate.Step{Entry: federation.Entry{Event: ev}})
			if err != nil {
				t.Fatal(err)
			}
			read, err := dialect.Decode(m)
			if err != nil || read.Context != ev.Context || read.ContextHash != ev.ContextHash {
				t.Errorf("%s: %d bytes: read as %.80q, %v", tags, size, read.Context, err)
			}
		}
		if references < 5 || references > 15 {
			t.Errorf("%s: %d of them are references", tags, references)
		}
	}
}

func TestContextOfAMegabyteIsUploaded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	w.meet(t)
	content := strings.Repeat("\x00\xffany bytes", 1<<20/11)
	status, answer := w.upload(t, scout, content)
	url, _ := answer["url"].(string)
	expires, _ := answer["expiresAt"].(float64)
	if status != http.StatusCreated || !strings.HasPrefix(url, "https://gw.example/blob/cap/") || time.Until(time.Unix(int64(expires), 0)) < time.Hour {
		t.Fatal(status, answer)
	}
	hash := "sha256:" + answer["sha256"].(string)
	id, _ := start(t, scout, wire.Handle(alice.DID), payload("task:request", map[string]any{
		"description": "Read it all", "handoff": map[string]any{"context_ref": url},
	}))
	ev := w.steps(t, id)[0]
	if ev.Context != url || ev.ContextHash != hash || w.stored(t, url, hash) != content {
		t.Errorf("the offer refers to %q, %q", ev.Context, ev.ContextHash)
	}
	blob, err := w.record.Blob(t.Context(), federation.CapabilityIn(url), time.Now().AddDate(1, 0, 0))
	if err != nil || !blob.Expires.IsZero() {
		t.Errorf("it goes before its handoff: %v", err)
	}
}

func TestContextUploadsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.contexts.Limits = func() (int64, int64) { return 10, 25 }
	scout := w.agent(t, "scout_7", 0x01)
	for n, tt := range []struct {
		size, status int
		code         string
	}{{10, 201, ""}, {11, 413, "payload_too_large"}, {10, 201, ""}, {10, 429, "rate_limited"}, {5, 201, ""}, {0, 201, ""}} {
		status, answer := w.upload(t, scout, strings.Repeat("x", tt.size))
		if code, _ := answer["error"].(string); status != tt.status || code != tt.code {
			t.Errorf("upload %d: %d %v, want %d %s", n, status, answer, tt.status, tt.code)
		}
	}
	scout.Token = "none"
	if status, _ := w.upload(t, scout, "x"); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
}

// toldContext has the members of a message that locate its context.
type toldContext struct {
	Payload struct {
		Type string
		Data struct {
			Context json.RawMessage
			Handoff struct {
				Ref      string          `json:"context_ref"`
				Hash     string          `json:"context_h"`
				Proof    json.RawMessage `json:"proof"`
				Evidence *struct {
					URL    string `json:"url"`
					SHA256 string `json:"sha256"`
				} `json:"evidence"`
			}
		}
	}
}

func TestPayloadFitsTheLimitOfItsAgent(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1600, 2500, 4000, 6000, 9000, 0} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
			scout := w.agent(t, "scout_7", 0x01, func(a *bridgetest.Agent) {
				if limit > 0 {
					a.Capabilities = map[string]any{"maxPayloadSize": limit}
				}
			})
			for _, size := range []int{5, 500, 1500, 2500, 3500, 4096} {
				context := listOf(size)
				w.offerOf(t, scout, context)
				w.checkTold(t, scout, limit, context)
			}
		})
	}
}

// offerOf files an offer with a context from IRC.
func (w *world) offerOf(t *testing.T, to *bridgetest.Agent, context string) {
	t.Helper()
	id := w.mint(t)
	ev := federation.Event{ID: id, Handoff: id, Verb: federation.Offer, To: federation.DID(to.DID), Title: "Read it", Context: context}
	w.fromIRC(t, alice, ev, map[string]string{"handoff-to": to.DID, "handoff-task": ev.Title, "handoff-context": context})
}

// checkTold looks at the newest message of an agent.
func (w *world) checkTold(t *testing.T, to *bridgetest.Agent, limit int, context string) {
	t.Helper()
	messages, _, err := to.Inbox(t.Context(), "")
	if err != nil || len(messages) == 0 {
		t.Fatal(messages, err)
	}
	var envelope struct{ Payload json.RawMessage }
	var m toldContext
	text := messages[len(messages)-1]
	if err := json.Unmarshal(text, &envelope); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	size, err := jcs.Transform(envelope.Payload)
	if err != nil || limit > 0 && len(size) > limit {
		t.Errorf("%d bytes of context: a payload of %d bytes for one who takes %d (%v)", len(context), len(size), limit, err)
	}
	got, data := string(m.Payload.Data.Context), m.Payload.Data.Handoff
	if data.Ref != "" {
		got = w.stored(t, data.Ref, data.Hash)
	}
	if got != context {
		t.Errorf("%d bytes of context: %d arrive", len(context), len(got))
	}
	switch {
	case data.Proof == nil && data.Evidence == nil:
		t.Errorf("%d bytes of context: neither proof nor evidence", len(context))
	case data.Proof == nil:
		status, text, err := to.Do(t.Context(), http.MethodGet, strings.TrimPrefix(data.Evidence.URL, "https://gw.example"), nil)
		if err != nil || status != http.StatusOK || !strings.Contains(string(text), `\"handoff\":\"offer\"`) {
			t.Errorf("evidence: %d %s, %v", status, text, err)
		}
	case limit == 0 && data.Ref != "":
		t.Errorf("%d bytes of context are a reference for one who takes all", len(context))
	}
}
