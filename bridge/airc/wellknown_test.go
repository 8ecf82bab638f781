package airc_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

func TestDIDWebDocumentOfAnAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	status, text, err := scout.Do(t.Context(), http.MethodGet, "/airc/gw.example/scout_7/did.json", nil)
	if err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	keys, err := identity.ParseDocument("did:web:gw.example:airc:gw.example:scout_7", text)
	if err != nil || len(keys) != 1 || string(identity.KeyDID(keys[0])) != scout.DID {
		t.Errorf("its key is %v (%v), want that of %s", keys, err, scout.DID)
	}
	var document struct{ AlsoKnownAs []federation.DID }
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]federation.DID{federation.DID(scout.DID), identity.KeyDID(signingKey(0x01).Public)}, document.AlsoKnownAs); diff != "" {
		t.Error(diff)
	}
}

func TestDIDWebDocumentIsOnlyOfAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	for _, path := range []string{"/airc/gw.example/eliza/did.json", "/airc/peer.example/scout_7/did.json"} {
		if status, answer, err := scout.Call(t.Context(), http.MethodGet, path, nil); err != nil || status != http.StatusNotFound || answer["error"] != "identity_not_found" {
			t.Errorf("%s: %d %v %v, want 404", path, status, answer, err)
		}
	}
}
