package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// rotating assembles the gateway of a folder.
func rotating(t *testing.T, dir string) *server.Rotating {
	t.Helper()
	file, err := configs.Parse(filepath.Join(dir, "baton.toml"),
		"[home]\nname = \"gw.example\"\n[http]\nlisten = \"\"\n[admin]\nlisten = \"\"\n")
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := server.NewRotating(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	return gateway
}

// call asks one of the gateway's listeners.
func call(t *testing.T, mux *http.ServeMux, method, path, body string) (status int, answer map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
	}
	return w.Code, answer
}

// keysFound returns the ids of the keys that others find for the gateway and for its
// registry.
func keysFound(t *testing.T, gateway *server.Rotating) (serverKeys, registry []string) {
	t.Helper()
	w := httptest.NewRecorder()
	gateway.Public.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/.well-known/did.json", http.NoBody))
	keys, err := identity.ParseDocument("did:web:gw.example", w.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		serverKeys = append(serverKeys, federation.KeyID(key))
	}
	_, answer := call(t, gateway.Public, http.MethodGet, "/.well-known/airc/registry.json", "")
	for _, key := range answer["keys"].([]any) {
		registry = append(registry, key.(map[string]any)["kid"].(string))
	}
	if registry[0] != answer["kid"] {
		t.Errorf("the registry names %v, and first %s", answer["kid"], registry[0])
	}
	return serverKeys, registry
}

func TestRotateKeyPublishesBothKeys(t *testing.T) {
	dir := t.TempDir()
	gateway := rotating(t, dir)
	oldServer, oldRegistry := keysFound(t, gateway)
	status, serverKeys := call(t, gateway.Operator, http.MethodPost, "/operator/v1/keys/server/rotate", `{"overlap":"1h","reason":"a drill"}`)
	if status != http.StatusOK || serverKeys["did"] != "did:web:gw.example" || serverKeys["state"] != "active" {
		t.Fatal(status, serverKeys)
	}
	status, registry := call(t, gateway.Operator, http.MethodPost, "/operator/v1/keys/registry/rotate", `{}`)
	if status != http.StatusOK {
		t.Fatal(status, registry)
	}
	wantServer := []string{serverKeys["kid"].(string), oldServer[0]}
	wantRegistry := []string{registry["kid"].(string), oldRegistry[0]}
	check := func(gateway *server.Rotating, when string) {
		gotServer, gotRegistry := keysFound(t, gateway)
		if diff := cmp.Diff([][]string{wantServer, wantRegistry}, [][]string{gotServer, gotRegistry}); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
		if kid := federation.KeyID(gateway.Signs()); kid != wantServer[0] {
			t.Errorf("%s the home signs with %s, want %s", when, kid, wantServer[0])
		}
	}
	check(gateway, "at once")
	if err := gateway.Close(); err != nil {
		t.Fatal(err)
	}
	again := rotating(t, dir)
	check(again, "after a restart")
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestRotateKeyRefusesOtherKeys(t *testing.T) {
	gateway := rotating(t, t.TempDir())
	for path, want := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"endpoint": {`{}`, http.StatusConflict, "not-rotated"},
		"token":    {`{}`, http.StatusBadRequest, "usage"},
		"server":   {`{"overlap":"0s"}`, http.StatusConflict, "not-rotated"},
		"registry": {`{"overlap":"a day"}`, http.StatusBadRequest, "usage"},
	} {
		status, answer := call(t, gateway.Operator, http.MethodPost, "/operator/v1/keys/"+path+"/rotate", want.body)
		if status != want.status || answer["code"] != want.code || answer["detail"] == "" {
			t.Errorf("%s: %d %v, want %d %s", path, status, answer, want.status, want.code)
		}
	}
	if serverKeys, registry := keysFound(t, gateway); len(serverKeys) != 1 || len(registry) != 1 {
		t.Errorf("keys %v, %v: one was rotated", serverKeys, registry)
	}
	if err := gateway.Close(); err != nil {
		t.Error(err)
	}
}
