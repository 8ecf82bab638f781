package mcp_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestMessagesWithRepeatedMembersAreRefused(t *testing.T) {
	w := newWorld(t)
	ada := w.agent(t, "ada")
	header := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`:                                                `duplicate member \"method\"`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"inbox_read","name":"message_send"}}`:           `duplicate member \"name\"`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"inbox_read","arguments":{"a":{"b":1,"b":2}}}}`: `duplicate member \"b\"`,
	} {
		got, text := w.request(t, http.MethodPost, "/mcp", ada.token, body, header)
		if got.StatusCode != http.StatusBadRequest || !strings.Contains(text, want) || !strings.Contains(text, "-32700") {
			t.Errorf("%s is answered %d %s", body, got.StatusCode, text)
		}
	}
}
