//go:build interop

package main_test

import (
	"net/http"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The client comes from its registry, in the version that .ci/run pins. The agent behind the card
// uses REST.
func TestA2APythonClientFollowsItsTasks(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	worker, ada := logIn(t, h.url()), logIn(t, h.url())
	worker.must(t, http.StatusOK, http.MethodPut, "agents/"+url.PathEscape(string(worker.did)), map[string]any{"caps": []string{"cite"}}, nil)
	python := drive(t, nil, filepath.Join(clients(t), "python", "bin", "python"), "testdata/clients/tasks.py", h.url(), ada.token)
	agent := "/a2a/" + string(worker.did)
	check := func(what string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%s", what, diff, python.err)
		}
	}

	check("the card", member(python.call(t, "connect", agent, true), "name"), string(worker.did))
	check("the card of the gateway", member(python.call(t, "connect", "", true), "name"), "gw.test")

	first := python.call(t, "stream", agent, "Cite three")
	id, _ := member(first, "task", "id").(string)
	check("the first event", member(first, "task", "status", "state"), "TASK_STATE_SUBMITTED")
	worker.step(t, id, "accept", nil)
	check("the second event", member(python.call(t, "more", agent), "statusUpdate", "status", "state"), "TASK_STATE_WORKING")
	python.call(t, "cut", agent)
	worker.step(t, id, "progress", map[string]any{"note": "one of three"})
	again := python.call(t, "subscribe", agent, id)
	check("the task after the cut", member(again, "task", "status", "message", "parts", "text"), "one of three")
	worker.step(t, id, "complete", map[string]any{"note": "here", "context": map[string]any{"sources": 3}})
	result := member(python.call(t, "more", agent), "artifactUpdate", "artifact")
	check("the artifact", member(result, "name"), "result")
	check("the last event", member(python.call(t, "more", agent), "statusUpdate", "status", "state"), "TASK_STATE_COMPLETED")
	check("the end", python.call(t, "more", agent), "over")
	check("the finished task", member(python.call(t, "get", agent, id), "artifacts", "parts", "text"), "here")
	check("a subscription to it", member(python.call(t, "subscribe", agent, id), "raised"), "UnsupportedOperationError")
	check("a cancel of it", member(python.call(t, "cancel", agent, id), "raised"), "TaskNotCancelableError")
	check("a task that never was", member(python.call(t, "get", agent, "task-1"), "raised"), "TaskNotFoundError")

	check("the card, without streams", member(python.call(t, "connect", agent, false), "version") != nil, true)
	second := python.call(t, "send", agent, "Cite four", map[string]any{"n": 4})
	other, _ := member(second, "task", "id").(string)
	check("a message that does not wait", member(second, "task", "contextId"), "thesis")
	check("the same message again", member(python.call(t, "send", agent, "Cite four", map[string]any{"n": 4}), "task", "id"), other)
	check("with other content", member(python.call(t, "send", agent, "Cite four", map[string]any{"n": 5}), "raised"), "InvalidParamsError")
	open, _ := member(python.call(t, "send", "", "Anyone?", nil), "task", "id").(string)
	page, _ := python.call(t, "tasks", "", 2, "").([]any)
	next, _ := page[1].(string)
	check("the first page", page[0], []any{open, other})
	check("the second page", python.call(t, "tasks", "", 2, next), []any{[]any{id}, "", 3.0})
	check("push to an address inside", member(python.call(t, "push", agent, other, "https://127.0.0.1/"), "raised"), "InvalidParamsError")
	check("a cancel", member(python.call(t, "cancel", agent, other), "status", "state"), "TASK_STATE_CANCELED")
}
