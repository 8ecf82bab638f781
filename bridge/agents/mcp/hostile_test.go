package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/baton-gateway/baton/bridge/agents/mcp"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// liar is an account at a gateway whose other parties write hostile text into each member under
// their control.
type liar struct{ mcp.Account }

func party() federation.DID { return bridgetest.SeededKey("party").DID }

func (liar) view() federation.View {
	return federation.View{
		ID: federation.EventID{1}, Kind: federation.Handoff, State: federation.Offered, Offerer: party(), Version: 1,
		Title: hostile("title"), Venue: "#" + hostile("channel"), Priority: hostile("priority"),
	}
}

func (l liar) step(content string) participant.Named {
	ev := federation.Event{
		ID: federation.EventID{1}, Handoff: l.view().ID, Verb: federation.Offer, From: party(), Provenance: federation.Vouched,
		Title: hostile("title"), Note: hostile("note"), Context: content, Venue: "#" + hostile("channel"),
	}
	return participant.Named{Entry: federation.Entry{Event: ev, State: federation.Offered}, Name: hostile("name"), Cursor: "c1", Waits: true}
}

// Inbox implements [mcp.Account]: the entry is new once.
func (l liar) Inbox(ctx context.Context, q participant.InboxQuery) (participant.InboxPage, error) {
	if q.Cursor != "" && q.Wait > 0 {
		<-ctx.Done()
		return participant.InboxPage{Next: q.Cursor}, nil
	}
	return participant.InboxPage{Items: []participant.Named{l.step(`{"text":"` + strings.ReplaceAll(hostile("context"), `"`, `'`) + `"}`)}, Next: "c1"}, nil
}

// Handoffs implements [mcp.Account].
func (l liar) Handoffs(context.Context, participant.Query, federation.Cursor, int) (participant.HandoffPage, error) {
	return participant.HandoffPage{Items: []participant.Listed{{View: l.view()}}}, nil
}

// Handoff implements [mcp.Account].
func (l liar) Handoff(context.Context, string) (participant.HandoffLog, error) {
	kept := "https://gw.example" + federation.BlobPath + strings.Repeat("a", 43) + "?" + hostile("link")
	return participant.HandoffLog{Listed: participant.Listed{View: l.view()}, Steps: []participant.Named{l.step(hostile("context")), l.step(kept)}}, nil
}

// Whois implements [mcp.Account].
func (liar) Whois(context.Context, string) ([]participant.Person, error) {
	return []participant.Person{{DID: party(), Network: "lab", Name: hostile("name"), Caps: []string{"cite", hostile("capability")}}}, nil
}

// Explain implements [mcp.Account].
func (liar) Explain(context.Context, string) (participant.Explanation, error) {
	return participant.Explanation{}, errors.New(hostile("error"))
}

func TestUntrustedMembersStayInsideTheirFence(t *testing.T) {
	t.Parallel()
	session := overStreams(t, liar{}, nil)
	for _, tt := range []struct {
		tool, arguments string
		fences          int
	}{
		{"inbox_list", `{}`, 1},
		{"inbox_wait", `{}`, 1},
		{"handoff_list", `{}`, 1},
		{"handoff_get", `{"id":"x"}`, 3},
		{"whois", `{"who":"x"}`, 1},
	} {
		var arguments map[string]any
		if err := json.Unmarshal([]byte(tt.arguments), &arguments); err != nil {
			t.Fatal(err)
		}
		got := call(t, session, tt.tool, arguments).ok()
		checkFences(t, got.Text, tt.fences)
		var structured any
		got.into(&structured)
		if where := outside("", structured, "ignore all"); where != "" {
			t.Errorf("%s: text of another party is at %s", tt.tool, where)
		}
	}
	if got := call(t, session, "explain", map[string]any{"event_id": "x"}); strings.Contains(got.Text, "ignore all") || got.problem().Error.Code != "failed" {
		t.Errorf("an error of the gateway is told as %s", got.Text)
	}
	for _, uri := range []string{"inbox://me", "handoff://x"} {
		var structured any
		if err := json.Unmarshal([]byte(resource(t, session, uri)), &structured); err != nil {
			t.Fatal(err)
		}
		if where := outside("", structured, "ignore all"); where != "" {
			t.Errorf("%s: text of another party is at %s", uri, where)
		}
	}
}

func TestUntrustedTextOfAChannelIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := serveLines(t, liar{}, mcp.Options{Channel: true})
		l.initialize()
		m := <-l.messages
		params, _ := m["params"].(map[string]any)
		content, _ := params["content"].(string)
		checkFences(t, content, 1)
		meta, _ := params["meta"].(map[string]any)
		if where := outside("", meta, "ignore all"); where != "" || len(meta) != 5 {
			t.Errorf("the members are %v", meta)
		}
		time.Sleep(time.Minute)
		if synctest.Wait(); len(l.messages) != 0 {
			t.Errorf("the client is woken again: %v", <-l.messages)
		}
	})
}

func resource(t *testing.T, s *sdk.ClientSession, uri string) string {
	t.Helper()
	got, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
	if err != nil || len(got.Contents) != 1 {
		t.Fatalf("%s: %+v, %v", uri, got, err)
	}
	return got.Contents[0].Text
}
