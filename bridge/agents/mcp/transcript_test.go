package mcp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/baton-gateway/baton/federation"
)

// transcript is the session of a model that knows only the list of tools. Each call names the words of a
// description, or of the instructions, that lead to it, and its arguments. {name} is a value of an earlier
// result.
func transcript() []struct{ because, tool, arguments string } {
	return []struct{ because, tool, arguments string }{
		{"your capabilities, which open work asks for", "agent_update", `{"name":"scout","description":"finds sources","caps":["cite"]}`},
		{"open work that you may claim now", "handoff_list", `{"claimable":true}`},
		{"A handoff with its steps", "handoff_get", `{"id":"{items.0.id}"}`},
		{"Takes an open offer", "handoff_claim", `{"id":"{items.0.id}","idempotency_key":"claim-1"}`},
		{"Reports on work that you took", "handoff_progress", `{"id":"{items.0.id}","note":"two of three","idempotency_key":"progress-1"}`},
		{"its result in note or context", "handoff_complete", `{"id":"{items.0.id}","note":"three sources","context":"[\"https://a.example\"]","idempotency_key":"complete-1"}`},
		{"Handoffs that you take part in", "handoff_list", `{"state":"completed"}`},
		{"Entries of your inbox", "inbox_list", `{}`},
	}
}

func TestTranscriptOfAModelThatDoesOpenWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	eliza, scout := w.agent(t, "eliza"), w.agent(t, "scout")
	offer := call(t, eliza.connect(t, "", nil), "handoff_offer", map[string]any{"open": true, "title": "Cite three sources", "caps": []string{"cite"}}).filed()
	session := scout.connect(t, "", nil)
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]any{}
	for _, step := range transcript() {
		i := slices.IndexFunc(list.Tools, func(tool *sdk.Tool) bool { return tool.Name == step.tool })
		if i < 0 || !strings.Contains(list.Tools[i].Description, step.because) {
			t.Fatalf("no description of %s has the words %q", step.tool, step.because)
		}
		text := step.arguments
		for name, value := range known {
			text = strings.ReplaceAll(text, "{"+name+"}", fmt.Sprint(value))
		}
		var arguments map[string]any
		if err := json.Unmarshal([]byte(text), &arguments); err != nil || strings.Contains(text, "{items") {
			t.Fatalf("the arguments of %s are %s, %v", step.tool, text, err)
		}
		follows(t, list.Tools[i].InputSchema, arguments)
		got := call(t, session, step.tool, arguments).ok()
		follows(t, list.Tools[i].OutputSchema, got.StructuredContent)
		var page struct{ Items []struct{ ID string } }
		if got.into(&page); len(page.Items) > 0 && page.Items[0].ID != "" {
			known["items.0.id"] = page.Items[0].ID
		}
	}
	view, err := w.Record.View(t.Context(), mustID(t, offer.ID))
	if err != nil || view.State != "completed" || view.Assignee != scout.did {
		t.Errorf("the handoff is %s of %s, %v", view.State, view.Assignee, err)
	}
}

func mustID(t *testing.T, text string) federation.HandoffID {
	t.Helper()
	id, err := federation.ParseEventID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// follows fails the test unless a value follows a schema that the server lists.
func follows(t *testing.T, schema, value any) {
	t.Helper()
	text, err := json.Marshal(schema)
	var parsed jsonschema.Schema
	if err == nil {
		err = json.Unmarshal(text, &parsed)
	}
	resolved := &jsonschema.Resolved{}
	if err == nil {
		resolved, err = parsed.Resolve(nil)
	}
	if err == nil {
		err = resolved.Validate(value)
	}
	if err != nil {
		t.Errorf("%v: %v", value, err)
	}
}

// A model reads its mistake, without a type of the server's language.
func TestArgumentsAcceptEquivalentForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout")
	session := scout.connect(t, "", nil)
	call(t, session, "inbox_list", map[string]any{"limit": 20.0, "cursor": nil, "device": nil}).ok()
	for _, tt := range []struct {
		tool      string
		arguments map[string]any
		want      string
	}{
		{"handoff_offer", map[string]any{"titel": "x", "open": true}, `there is no argument "titel"; did you mean "title"?`},
		{"whois", map[string]any{"name": "scout"}, `there is no argument "name"; want one of `},
		{"inbox_list", map[string]any{"limit": "20"}, "limit: want the type integer, not string"},
		{"inbox_list", map[string]any{"limit": 1.5}, "limit: want the type integer, not number"},
		{"handoff_offer", map[string]any{"title": map[string]any{"a": 1}, "open": true}, "title: want the type string, not object"},
		{"handoff_offer", map[string]any{"title": "x", "open": true, "caps": []any{1}}, ""},
		{"handoff_offer", map[string]any{"title": nil, "open": true}, "title"},
		{"handoff_offer", map[string]any{"title": "x", "to": "nobody"}, "no participant called nobody is known here"},
	} {
		got := call(t, session, tt.tool, tt.arguments).problem().Error.Detail
		if !strings.Contains(got, tt.want) || strings.Contains(got, "interface") || strings.Contains(got, "Go ") {
			t.Errorf("%s with %v is answered %q", tt.tool, tt.arguments, got)
		}
	}
	call(t, session, "agent_update", map[string]any{"name": "scout"}).ok()
	var filed struct {
		Resolved struct{ Name, DID, Network string }
	}
	call(t, w.agent(t, "eliza").connect(t, "", nil), "handoff_offer", map[string]any{"title": "x", "to": "scout"}).ok().into(&filed)
	if filed.Resolved.DID != string(scout.did) || filed.Resolved.Network != "agents" {
		t.Errorf("the name is resolved to %+v", filed.Resolved)
	}
}
