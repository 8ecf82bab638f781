package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// taskRecord returns the record of an offer by the scanner to the scholar.
func taskRecord(t *testing.T, id, description string, context map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"task_id": id, "from_agent": "scanner", "to_agent": "scholar", "status": "offered", "description": description, "context": context,
		"created_at": "2026-11-23T10:00:00Z", "updated_at": "2026-11-23T10:00:00Z",
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// On every network a title is one line of at most 300 bytes, and the context of a truncated title
// has the full text.
func TestOfferTitleIsWholeInTheContextAtEveryEntryPoint(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	seed, _ := newSeed(t)
	scout := bridgetest.NewAgent(h.url(), "scout_7", make([]byte, 32))
	if err := scout.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.secrets = append(h.secrets, scout.Token)
	host, ada := newCommandHost(t, h.house, "--key-file", seed), logIn(t, h.url())
	to := string(h.scholar.did)
	h.scholar.must(t, http.StatusOK, http.MethodPut, "agents/"+url.PathEscape(to), map[string]any{"caps": []string{"cite"}}, nil)
	h.scholar.offer(t, map[string]any{"to": ada.did, "title": "hello"}) // so that the registry knows the DID
	message := func(parts []any, title string) {
		m := map[string]any{"messageId": fmt.Sprint("m", len(title), "-", len(parts)), "role": "ROLE_USER", "parts": parts}
		if len(parts) == 2 {
			m["metadata"] = map[string]any{"handoff": map[string]any{"title": title}}
		}
		ada.a2a(t, "/a2a/"+to, "SendMessage", map[string]any{"message": m, "configuration": map[string]any{"returnImmediately": true}})
	}
	var cursor string
	for n, entry := range []struct {
		name  string
		offer func(text string)
	}{
		{".handoffs", func(text string) {
			drop(t, filepath.Join(h.tasks, fmt.Sprint("t", len(text), ".json")), taskRecord(t, fmt.Sprint("t", len(text)), text, nil))
		}},
		{"voice", func(text string) {
			drop(t, filepath.Join(h.voice, "handoff", "x.json"), voicePayload(voiceSecret, "alice", "bob", fmt.Sprint(len(text)), time.Minute, map[string]any{"reason": text}))
		}},
		{"REST", func(text string) { ada.offer(t, map[string]any{"to": to, "title": text}) }},
		{"MCP", func(text string) {
			if got, code := host.tool("handoff_offer", map[string]any{"to": to, "title": text}); code != "" {
				t.Errorf("MCP answers %s: %v", code, got)
			}
		}},
		{"A2A", func(text string) { message([]any{map[string]any{"text": text}}, text) }},
		{"A2A with a title", func(text string) {
			message([]any{map[string]any{"text": "see the title"}, map[string]any{"data": map[string]any{"a": 1}}}, text)
		}},
		{"AIRC", func(text string) {
			handle := h.handleOf(t, scout, to)
			if status, answer, err := scout.Send(t.Context(), handle, "please", map[string]any{"type": "task:request", "data": map[string]any{"description": text}}); err != nil || status != http.StatusCreated {
				t.Errorf("AIRC answers %d %v %v", status, answer, err)
			}
		}},
		{"command", func(text string) {
			var filed struct{ ID string }
			h.asks(t, &filed, "handoff", "offer", "--key-file", seed, "--to", to, "--title", text)
		}},
	} {
		for _, text := range []string{"Fix\tlogin\tpage", strings.Repeat("Fix\tthe login page ", 105)} {
			if !strings.HasPrefix(entry.name, "A2A") {
				text = strings.Replace(text, " page", "\npage", 1)
			}
			text = strings.TrimSpace(text)
			entry.offer(text)
			entries := h.scholar.reads(t, cursor)
			if len(entries) == 0 {
				t.Fatalf("%s: nothing arrives", entry.name)
			}
			step := entries[len(entries)-1].Step
			cursor = entries[len(entries)-1].Cursor
			line := strings.NewReplacer("\t", " ", "\n", " ").Replace(text)
			if want := strings.TrimSpace(line[:min(len(line), 300)]); step.Title != want {
				t.Errorf("%s: the title is %q, want %q", entry.name, step.Title, want)
			}
			var context struct{ Description *string }
			if strings.HasPrefix(step.Context, h.url()) { // the context is too long for a step
				_, step.Context = get(t, step.Context)
			}
			if step.Context != "" {
				if err := json.Unmarshal([]byte(step.Context), &context); err != nil {
					t.Errorf("%s: the context is %s: %v", entry.name, step.Context, err)
				}
			}
			if cut := len(line) > 300; cut != (context.Description != nil) || cut && *context.Description != text {
				t.Errorf("%s (%d): of a title of %d bytes the context is %s", entry.name, n, len(text), step.Context)
			}
		}
	}
}

// handleOf returns the handle of a DID in the registry.
func (h *filesHouse) handleOf(t *testing.T, agent *bridgetest.Agent, did string) string {
	t.Helper()
	status, answer, err := agent.Identity(t.Context(), did)
	handle, _ := answer["handle"].(string)
	if err != nil || status != http.StatusOK || handle == "" {
		t.Fatalf("the identity of %s is %d %v, %v", did, status, answer, err)
	}
	return handle
}

// The caps and the deadline in the context of a record are the terms of its offer.
func TestTaskRecordTermsAreThoseOfTheOffer(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	deadline := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	var cursor string
	for n, context := range []map[string]any{
		{"caps": []string{"web-search", "go"}, "deadline": deadline.Format(time.RFC3339)},
		{"caps": "web-search,go", "deadline": deadline.Unix()},
		{"caps": []string{"web-search", "go"}, "deadline": fmt.Sprint(deadline.Unix())},
	} {
		id := fmt.Sprint("terms-", n)
		drop(t, filepath.Join(h.tasks, id+".json"), taskRecord(t, id, "Fix it", context))
		step := h.next(t, &cursor).Step
		var shown struct {
			Caps     []string
			Deadline time.Time
		}
		h.scholar.must(t, http.StatusOK, http.MethodGet, "handoffs/"+step.HandoffID, nil, &shown)
		if strings.Join(shown.Caps, " ") != "web-search go" || !shown.Deadline.Equal(deadline) {
			t.Errorf("%v: the handoff has %+v", context, shown)
		}
		if want, err := json.Marshal(context); err != nil || step.Context != string(want) {
			t.Errorf("the context is %s, want %s", step.Context, want)
		}
	}
}
