package mcp_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
)

// revisions are the revisions of the protocol that clients may speak.
func revisions() []string { return []string{"2026-07-28", "2025-11-25", "2025-06-18"} }

func TestToolsCompleteWorkInEachRevision(t *testing.T) {
	t.Parallel()
	for _, revision := range revisions() {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			eliza, scout := w.agent(t, "eliza"), w.agent(t, "scout")
			offering, working := eliza.connect(t, revision, nil), scout.connect(t, revision, nil)
			offer := call(t, offering, "handoff_offer", map[string]any{
				"to": scout.did, "title": "Cite three sources", "context": map[string]any{"topic": "X"}, "idempotency_key": "one",
			}).filed()
			again := call(t, offering, "handoff_offer", map[string]any{
				"to": scout.did, "title": "Cite three sources", "context": map[string]any{"topic": "X"}, "idempotency_key": "one",
			}).filed()
			if again != offer || offer.State != "offered" {
				t.Errorf("the same key is filed as %+v and %+v", offer, again)
			}
			var inbox struct {
				Items []struct {
					Cursor string
					Waits  bool
					Step   struct {
						HandoffID string `json:"handoff_id"`
						Untrusted map[string]any
					}
				}
				Next string `json:"next_cursor"`
			}
			call(t, working, "inbox_wait", map[string]any{"seconds": 5}).ok().into(&inbox)
			if len(inbox.Items) != 1 || inbox.Items[0].Step.HandoffID != offer.ID || !inbox.Items[0].Waits || inbox.Items[0].Step.Untrusted["title"] != "Cite three sources" {
				t.Fatalf("the inbox has %+v", inbox)
			}
			for _, step := range []string{"handoff_accept", "handoff_progress", "handoff_complete"} {
				call(t, working, step, map[string]any{"id": offer.ID, "note": "as agreed"}).ok()
			}
			call(t, working, "inbox_ack", map[string]any{"cursor": inbox.Next}).ok()
			call(t, working, "inbox_list", nil).ok().into(&inbox)
			if len(inbox.Items) != 0 {
				t.Errorf("after the ack the inbox has %+v", inbox.Items)
			}
			got := call(t, offering, "handoff_get", map[string]any{"id": offer.ID}).ok()
			var handoff struct {
				State     string
				Title     any
				Untrusted map[string]string
				Steps     []struct{ Verb string }
			}
			got.into(&handoff)
			if handoff.State != "completed" || len(handoff.Steps) != 4 || handoff.Title != nil || handoff.Untrusted["title"] != "Cite three sources" {
				t.Errorf("the handoff is %+v", handoff)
			}
			resource, err := offering.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "handoff://" + offer.ID})
			if err != nil {
				t.Fatal(err)
			}
			structured, err := json.Marshal(got.StructuredContent)
			if err != nil {
				t.Fatal(err)
			}
			if !sameJSON(t, resource.Contents[0].Text, string(structured)) {
				t.Errorf("the resource is\n%s\nand the tool answers\n%s", resource.Contents[0].Text, structured)
			}
		})
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	return cmp.Equal(x, y)
}

func TestToolsListFitsOnePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list, err := w.agent(t, "scout").connect(t, "", nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d tools in %d bytes", len(list.Tools), len(text))
	if len(list.Tools) != 18 || len(text) > 16<<10 || list.NextCursor != "" {
		t.Errorf("%d tools in %d bytes, and %q", len(list.Tools), len(text), list.NextCursor)
	}
	destructive := map[string]bool{"handoff_decline": true, "handoff_complete": true, "handoff_fail": true, "handoff_cancel": true}
	readers := map[string]bool{
		"inbox_list": true, "inbox_wait": true, "handoff_list": true, "handoff_get": true, "whois": true, "explain": true,
	}
	for _, tool := range list.Tools {
		a := tool.Annotations
		in, _ := tool.InputSchema.(map[string]any)
		out, _ := tool.OutputSchema.(map[string]any)
		if tool.Title == "" || tool.Description == "" || in["type"] != "object" || out["type"] != "object" || in["additionalProperties"] != false {
			t.Errorf("%s: %v %v", tool.Name, in, out)
		}
		properties, _ := in["properties"].(map[string]any)
		for name, property := range properties {
			p, _ := property.(map[string]any)
			kind, _ := p["type"].(string)
			items, _ := p["items"].(map[string]any)
			if kind == "" || p["description"] == nil || kind == "array" && items["type"] == nil {
				t.Errorf("%s: a strict host refuses the argument %s: %v", tool.Name, name, p)
			}
		}
		if a.ReadOnlyHint != readers[tool.Name] || *a.DestructiveHint != destructive[tool.Name] || !*a.OpenWorldHint ||
			a.IdempotentHint != (readers[tool.Name] || tool.Name == "inbox_ack") {
			t.Errorf("%s: %+v", tool.Name, a)
		}
	}
}

