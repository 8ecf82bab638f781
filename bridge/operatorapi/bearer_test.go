package operatorapi_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"baton/bridge/operatorapi"
	"baton/federation"
)

// showFrom sends a request with a token from an address, and returns the answer.
func (b bearer) showFrom(t *testing.T, address, token string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, operatorapi.Prefix+"links", http.NoBody)
	r.RemoteAddr = address
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	b.mux.ServeHTTP(w, r)
	return w
}

func TestAnAddressThatGuessesTokensIsThrottled(t *testing.T) {
	b := newBearer(t)
	const address = "198.51.100.7:1234"
	reader, fresh := b.tokens[federation.ReadScope], b.tokens[federation.AdminScope]
	if w := b.showFrom(t, address, reader); w.Code != http.StatusOK {
		t.Fatalf("a good token is answered %d %s", w.Code, w.Body)
	}
	for i := range 10 {
		if w := b.showFrom(t, address, "guess"+strconv.Itoa(i)); w.Code != http.StatusUnauthorized {
			t.Fatalf("guess %d is answered %d, want 401", i, w.Code)
		}
	}
	for name, token := range map[string]string{"another guess": "guess10", "a good token that this process never saw": fresh} {
		w := b.showFrom(t, address, token)
		if after, err := strconv.Atoi(w.Header().Get("Retry-After")); w.Code != http.StatusTooManyRequests || err != nil || after < 1 {
			t.Errorf("%s is answered %d with Retry-After %q, want 429", name, w.Code, w.Header().Get("Retry-After"))
		}
	}
	if w := b.showFrom(t, address, reader); w.Code != http.StatusOK {
		t.Errorf("an operator who was admitted before is answered %d behind the same address", w.Code)
	}
	if w := b.showFrom(t, "203.0.113.9:1", fresh); w.Code != http.StatusOK {
		t.Errorf("an operator elsewhere is answered %d", w.Code)
	}
}
