package airc_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/baton-gateway/baton/bridge/airc"
)

func TestDialectsHaveTheirPaths(t *testing.T) {
	t.Parallel()
	paths := map[string]string{"d1": "/presence", "d2": "/.well-known/airc", "d3": "/api/presence", "": "/.well-known/airc/registry.json"}
	for _, spoken := range []string{"d1", "d2", "d3"} {
		w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Dialects = []string{spoken} })
		for dialect, path := range paths {
			recorder := httptest.NewRecorder()
			w.mux.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			if found, want := recorder.Code != http.StatusNotFound, dialect == spoken || dialect == ""; found != want {
				t.Errorf("with %s alone %s answers %d", spoken, path, recorder.Code)
			}
		}
	}
}
