package admin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/federation"
)

func needed() map[string]federation.Scope {
	const read, operate, administer = federation.ReadScope, federation.OperateScope, federation.AdminScope
	return map[string]federation.Scope{
		"GET handoffs":                        read,
		"GET handoffs/{id}":                   read,
		"GET handoffs/{id}/passport":          read,
		"GET held":                            read,
		"POST held/{id}/{verb}":               operate,
		"POST handoffs":                       operate,
		"POST handoffs/{id}/{verb}":           operate,
		"POST handoffs/{id}/orphan/end":       administer,
		"POST peers/{name}/compare":           operate,
		"GET events/{id}/explain":             read,
		"GET dids/{did}/explain":              read,
		"GET place":                           read,
		"POST blobs":                          operate,
		"GET inboxes/{did}":                   read,
		"POST inboxes/{did}/ack":              operate,
		"GET links":                           read,
		"GET links/{name}":                    read,
		"POST links/{name}/{verb}":            operate,
		"GET keys":                            read,
		"GET doctor":                          read,
		"POST doctor":                         operate,
		"POST erasures":                       administer,
		"GET policy":                          read,
		"GET sessions":                        read,
		"GET status":                          read,
		"POST config/reload":                  administer,
		"POST clock/accept":                   administer,
		"POST log/level":                      operate,
		"POST pairing-codes":                  administer,
		"GET feeds":                           read,
		"GET feeds/shape":                     read,
		"POST feeds/{id}/{verb}":              operate,
		"GET dead":                            read,
		"GET dead/{id}":                       read,
		"POST dead/{id}/{verb}":               operate,
		"GET peers":                           read,
		"GET peers/{name}":                    read,
		"POST peers":                          administer,
		"POST inboxes/{did}/move":             administer,
		"POST peers/{name}/mode":              administer,
		"DELETE peers/{name}":                 administer,
		"GET bindings":                        read,
		"PUT bindings/{network}/{name...}":    administer,
		"DELETE bindings/{network}/{name...}": administer,
		"POST keys/{name}/rotate":             administer,
		"POST backup":                         administer,
		"GET tokens":                          read,
		"GET webhooks":                        read,
		"GET webhooks/{id}":                   read,
		"POST webhooks/{id}/{verb}":           operate,
		"POST tokens":                         administer,
		"POST tokens/{name}/revoke":           administer,
		"POST handles/{handle}/release":       administer,
		"POST sessions/{did}/end":             administer,
		"GET relay":                           read,
		"GET troubles":                        read,
		"GET audit":                           read,
		"GET blocks":                          read,
		"POST blocks":                         operate,
		"DELETE blocks/{what...}":             operate,
		"GET top":                             read,
	}
}

// bearer is a house whose operators show tokens.
type bearer struct {
	*house

	tokens map[federation.Scope]string
}

func newBearer(t *testing.T) bearer {
	t.Helper()
	b := bearer{newHouseFor(t, admin.Bearers), make(map[federation.Scope]string)}
	for _, scope := range []federation.Scope{federation.ReadScope, federation.OperateScope, federation.AdminScope} {
		b.tokens[scope] = b.token(t, string(scope), scope, time.Hour)
	}
	return b
}

