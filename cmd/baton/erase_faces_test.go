package main_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The faces for agents and the page of the operator show an erased handoff as over, and none of its
// text.
func TestEraseHidesTextOnEachInterface(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	seed := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(seed, []byte(hex.EncodeToString(private.Seed())), 0o600); err != nil {
		t.Fatal(err)
	}
	host, ada, worker := newCommandHost(t, h, "--key-file", seed), logIn(t, h.url()), logInWith(t, h.url(), private)
	worker.must(t, http.StatusOK, http.MethodPut, "agents/"+url.PathEscape(string(worker.did)), map[string]any{"caps": []string{"cite"}}, nil)
	endpoint := "/a2a/" + string(worker.did)
	id, _ := member(ada.a2a(t, endpoint, "SendMessage", map[string]any{
		"message":       map[string]any{"messageId": "m1", "role": "ROLE_USER", "parts": []any{map[string]any{"text": zebra}}},
		"configuration": map[string]any{"returnImmediately": true},
	}), "task", "id").(string)
	for _, verb := range []string{"handoff_accept", "handoff_complete"} {
		if got, code := host.tool(verb, map[string]any{"id": id, "note": zebra}); code != "" {
			t.Fatalf("%s is answered %s %v", verb, code, got)
		}
	}
	h.asks(t, &struct{}{}, "erase", string(ada.did), "--yes", "--reason", "she asked")
	ada.logInAgain(t) // the erasure ended her sessions

	tool, code := host.tool("handoff_get", map[string]any{"id": id})
	if code != "" || member(tool, "state") != "completed" {
		t.Errorf("the tool answers %s %v", code, tool)
	}
	task := ada.a2a(t, endpoint, "GetTask", map[string]any{"id": id, "historyLength": 10})
	if member(task, "status", "state") != "TASK_STATE_COMPLETED" || member(task, "metadata", "handoff", "verdict") != "unverifiable" {
		t.Errorf("the task is %v", task)
	}
	inbox, code := host.tool("inbox_list", nil)
	if code != "" {
		t.Errorf("the inbox is answered %s", code)
	}
	page := loggedIn(t, h, h.operatorToken(t, "read")).wants(t, http.StatusOK, "/ui/handoffs/"+id, nil).text
	if !strings.Contains(page, "erased") {
		t.Error("the page does not say that the handoff was erased")
	}
	for face, answer := range map[string]any{
		"MCP": tool, "inbox": inbox, "page": page,
		"A2A": task, "A2A, all tasks": ada.a2a(t, endpoint, "ListTasks", map[string]any{}),
	} {
		text, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), zebra) {
			t.Errorf("%s shows the erased text: %s", face, text)
		}
	}
	var rest struct{ Steps []struct{ Verdict string } }
	ada.must(t, http.StatusOK, http.MethodGet, "handoffs/"+url.PathEscape(id), nil, &rest)
	if want := (struct{ Verdict string }{"unverifiable"}); len(rest.Steps) != 3 || rest.Steps[0] != want {
		t.Errorf("REST shows %+v", rest)
	}
}
