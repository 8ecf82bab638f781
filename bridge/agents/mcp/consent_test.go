package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/agents/mcp"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// strangers is an account with the first message of one sender in its inbox.
type strangers struct{ participant.Account }

func (strangers) Inbox(context.Context, participant.InboxQuery) (participant.InboxPage, error) {
	text := federation.Text{
		ID: federationtest.ID(1), Author: "did:web:a.example", Body: "hello", Fields: map[string]string{federation.Introduces: "1"},
	}
	return participant.InboxPage{Items: []participant.Named{{Entry: federation.Entry{Text: &text, Cursor: "c1"}}}, Next: "c1"}, nil
}

// answered returns the next answer as JSON.
func answered(t *testing.T, l *lines) string {
	t.Helper()
	text, err := json.Marshal(<-l.messages)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestConsentIsDecidedByAHost(t *testing.T) {
	w := newFake(t)
	kept := &bridgetest.Contacts{}
	w.deps.Messages = kept
	w.access = participant.Open("mcp", w.deps)
	scout := w.agent(t, "scout")
	l := serveLines(t, strangers{scout.account()}, mcp.Options{})
	l.initialize()
	l.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"inbox_list","arguments":{}}}`)
	if text := answered(t, l); !strings.Contains(text, "unknown sender") || !strings.Contains(text, "message_send") {
		t.Errorf("the first message is shown as %s", text)
	}
	for _, tt := range []struct{ arguments, want string }{
		{`{"to":"did:web:a.example","consent":"block"}`, "blocked"},
		{`{"to":"did:web:a.example","consent":"block","text":"why"}`, "usage"},
		{`{"to":"did:web:a.example"}`, "usage"},
		{`{"to":"did:web:b.example","consent":"allow"}`, "allowed"},
		{`{"to":"did:web:b.example","consent":"hold"}`, "usage"},
	} {
		l.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"message_send","arguments":` + tt.arguments + `}}`)
		if text := answered(t, l); !strings.Contains(text, tt.want) {
			t.Errorf("message_send %s is answered %s; want %s", tt.arguments, text, tt.want)
		}
	}
	if got := kept.Decided[[2]federation.DID{scout.did, "did:web:a.example"}]; got != federation.ContactBlocked {
		t.Errorf("the sender is %q", got)
	}
}
