package mcp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/baton-gateway/baton/bridge/agents/mcp"
)

// reply is the head of an answer.
type reply struct {
	StatusCode int
	Header     http.Header
}

func (w *world) request(t *testing.T, method, path, token, body string, header map[string]string) (reply, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{got.StatusCode, got.Header}, string(text)
}

// post posts a message of a revision and returns the answer.
func (a *agent) post(t *testing.T, revision, method, name, body string) string {
	t.Helper()
	header := map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": revision, "Mcp-Method": method,
	}
	if name != "" {
		header["Mcp-Name"] = name
	}
	_, text := a.w.request(t, http.MethodPost, mcp.Path, a.token, body, header)
	return text
}

// A capability is declared only in the revisions in which it is served.
func TestHTTPSubscriptionsNeedTheNewestRevision(t *testing.T) {
	t.Parallel()
	scout := newWorld(t).agent(t, "scout")
	for _, revision := range revisions() {
		session := scout.connect(t, revision, nil)
		declared := session.InitializeResult().Capabilities
		if declared.Resources == nil || declared.Resources.Subscribe != (revision == "2026-07-28") || declared.Prompts != nil {
			t.Errorf("%s: the capabilities are %+v", revision, declared)
		}
		if revision != "2026-07-28" {
			if err := session.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "inbox://me"}); err == nil {
				t.Errorf("%s: a subscription is taken", revision)
			}
		}
	}
	streams := overStreams(t, scout.account(), nil)
	if declared := streams.InitializeResult().Capabilities; !declared.Resources.Subscribe {
		t.Errorf("on stdio the capabilities are %+v", declared)
	}
}

func TestHTTPNamesTheIssuerOfTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := `Bearer resource_metadata="` + w.server.URL + `/.well-known/oauth-protected-resource/mcp"`
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodPut} {
		for _, token := range []string{"", "forged"} {
			got, _ := w.request(t, method, "/mcp", token, "{not json", nil)
			if got.StatusCode != http.StatusUnauthorized || got.Header.Get("WWW-Authenticate") != want {
				t.Errorf("%s with token %q is answered %d %q", method, token, got.StatusCode, got.Header.Get("WWW-Authenticate"))
			}
		}
	}
	scout := w.agent(t, "scout")
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if got, _ := w.request(t, method, "/mcp", scout.token, "", nil); got.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s with a token is answered %d", method, got.StatusCode)
		}
	}
	if got, _ := w.request(t, http.MethodPost, "/mcp", "operator", "{}", nil); got.StatusCode != http.StatusForbidden {
		t.Errorf("an operator is answered %d", got.StatusCode)
	}
	_, text := w.request(t, http.MethodGet, "/.well-known/oauth-protected-resource/mcp", "", "", nil)
	if diff := cmp.Diff(`{"authorization_servers":["`+w.server.URL+`"],"bearer_methods_supported":["header"],"resource":"`+w.server.URL+`/mcp"}`+"\n", text); diff != "" {
		t.Error(diff)
	}
}

func TestHTTPRefusesALargeBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	header := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
	got, _ := w.request(t, http.MethodPost, "/mcp", w.agent(t, "scout").token, `{"x":"`+strings.Repeat("x", 65536)+`"}`, header)
	if got.StatusCode != http.StatusRequestEntityTooLarge || got.Header.Get("Mcp-Session-Id") != "" {
		t.Errorf("it is answered %d", got.StatusCode)
	}
}
