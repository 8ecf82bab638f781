package rest_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/baton-gateway/baton/bridge/agents/rest"
	"github.com/baton-gateway/baton/federation"
)

func TestTokenAuthenticatesOnOtherRoutes(t *testing.T) {
	w := newWorld(t)
	eliza := w.login(t, "eliza")
	for name, test := range map[string]struct {
		api  *world
		text string
		want federation.DID
	}{
		"its own":          {w, eliza.token, eliza.did},
		"of another key":   {newWorld(t, func(d *rest.Deps) { d.TokenKey = make([]byte, 32) }), eliza.token, ""},
		"of another home":  {newWorld(t, func(d *rest.Deps) { d.Home = "b.example" }), eliza.token, ""},
		"that is no token": {w, "x", ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/evidence/x", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+test.text)
		who, ok, err := test.api.link.Authenticate(r)
		if err != nil || ok != (test.want != "") || ok && who.DID != test.want {
			t.Errorf("a token %s: %s, %t, %v", name, who.DID, ok, err)
		}
	}
}
