package render_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/bridge/admin/render"
)

// answering returns a client of a gateway that gives one answer to all requests.
func answering(t *testing.T, answer string) *client.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
	t.Cleanup(server.Close)
	return client.New(server.URL, "", nil)
}

func names() render.Table[admin.Peer] {
	return render.Table[admin.Peer]{Columns: []render.Column[admin.Peer]{
		{Page: "Name", Terminal: "NAME", Value: func(p admin.Peer) render.Value { return render.Text(p.Name) }},
	}}
}

func TestListIsATableOrADocument(t *testing.T) {
	t.Parallel()
	gateway := answering(t, `{"items":[{"name":"b.example"}],"next_cursor":"AAA"}`)
	var out, told strings.Builder
	if err := render.List(t.Context(), render.Terminal{Out: &out, Err: &told, Command: []string{"baton", "--config", "my lab.toml", "peer", "list", "--cursor", "A", "--limit=1"}}, gateway, admin.ListPeers, admin.Paging{}, names()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("NAME\nb.example\nthere are more: baton --config 'my lab.toml' peer list --limit=1 --cursor=AAA\n", out.String()+told.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	out.Reset()
	told.Reset()
	if err := render.List(t.Context(), render.Terminal{Out: &out, Err: &told, JSON: true}, gateway, admin.ListPeers, admin.Paging{}, names()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), `{"items":[{"name":"b.example"`) || told.Len() > 0 {
		t.Errorf("json: %s, %s", out.String(), told.String())
	}
}

func TestWatchedListHasOneHeader(t *testing.T) {
	t.Parallel()
	gateway := answering(t, "{\"name\":\"b.example\"}\n{\"name\":\"c.example\"}\n")
	var out strings.Builder
	if err := render.Watch(t.Context(), render.Terminal{Out: &out}, gateway, admin.ListPeers, admin.Paging{}, names()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("NAME\nb.example\nc.example\n", out.String()); diff != "" {
		t.Errorf("watched (-want +got):\n%s", diff)
	}
}

func TestConfirmAcceptsOnlyYes(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"y\n": true, " YES \n": true, "no\n": false, "\n": false, "yes": false, "": false} {
		var told strings.Builder
		if got := (render.Terminal{Err: &told}).Confirm(strings.NewReader(answer), "drop\x1b it?"); got != want {
			t.Errorf("%q: %v", answer, got)
		}
		if told.String() != "drop? it? [y/N] " {
			t.Errorf("asked %q", told.String())
		}
	}
}
