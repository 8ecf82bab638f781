package main_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// A limit in characters counts code points: a character of two to four bytes is one.
func TestCharacterLimitsCountCodePoints(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\ndid_events_per_minute = 0\n"+anyAddress)
	h.start(t)
	h.ready(t)
	seed, _ := newSeed(t)
	ada, bob, host := logIn(t, h.url()), logIn(t, h.url()), newCommandHost(t, h, "--key-file", seed)
	bob.must(t, http.StatusOK, http.MethodPut, "agents/"+string(bob.did), map[string]any{"caps": []string{"cite"}}, nil)
	to := string(bob.did)
	for _, character := range []string{"語", "😀"} {
		text := func(n int) string { return strings.Repeat(character, n) }
		var cursor string
		for name, offer := range map[string]func(title string){
			"REST": func(title string) { ada.offer(t, map[string]any{"to": to, "title": title}) },
			"MCP": func(title string) {
				if got, code := host.tool("handoff_offer", map[string]any{"to": to, "title": title}); code != "" {
					t.Errorf("MCP answers %s: %v", code, got)
				}
			},
			"A2A": func(title string) {
				ada.a2a(t, "/a2a/"+to, "SendMessage", map[string]any{
					"message":       map[string]any{"messageId": character + title[:4], "role": "ROLE_USER", "parts": []any{map[string]any{"text": title}}},
					"configuration": map[string]any{"returnImmediately": true},
				})
			},
			"command": func(title string) {
				var filed struct{ ID string }
				h.asks(t, &filed, "handoff", "offer", "--key-file", seed, "--to", to, "--title", title)
			},
		} {
			for _, n := range []int{300, 301} {
				title := text(n)
				if name == "A2A" {
					title = []string{"a", "b"}[n-300] + text(n-1) // its messages need different IDs
				}
				offer(title)
				entries := bob.reads(t, cursor)
				if len(entries) == 0 {
					t.Fatalf("%s: nothing arrives", name)
				}
				step := entries[len(entries)-1].Step
				cursor = entries[len(entries)-1].Cursor
				var context struct{ Description string }
				if strings.HasPrefix(step.Context, h.url()) { // too long for a step
					_, step.Context = get(t, step.Context)
				}
				if step.Context != "" {
					if err := json.Unmarshal([]byte(step.Context), &context); err != nil {
						t.Errorf("%s: the context is %s: %v", name, step.Context, err)
					}
				}
				if want := string([]rune(title)[:300]); step.Title != want || (n > 300) != (context.Description == title) {
					t.Errorf("%s: %d characters %s become the title %q with context %s", name, n, character, step.Title, step.Context)
				}
			}
		}
		var filed struct{ ID string }
		ada.must(t, http.StatusCreated, http.MethodPost, "handoffs", map[string]any{"to": to, "title": "Cite"}, &filed)
		bob.must(t, http.StatusBadRequest, http.MethodPost, "handoffs/"+filed.ID+"/decline", map[string]any{"note": text(401)}, nil)
		bob.must(t, http.StatusCreated, http.MethodPost, "handoffs/"+filed.ID+"/decline", map[string]any{"note": text(400)}, nil)
		ada.must(t, http.StatusBadRequest, http.MethodPost, "messages", map[string]any{"to": to, "text": text(4097)}, nil)
		ada.must(t, http.StatusCreated, http.MethodPost, "messages", map[string]any{"to": to, "text": text(4096)}, nil)
	}
}
