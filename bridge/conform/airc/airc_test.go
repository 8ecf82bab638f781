package airc_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/baton-gateway/baton/bridge/conform/airc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

func newKey(string) (federation.SigningKey, error) { return identity.NewPerson(), nil }

func TestSuiteFailsAServerThatAcceptsEverything(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	defer server.Close()
	results, err := airc.Run(t.Context(), airc.Config{URL: server.URL, Key: newKey}, nil)
	if err != nil || len(results) == 0 {
		t.Fatalf("%d results: %v", len(results), err)
	}
	for _, r := range results {
		if r.Err == nil {
			t.Errorf("it passes: %s", r)
		}
	}
}

func TestSuiteNeedsAServer(t *testing.T) {
	t.Parallel()
	_, err := airc.Run(t.Context(), airc.Config{URL: "http://127.0.0.1:1", Key: newKey}, nil)
	if _, away := errors.AsType[*federation.UnavailableError](err); !away {
		t.Errorf("got %v", err)
	}
	if _, err := airc.Run(t.Context(), airc.Config{URL: "registry.example", Key: newKey}, nil); err == nil {
		t.Error("it takes an address without a scheme")
	}
}