func (b bearer) token(t *testing.T, name string, scope federation.Scope, life time.Duration) string {
	t.Helper()
	text, kept, err := federation.NewOperatorToken(strings.NewReader(strings.Repeat(name, 32)))
	if err != nil {
		t.Fatal(err)
	}
	kept.Name, kept.Scope, kept.Created = name, scope, time.Now()
	kept.Expires = kept.Created.Add(life)
	if err := b.record.AddToken(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	return text
}

// admits sends an empty request and returns the code of the problem that it is turned
// away with, "" if it is not.
func (b bearer) admits(t *testing.T, pattern, authorization string) string {
	t.Helper()
	method, path, _ := strings.Cut(pattern, " ")
	r := httptest.NewRequestWithContext(t.Context(), method, admin.Prefix+path, http.NoBody)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	b.mux.ServeHTTP(w, r)
	var p admin.ProblemError
	if w.Code < http.StatusBadRequest {
		return ""
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%s answers %d %s", pattern, w.Code, w.Body)
	}
	want := map[string]int{admin.CodeUnauthorized: http.StatusUnauthorized, admin.CodeForbidden: http.StatusForbidden}[p.Code]
	if want == 0 {
		return "" // the answer to an admitted caller is a problem of the request
	}
	if asked := w.Header().Get("WWW-Authenticate"); w.Code != want || (asked == "Bearer") != (want == http.StatusUnauthorized) {
		t.Errorf("%s answers %s with %d, and asks for %q", pattern, p.Code, w.Code, asked)
	}
	return p.Code
}

func TestRoutesNeedTheirScope(t *testing.T) {
	if diff := cmp.Diff(needed(), admin.Routes()); diff != "" {
		t.Fatalf("routes (-want +got):\n%s", diff)
	}
	b := newBearer(t)
	routes := needed()
	routes["GET nothing"] = federation.ReadScope // only operators may know which routes exist
	for pattern, needs := range routes {
		if got := b.admits(t, pattern, ""); got != admin.CodeUnauthorized {
			t.Errorf("%s without a token: %q", pattern, got)
		}
		for scope, token := range b.tokens {
			want := admin.CodeForbidden
			if scope.Covers(needs) {
				want = ""
			}
			if got := b.admits(t, pattern, "Bearer "+token); got != want {
				t.Errorf("%s with scope %s: %q, want %q", pattern, scope, got, want)
			}
		}
	}
}

func TestAccessRefusesInvalidTokens(t *testing.T) {
	b := newBearer(t)
	token := b.tokens[federation.AdminScope]
	for name, authorization := range map[string]string{
		"another scheme":   "Basic " + token,
		"no scheme":        token,
		"nothing after it": "Bearer ",
		"its digest":       "Bearer " + string(digest(token)),
		"a part of it":     "Bearer " + token[:len(token)-1],
		"one that is over": "Bearer " + b.token(t, "over", federation.AdminScope, -time.Second),
		"two at once":      "Bearer " + token + " " + token,
	} {
		if got := b.admits(t, "GET links", authorization); got != admin.CodeUnauthorized {
			t.Errorf("%s: %q, want %q", name, got, admin.CodeUnauthorized)
		}
	}
	if got := b.admits(t, "GET links", "bearer "+token); got != "" {
		t.Errorf("the scheme in lower case: %q", got)
	}
}

func digest(token string) []byte { d := federation.DigestToken(token); return d[:] }

func TestAccessIsUnavailableWithoutTheRecord(t *testing.T) {
	b := newBearer(t)
	if err := b.record.Close(); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, admin.Prefix+"links", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+b.tokens[federation.AdminScope])
	w := httptest.NewRecorder()
	b.mux.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("answers %d %s, want 503", w.Code, w.Body)
	}
}

func TestAuditNamesTheToken(t *testing.T) {
	b := newBearer(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, admin.Prefix+"tokens", strings.NewReader(`{"scope":"read","name":"ben","reason":"new here"}`))
	r.Header.Set("Authorization", "Bearer "+b.tokens[federation.AdminScope])
	w := httptest.NewRecorder()
	b.mux.ServeHTTP(w, r)
	var made admin.NewToken
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusCreated {
		t.Fatalf("answers %d %s (%v)", w.Code, w.Body, err)
	}
	if got := b.admits(t, "GET links", "Bearer "+made.Text); got != "" {
		t.Errorf("the new token: %q", got)
	}
	changes, err := b.record.Changes(t.Context(), federation.ChangeFilter{}, 0, 10)
	if err != nil || len(changes) != 1 {
		t.Fatalf("noted %+v, %v", changes, err)
	}
	want := federation.Change{ID: 1, At: changes[0].At, Actor: "token:admin", What: "token create", Subject: "ben read", Reason: "new here"}
	if diff := cmp.Diff(want, changes[0]); diff != "" {
		t.Errorf("noted (-want +got):\n%s", diff)
	}
}

// showFrom sends a request with a token from an address, and returns the answer.
func (b bearer) showFrom(t *testing.T, address, token string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, admin.Prefix+"links", http.NoBody)
	r.RemoteAddr = address
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	b.mux.ServeHTTP(w, r)
	return w
}

func TestAccessIsRateLimitedByAddress(t *testing.T) {
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