func TestToolsReturnErrorsAsResults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	eliza, scout, rival, mallory := w.agent(t, "eliza"), w.agent(t, "scout"), w.agent(t, "rival"), w.agent(t, "mallory")
	offering, working, late, outside := eliza.connect(t, "", nil), scout.connect(t, "", nil), rival.connect(t, "", nil), mallory.connect(t, "", nil)
	for _, did := range []*agent{eliza, scout, rival} {
		w.Join("#ops", did.did)
	}
	open := call(t, offering, "handoff_offer", map[string]any{"open": true, "title": "Cite", "channel": "#ops"}).filed()
	call(t, working, "handoff_claim", map[string]any{"id": open.ID}).ok()
	lost := call(t, late, "handoff_claim", map[string]any{"id": open.ID}).problem()
	if lost.Error.Code != "illegal-step" || lost.Error.Assignee == "" || lost.Error.Retryable {
		t.Errorf("a lost claim is answered %+v", lost)
	}
	private := call(t, offering, "handoff_offer", map[string]any{"to": scout.did, "title": "Cite"}).filed()
	absent := strings.Repeat("0", 25) + "1"
	for _, tool := range []string{"handoff_get", "handoff_accept", "handoff_cancel"} {
		hidden := call(t, outside, tool, map[string]any{"id": private.ID})
		none := call(t, outside, tool, map[string]any{"id": absent})
		if !hidden.IsError || hidden.Text != none.Text || hidden.problem() != none.problem() {
			t.Errorf("%s: a hidden handoff is answered %q, an absent one %q", tool, hidden.Text, none.Text)
		}
	}
	hidden := call(t, outside, "explain", map[string]any{"event_id": private.EventID})
	if none := call(t, outside, "explain", map[string]any{"event_id": absent}); hidden.Text != none.Text || !hidden.IsError {
		t.Errorf("explain: a hidden event is answered %q, an absent one %q", hidden.Text, none.Text)
	}
	for _, scheme := range []string{"handoff://", "passport://"} {
		_, one := outside.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: scheme + private.ID})
		_, two := outside.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: scheme + absent})
		if one == nil || two == nil || strings.ReplaceAll(one.Error(), private.ID, "") != strings.ReplaceAll(two.Error(), absent, "") {
			t.Errorf("%s: %v, and %v", scheme, one, two)
		}
	}
	for name, arguments := range map[string]map[string]any{
		"an unknown member":   {"id": private.ID, "steps": true},
		"a missing one":       {},
		"one of another type": {"id": 7},
		"no ULID":             {"id": "x"},
	} {
		if got := call(t, offering, "handoff_get", arguments).problem(); got.Error.Code != "usage" || got.Error.Detail == "" {
			t.Errorf("%s is answered %+v", name, got)
		}
	}
	for _, arguments := range []map[string]any{{"title": "x"}, {"title": "x", "to": scout.did, "open": true}, {"title": "x", "open": true, "deadline": "tomorrow"}} {
		if got := call(t, offering, "handoff_offer", arguments).problem(); got.Error.Code != "usage" {
			t.Errorf("%v is answered %+v", arguments, got)
		}
	}
}

func TestOfferRefusesAnImpossibleTarget(t *testing.T) {
	w := newWorld(t)
	session := w.agent(t, "eliza").connect(t, revisions()[0], nil)
	for _, to := range []string{"did:key:", "did:key:z6Mk", "did:plc:alice", "did:web:a.example:.."} {
		got := call(t, session, "handoff_offer", map[string]any{"to": to, "title": "x"}).problem()
		if got.Error.Code != "invalid-target" {
			t.Errorf("an offer to %s: %+v", to, got.Error)
		}
	}
}

func TestOfferWarnsOfAnUnseenDID(t *testing.T) {
	w := newWorld(t)
	eliza, scholar := w.agent(t, "eliza"), bridgetest.SeededKey("test scholar").DID
	session := eliza.connect(t, revisions()[0], nil)
	got := call(t, session, "handoff_offer", map[string]any{"to": scholar, "title": "x"}).ok()
	var told struct {
		State    string                `json:"state"`
		Warnings []stepbuilder.Warning `json:"warnings"`
	}
	got.into(&told)
	detail := "no step, name, login or read inbox of " + string(scholar) + " is known here: check the DID"
	if told.State != "offered" || !slices.Equal(told.Warnings, []stepbuilder.Warning{{Code: "never-seen", Detail: detail}}) {
		t.Errorf("answered %+v", told)
	}
	if !strings.Contains(got.Text, "\nwarning never-seen: "+detail+"\n") {
		t.Errorf("the text is %q", got.Text)
	}
	w.agent(t, "scholar")
	if again := call(t, session, "handoff_offer", map[string]any{"to": scholar, "title": "x"}).ok(); strings.Contains(again.Text, "warning") {
		t.Errorf("an offer to a DID that logged in is answered %q", again.Text)
	}
}

func TestProtocolErrorsForUnknownNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout")
	for _, revision := range revisions() {
		body := func(method, params string) string {
			meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + revision + `","io.modelcontextprotocol/clientCapabilities":{}}`
			if params != "" {
				meta += ","
			}
			return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + meta + params + `}}`
		}
		missing := "-32002"
		if revision == "2026-07-28" {
			missing = "-32602"
		}
		for _, tt := range []struct{ method, params, name, code string }{
			{"tools/call", `"name":"shell","arguments":{}`, "shell", "-32602"},
			{"prompts/run", ``, "", "-32601"},
			{"resources/read", `"uri":"file:///etc/passwd"`, "file:///etc/passwd", missing},
			{"resources/read", `"uri":"handoff://x"`, "handoff://x", missing},
			{"resources/subscribe", `"uri":"inbox://me"`, "", "-32601"},
		} {
			got := scout.post(t, revision, tt.method, tt.name, body(tt.method, tt.params))
			if !strings.Contains(got, `"code":`+tt.code) {
				t.Errorf("%s: %s %s is answered %s, want %s", revision, tt.method, tt.params, got, tt.code)
			}
		}
	}
}
