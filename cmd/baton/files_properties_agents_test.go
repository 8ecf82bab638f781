//go:build interop

package main_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/baton-gateway/baton/federation"
)

// Codes of errors of A2A, as its specification has them.
const (
	taskNotFound      = -32001
	taskNotCancelable = -32002
	invalidParams     = -32602
)

// A toolUser is an agent host that runs "baton mcp" with a key of its own.
type toolUser struct {
	*commandHost

	did string
}

func newToolUser(t *testing.T, h *house) *toolUser {
	t.Helper()
	seed, did := newSeed(t)
	return &toolUser{newCommandHost(t, h, "--key-file", seed), did}
}

// answers calls a tool of a handoff and checks the code of its refusal, "" for a taken step.
func (u *toolUser) answers(t *testing.T, name, id, code string) {
	t.Helper()
	if got, refused := u.tool(name, map[string]any{"id": id}); refused != code {
		t.Errorf("%s is answered %q %v, want %q", name, refused, got, code)
	}
}

func (w *propertyWorld) forgedTokenOfMCP(t *testing.T) {
	t.Helper()
	for token, want := range map[string]int{w.outside.token: http.StatusOK, w.outside.token + "x": http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url()+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{
			"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Protocol-Version": {"2025-11-25"},
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("with %q the answer is %d, want %d", token, response.StatusCode, want)
		}
	}
}

func (w *propertyWorld) expiredTool(t *testing.T) {
	t.Helper()
	id := w.scholar.offer(t, map[string]any{"to": w.host.did, "title": "late", "deadline": "2026-01-01T00:00:00Z"})
	await(t, "the offer to expire", func() bool { return w.state(t, id) == "expired" })
	w.host.answers(t, "handoff_accept", id, "terminal-handoff")
}

func (w *propertyWorld) toolTwice(t *testing.T) {
	t.Helper()
	id := w.scholar.offer(t, map[string]any{"to": w.host.did, "title": "twice"})
	w.host.answers(t, "handoff_accept", id, "")
	w.host.answers(t, "handoff_accept", id, "illegal-step")
}

// The answer about the work of another agent is the answer about work that does not exist.
func (w *propertyWorld) toolOfOthers(t *testing.T) {
	t.Helper()
	others := w.scholar.offer(t, map[string]any{"to": native("research", "reviewer"), "title": "for the reviewer"})
	for _, id := range []string{others, ulid.Make().String()} {
		w.host.answers(t, "handoff_get", id, "unknown-handoff")
		w.host.answers(t, "handoff_accept", id, "unknown-handoff")
	}
	if got := w.state(t, others); got != "offered" {
		t.Errorf("the handoff is %s", got)
	}
}

// endpoint gives the caller outside an endpoint of A2A.
func (w *propertyWorld) endpoint(t *testing.T) string {
	t.Helper()
	w.outside.must(t, http.StatusOK, http.MethodPut, "agents/"+url.PathEscape(string(w.outside.did)), map[string]any{"caps": []string{"cite"}}, nil)
	return "/a2a/" + string(w.outside.did)
}

func sendsTask(message, text string, terms map[string]any) map[string]any {
	return map[string]any{
		"message": map[string]any{
			"messageId": message, "role": "ROLE_USER", "parts": []any{map[string]any{"text": text}}, "metadata": map[string]any{"handoff": terms},
		},
		"configuration": map[string]any{"returnImmediately": true},
	}
}

// task returns the ID of the task that a client of A2A makes.
func (w *propertyWorld) task(t *testing.T, client *caller, params map[string]any) string {
	t.Helper()
	id, _ := member(client.a2a(t, w.endpoint(t), "SendMessage", params), "task", "id").(string)
	if id == "" {
		t.Fatal("the message makes no task")
	}
	return id
}

// answersA2A calls a method and checks the code of its error.
func (w *propertyWorld) answersA2A(t *testing.T, client *caller, method string, params map[string]any, code int) {
	t.Helper()
	if got := client.callA2A(t, w.endpoint(t), method, params); got.status != http.StatusOK || got.Error.Code != code {
		t.Errorf("%s is answered %+v, want %d", method, got, code)
	}
}

func (w *propertyWorld) forgedTokenOfA2A(t *testing.T) {
	t.Helper()
	forged := *w.scholar
	forged.token += "x"
	if got := forged.callA2A(t, w.endpoint(t), "SendMessage", sendsTask("forged", "on A2A", nil)); got.status != http.StatusUnauthorized {
		t.Errorf("a forged token is answered %+v", got)
	}
}

func (w *propertyWorld) expiredTask(t *testing.T) {
	t.Helper()
	id := w.task(t, w.scholar, sendsTask("expired", "late", map[string]any{"deadline": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}))
	var status any
	await(t, "the task to fail", func() bool {
		status = member(w.scholar.a2a(t, w.endpoint(t), "GetTask", map[string]any{"id": id}), "status")
		return member(status, "state") == "TASK_STATE_FAILED"
	})
	if got := member(status, "message", "parts", "text"); got != "expired" {
		t.Errorf("the task fails with %v", got)
	}
	refusedRequest(t, w.outside, "handoffs/"+id+"/accept", nil)
}

func (w *propertyWorld) taskTwice(t *testing.T) {
	t.Helper()
	message := sendsTask("twice", "on A2A", nil)
	id := w.task(t, w.scholar, message)
	if again := w.task(t, w.scholar, message); again != id {
		t.Errorf("the same message makes %s and %s", id, again)
	}
	w.answersA2A(t, w.scholar, "SendMessage", sendsTask("twice", "another text", nil), invalidParams)
	cancel := map[string]any{"id": id}
	if got := member(w.scholar.a2a(t, w.endpoint(t), "CancelTask", cancel), "status", "state"); got != "TASK_STATE_CANCELED" {
		t.Errorf("the task is %v", got)
	}
	w.answersA2A(t, w.scholar, "CancelTask", cancel, taskNotCancelable)
}

// The answer about the task of another client is the answer about a task that does not exist.
func (w *propertyWorld) taskOfOthers(t *testing.T) {
	t.Helper()
	theirs, mallory := w.task(t, w.scholar, sendsTask("theirs", "on A2A", nil)), logIn(t, w.url())
	for _, id := range []string{theirs, ulid.Make().String()} {
		w.answersA2A(t, mallory, "GetTask", map[string]any{"id": id}, taskNotFound)
		w.answersA2A(t, mallory, "CancelTask", map[string]any{"id": id}, taskNotFound)
	}
	if got := w.state(t, theirs); got != string(federation.Offered) {
		t.Errorf("the handoff is %s", got)
	}
}
