package rest_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/baton-gateway/baton/bridge/conform"
	"github.com/baton-gateway/baton/bridge/conform/rest"
	"github.com/baton-gateway/baton/federation"
)

// key makes a key whose DID no test looks at.
func key(name string) (federation.SigningKey, error) {
	public, private, err := ed25519.GenerateKey(nil)
	return federation.SigningKey{
		Public: public, DID: federation.DID("did:web:" + name + ".example"),
		Sign: func(_ context.Context, message []byte) ([]byte, error) { return ed25519.Sign(private, message), nil },
	}, err
}

func TestSuiteFailsAServerThatAcceptsEverything(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"challenge":"x","access_token":"x","id":"x","items":[]}`))
	}))
	t.Cleanup(server.Close)
	told := 0
	results, err := rest.Run(t.Context(), rest.Config{URL: server.URL, Key: key}, func(conform.Result) { told++ })
	if err != nil || len(results) < 12 || told != len(results) {
		t.Fatalf("%d results, %d told: %v", len(results), told, err)
	}
	for _, r := range results {
		if r.Err == nil || r.Section == "" || r.Case == "" {
			t.Errorf("%+v", r)
		}
	}
}

func TestSuiteReturnsUnavailableWithoutServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := rest.Run(t.Context(), rest.Config{URL: server.URL, Key: key}, nil)
	if _, away := errors.AsType[*federation.UnavailableError](err); !away {
		t.Errorf("where no server listens: %v", err)
	}
	for _, address := range []string{"", "gw.example", "irc://gw.example", "http://"} {
		if _, err := rest.Run(t.Context(), rest.Config{URL: address, Key: key}, nil); err == nil {
			t.Errorf("%q is taken for an address", address)
		}
	}
}
