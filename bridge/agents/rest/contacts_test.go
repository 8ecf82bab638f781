package rest_test

import (
	"net/http"
	"testing"

	"github.com/baton-gateway/baton/bridge/agents/rest"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

func TestContactsAreAllowedBlockedAndListed(t *testing.T) {
	kept := &bridgetest.Contacts{Most: 3}
	w := newWorld(t, func(d *rest.Deps) { d.Messages = kept })
	eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
	put := func(sender, state string) answer {
		return w.ask(t, eliza.token, http.MethodPut, "/api/v1/contacts/"+sender, map[string]any{"state": state})
	}
	for _, tt := range []struct {
		sender, state string
		want          int
		code          string
	}{
		{string(scholar.did), "blocked", http.StatusOK, ""},
		{string(scholar.did), "introduced", http.StatusBadRequest, "usage"},
		{string(eliza.did), "blocked", http.StatusBadRequest, "usage"},
		{"did:", "blocked", http.StatusBadRequest, "usage"},
		{"nobody", "blocked", http.StatusNotFound, "unknown-name"},
		{"did:web:a.example", "allowed", http.StatusOK, ""},
		{"did:web:b.example", "allowed", http.StatusOK, ""},
		{"did:web:c.example", "allowed", http.StatusConflict, "conflict"},
	} {
		if got := put(tt.sender, tt.state); got.Status != tt.want || got.member("code") != tt.code {
			t.Errorf("%s %s is answered %d %s; want %d %s", tt.state, tt.sender, got.Status, got.Text, tt.want, tt.code)
		}
	}
	var all []contract.Contact
	for cursor := ""; ; {
		page := decode[contract.ContactPage](t, eliza.get(t, "/api/v1/contacts?limit=2&cursor="+cursor), http.StatusOK)
		all = append(all, page.Items...)
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	states := map[string]string{}
	for _, c := range all {
		states[c.DID] = c.State
	}
	if len(all) != 3 || states[string(scholar.did)] != "blocked" || states["did:web:a.example"] != "allowed" {
		t.Errorf("the contacts are %+v", all)
	}
	if page := decode[contract.ContactPage](t, scholar.get(t, "/api/v1/contacts"), http.StatusOK); len(page.Items) != 0 {
		t.Errorf("another caller has the contacts %+v", page.Items)
	}
}
