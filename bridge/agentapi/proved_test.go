package agentapi_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"baton/bridge/agentapi"
	"baton/federation"
)

func TestATokenOfThisAPITellsOtherNetworksTheDID(t *testing.T) {
	w := newWorld(t)
	eliza := w.login(t, "eliza")
	for name, test := range map[string]struct {
		key  []byte
		home federation.HomeID
		text string
		want federation.DID
	}{
		"its own":          {bytes.Repeat([]byte{7}, 32), "gw.example", eliza.token, eliza.did},
		"of another key":   {make([]byte, 32), "gw.example", eliza.token, ""},
		"of another home":  {bytes.Repeat([]byte{7}, 32), "b.example", eliza.token, ""},
		"that is no token": {bytes.Repeat([]byte{7}, 32), "gw.example", "x", ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/evidence/x", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+test.text)
		did, proved := agentapi.Proved(test.key, test.home)(r, time.Now())
		if proved != (test.want != "") || proved && did != test.want {
			t.Errorf("a token %s: %s, %t", name, did, proved)
		}
	}
}
