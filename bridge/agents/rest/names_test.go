package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/federation"
)

// An agent takes a name, and others find it and offer it work by that.
func TestNamesFindAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	eliza, scout, mallory := w.login(t, "eliza"), w.login(t, "scout"), w.login(t, "mallory")
	put := func(a *agent, body string) answer {
		t.Helper()
		return w.ask(t, a.token, http.MethodPut, "/api/v1/agents/"+string(a.did), body)
	}
	if got := put(scout, `{"name":"scout","description":"finds sources","caps":["cite"]}`); got.member("name") != "scout" || got.member("description") != "finds sources" {
		t.Fatalf("the agent is %d %s", got.Status, got.Text)
	}
	refused(t, put(mallory, `{"name":"scout"}`), http.StatusConflict, "conflict")
	for _, name := range []string{"Scout", "sc", "anyone", "baton", "key_abc"} {
		refused(t, put(mallory, `{"name":"`+name+`"}`), http.StatusBadRequest, "usage")
	}
	offered := decode[contract.Filed](t, eliza.post(t, "/api/v1/handoffs", map[string]any{"to": "scout", "title": "x"}), http.StatusCreated)
	want := contract.Resolved{DID: scout.did, Name: "scout", Network: "agents"}
	if offered.Resolved == nil || *offered.Resolved != want {
		t.Errorf("the offer went to %+v, want %+v", offered.Resolved, want)
	}
	scout.step(t, offered.ID, "accept", nil)
	wrong := eliza.post(t, "/api/v1/handoffs", map[string]any{"to": "scuot", "title": "x"})
	refused(t, wrong, http.StatusNotFound, "unknown-name")
	if diff := cmp.Diff([]contract.Resolved{want}, decode[contract.Problem](t, wrong, http.StatusNotFound).Candidates); diff != "" {
		t.Errorf("the candidates (-want +got):\n%s", diff)
	}
	if got := put(scout, `{"name":"","caps":null}`); got.member("description") != "finds sources" || !strings.Contains(got.Text, `"cite"`) {
		t.Errorf("without the name the agent is %s", got.Text)
	}
	refused(t, eliza.post(t, "/api/v1/handoffs", map[string]any{"to": "scout", "title": "x"}), http.StatusNotFound, "unknown-name")
	if got := put(mallory, `{"name":"scout"}`); got.Status != http.StatusOK {
		t.Errorf("a free name is refused: %s", got.Text)
	}
}

// Mistakes and habits of clients with one possible meaning are accepted, and a
// misspelt member is named.
func TestNamesAcceptUnambiguousForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	eliza, scout := w.login(t, "eliza"), w.login(t, "scout")
	offered := eliza.post(t, "/api/v1/handoffs", `{"title":"x","to":"`+string(scout.did)+`","channel":null,"context":"in three lines"}`)
	id := offered.member("id")
	shown := decode[contract.Handoff](t, scout.get(t, "/api/v1/handoffs/"+id), http.StatusOK)
	if got := shown.Steps[0].Context; got != `{"text":"in three lines"}` {
		t.Errorf("text as a context is %s", got)
	}
	lease := scout.post(t, "/api/v1/inbox/lease", `{"device":"d","limit":2.0,"seconds":null}`)
	if lease.Status != http.StatusOK || !strings.Contains(lease.Text, id) {
		t.Errorf("2.0 is answered %d %s", lease.Status, lease.Text)
	}
	for body, want := range map[string]string{
		`{"titel":"x"}`:                              `did you mean \"title\"?`,
		`{"title":"x","zzzzzzzzzzzz":1}`:             `\"zzzzzzzzzzzz\" is unsupported`,
		`{"title":"x","context":"http://a.example"}`: "",
	} {
		got := eliza.post(t, "/api/v1/handoffs", body)
		if got.Status == http.StatusBadRequest != (want != "") || !strings.Contains(got.Text, want) {
			t.Errorf("%s is answered %d %s", body, got.Status, got.Text)
		}
	}
	misspelt := eliza.get(t, "/api/v1/handoffs?claimabel=true")
	if !strings.Contains(misspelt.Text, `did you mean \"claimable\"?`) {
		t.Errorf("a misspelt parameter is answered %s", misspelt.Text)
	}
	for _, text := range []string{"https://a.example/x", "at://alice.example/x/y", "at://did:plc:aaaaaaaaaaaaaaaaaaaaaaaa/app.example.post/3k", "at://did:web:a.example"} {
		id := eliza.offer(t, map[string]any{"to": scout.did, "title": "x", "context": text})
		if got := decode[contract.Handoff](t, scout.get(t, "/api/v1/handoffs/"+id), http.StatusOK).Steps[0].Context; got != text || federation.InlineContext(got) {
			t.Errorf("a link is kept as %s", got)
		}
	}
}
