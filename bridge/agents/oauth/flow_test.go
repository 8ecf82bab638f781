package oauth_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/agents/oauth"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

// gateway is an authorization server behind a real listener.
type gateway struct {
	*bridgetest.Participants

	url       string
	access    *participant.Service
	documents map[string]string // of clients, by address
	fetches   int
}

func newGateway(tb testing.TB, change ...func(*oauth.Deps)) *gateway {
	tb.Helper()
	g := &gateway{Participants: bridgetest.NewParticipants(tb), documents: map[string]string{}}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	tb.Cleanup(server.Close)
	deps := oauth.Deps{Deps: g.Deps(), Fetch: g.fetch}
	deps.PublicURL, g.url = server.URL, server.URL
	for _, each := range change {
		each(&deps)
	}
	g.access = participant.Open("rest", deps.Deps)
	oauth.New(deps).Mount(mux)
	return g
}

func (g *gateway) fetch(_ context.Context, address string) ([]byte, time.Duration, error) {
	g.fetches++
	text, ok := g.documents[address]
	if !ok {
		return nil, 0, federation.ErrNotFound
	}
	return []byte(text), time.Hour, nil
}

func (g *gateway) pair(tb testing.TB, did federation.DID) string {
	tb.Helper()
	code, _, err := credential.NewPairing(tb.Context(), g.Record.Participants, did, "k", true, time.Now())
	if err != nil {
		tb.Fatal(err)
	}
	return code
}

type host struct {
	g        *gateway
	browser  *http.Client
	id       string // of the client
	redirect string
	verifier string
}

func (g *gateway) host(tb testing.TB) *host {
	tb.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		tb.Fatal(err)
	}
	h := &host{g: g, redirect: "http://127.0.0.1:33418/callback", verifier: rand.Text() + rand.Text()}
	h.browser = &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	status, answer := h.post(tb, "/oauth/register", `{"client_name":"Host","redirect_uris":["http://127.0.0.1/callback","https://host.example/cb","cursor://anysphere.cursor/cb"],"token_endpoint_auth_method":"client_secret_post"}`)
	if h.id, _ = answer["client_id"].(string); status != http.StatusCreated || answer["token_endpoint_auth_method"] != "none" {
		tb.Fatalf("a registration is answered %d %v", status, answer)
	}
	return h
}

// reply is an answer as a browser reads it.
type reply struct {
	status int
	header http.Header
	text   string
}

func (h *host) do(tb testing.TB, method, address string, form url.Values, header ...string) reply {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		tb.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := h.browser.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(text)}
}

// post sends a document or a form as a program, and returns the JSON of the answer.
func (h *host) post(tb testing.TB, path string, body any) (status int, answer map[string]any) {
	tb.Helper()
	text, media := "", "application/json"
	switch body := body.(type) {
	case string:
		text = body
	case url.Values:
		text, media = body.Encode(), "application/x-www-form-urlencoded"
	}
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, h.g.url+path, strings.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Content-Type", media)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil && !errors.Is(err, io.EOF) {
		tb.Fatal(err)
	}
	return response.StatusCode, answer
}

// query returns the parameters of a good authorization request.
func (h *host) query() url.Values {
	sum := sha256.Sum256([]byte(h.verifier))
	return url.Values{
		"response_type": {"code"}, "client_id": {h.id}, "redirect_uri": {h.redirect}, "state": {"xyz"}, "scope": {"handoffs"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}, "resource": {h.g.url + "/mcp"},
	}
}

func (h *host) authorize(tb testing.TB, q url.Values) reply {
	tb.Helper()
	return h.do(tb, http.MethodGet, h.g.url+"/oauth/authorize?"+q.Encode(), nil)
}

var hidden = regexp.MustCompile(`name="form" value="([^"]+)"`)

func formOf(tb testing.TB, page reply) string {
	tb.Helper()
	found := hidden.FindStringSubmatch(page.text)
	if found == nil {
		tb.Fatalf("there is no form in %d %s", page.status, page.text)
	}
	return found[1]
}

// allow posts the form of a page with a pairing code.
func (h *host) allow(tb testing.TB, page reply, code string) reply {
	tb.Helper()
	return h.do(tb, http.MethodPost, h.g.url+"/oauth/authorize", url.Values{"form": {formOf(tb, page)}, "as": {"code"}, "code": {code}})
}

// answerOf returns the parameters that a redirect brings to the client.
func (h *host) answerOf(tb testing.TB, r reply) url.Values {
	tb.Helper()
	location := r.header.Get("Location")
	rest, ok := strings.CutPrefix(location, h.redirect+"?")
	if r.status != http.StatusSeeOther || !ok {
		tb.Fatalf("want a redirect to the client, got %d %q %s", r.status, location, r.text)
	}
	q, err := url.ParseQuery(rest)
	if err != nil {
		tb.Fatal(err)
	}
	return q
}

// code logs in with a pairing code and returns the authorization code.
func (h *host) code(tb testing.TB, did federation.DID) string {
	tb.Helper()
	return h.answerOf(tb, h.allow(tb, h.authorize(tb, h.query()), h.g.pair(tb, did))).Get("code")
}

// redemption returns the form of a good token request.
func (h *host) redemption(code string) url.Values {
	return url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {h.redirect}, "client_id": {h.id}, "code_verifier": {h.verifier},
		"resource": {h.g.url + "/mcp"},
	}
}

func (h *host) refresh(tb testing.TB, token any) (int, map[string]any) {
	tb.Helper()
	text, _ := token.(string)
	return h.post(tb, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {text}, "client_id": {h.id}})
}

// acts returns the DID that a token acts for, "" for an invalid token.
func (g *gateway) acts(tb testing.TB, token any) federation.DID {
	tb.Helper()
	text, _ := token.(string)
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+text)
	who, err := g.access.Authenticate(r, time.Now())
	if err != nil {
		return ""
	}
	return who.DID
}

const ada federation.DID = "did:web:ada.example"

func TestHostLogsInWithABrowserAndAPairingCode(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	h := g.host(t)
	page := h.authorize(t, h.query())
	for _, want := range []string{"<strong>Host</strong>", "127.0.0.1:33418", "/msg Baton pair", "Nobody has checked its name"} {
		if page.status != http.StatusOK || !strings.Contains(page.text, want) {
			t.Errorf("the page is %d and has no %q:\n%s", page.status, want, page.text)
		}
	}
	answer := h.answerOf(t, h.allow(t, page, strings.ToLower(g.pair(t, ada))))
	if answer.Get("state") != "xyz" || answer.Get("iss") != g.url {
		t.Errorf("the client is sent %v", answer)
	}
	status, tokens := h.post(t, "/oauth/token", h.redemption(answer.Get("code")))
	if status != http.StatusOK || g.acts(t, tokens["access_token"]) != ada || tokens["token_type"] != "Bearer" || tokens["scope"] != "handoffs" {
		t.Fatalf("the code is answered %d %v", status, tokens)
	}
	status, next := h.refresh(t, tokens["refresh_token"])
	if status != http.StatusOK || g.acts(t, next["access_token"]) != ada || next["refresh_token"] == tokens["refresh_token"] {
		t.Errorf("a refresh is answered %d %v", status, next)
	}

	again := h.authorize(t, h.query()) // the browser is still logged in
	if !strings.Contains(again.text, "<code>did:web:ada.example</code>") {
		t.Fatalf("the page does not know the browser:\n%s", again.text)
	}
	allowed := h.do(t, http.MethodPost, g.url+"/oauth/authorize", url.Values{"form": {formOf(t, again)}, "as": {"session"}})
	if status, tokens := h.post(t, "/oauth/token", h.redemption(h.answerOf(t, allowed).Get("code"))); status != http.StatusOK || g.acts(t, tokens["access_token"]) != ada {
		t.Errorf("a second login is answered %d %v", status, tokens)
	}
	denied := h.do(t, http.MethodPost, g.url+"/oauth/authorize", url.Values{"form": {formOf(t, again)}, "as": {"nobody"}})
	if answer := h.answerOf(t, denied); answer.Get("error") != "access_denied" || answer.Get("iss") != g.url || answer.Get("state") != "xyz" {
		t.Errorf("a denied login is told as %v", answer)
	}

	sessions, err := g.Record.Sessions(t.Context(), []string{string(ada)}, time.Now())
	if err != nil || len(sessions) != 3 { // of the browser and of both logins
		t.Fatalf("the sessions are %+v, %v", sessions, err)
	}
	for _, s := range sessions {
		if s.Key != "k" || !s.Bound || s.Began == federation.BeganCode && (s.ClientName != "Host" || time.Until(s.Expires) < 29*24*time.Hour) {
			t.Errorf("a session is %+v", s)
		}
	}
}

// The client is a document at its own address, as that of Claude Code.
func TestHostIsTheDocumentAtItsAddress(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	h := g.host(t)
	h.id, h.redirect = "https://host.example/oauth/metadata", "http://localhost:4711/callback"
	g.documents[h.id] = `{"client_id":"https://host.example/oauth/metadata","client_name":"Host","redirect_uris":["http://localhost/callback"],` +
		`"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none"}`
	status, tokens := h.post(t, "/oauth/token", h.redemption(h.code(t, ada)))
	if status != http.StatusOK || g.acts(t, tokens["access_token"]) != ada {
		t.Errorf("the code is answered %d %v", status, tokens)
	}
	if page := h.authorize(t, h.query()); !strings.Contains(page.text, "<code>"+h.id+"</code>") || g.fetches != 1 {
		t.Errorf("after %d fetches the page is %d %s", g.fetches, page.status, page.text)
	}
}

// A gateway without the internet cannot read the document of a client.
func TestHostWithAnUnreadDocumentIsAProgramOnTheMachineOfTheBrowser(t *testing.T) {
	t.Parallel()
	g := newGateway(t, func(d *oauth.Deps) {
		d.Fetch = func(context.Context, string) ([]byte, time.Duration, error) {
			return nil, 0, &federation.UnavailableError{What: "host.example"}
		}
	})
	h := g.host(t)
	h.id, h.redirect = "https://host.example/oauth/metadata", "http://localhost:4711/callback"
	if page := h.authorize(t, h.query()); !strings.Contains(page.text, "Nobody has checked that") {
		t.Errorf("the page is %d %s", page.status, page.text)
	}
	if status, tokens := h.post(t, "/oauth/token", h.redemption(h.code(t, ada))); status != http.StatusOK || g.acts(t, tokens["access_token"]) != ada {
		t.Errorf("the code is answered %d %v", status, tokens)
	}
	for _, redirect := range []string{"https://host.example/cb", "cursor://x/cb", "http://10.0.0.1/cb"} {
		h.redirect = redirect
		if page := h.authorize(t, h.query()); page.status != http.StatusBadRequest {
			t.Errorf("%s is answered %d", redirect, page.status)
		}
	}
	if status, answer := h.post(t, "/oauth/device_authorization", url.Values{"client_id": {h.id}}); status != http.StatusServiceUnavailable {
		t.Errorf("a device is answered %d %v", status, answer)
	}
}

func TestDeviceLogsInWithoutABrowser(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	h := g.host(t)
	begin := func() (map[string]any, func() (int, map[string]any)) {
		_, asked := h.post(t, "/oauth/device_authorization", url.Values{"client_id": {h.id}, "scope": {"handoffs"}})
		code, _ := asked["device_code"].(string)
		return asked, func() (int, map[string]any) {
			return h.post(t, "/oauth/token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {code}, "client_id": {h.id}})
		}
	}
	asked, poll := begin()
	user, _ := asked["user_code"].(string)
	if asked["verification_uri"] != g.url+"/oauth/device" || asked["interval"] != float64(5) || user == "" {
		t.Fatalf("a device is answered %v", asked)
	}
	if status, answer := poll(); status != http.StatusBadRequest || answer["error"] != "authorization_pending" {
		t.Errorf("a poll is answered %d %v", status, answer)
	}
	if status, answer := poll(); status != http.StatusBadRequest || answer["error"] != "slow_down" {
		t.Errorf("a poll at once is answered %d %v", status, answer)
	}
	if page := h.do(t, http.MethodGet, g.url+"/oauth/device", nil); !strings.Contains(page.text, `name="user_code"`) {
		t.Errorf("the page is %d %s", page.status, page.text)
	}
	page := h.do(t, http.MethodPost, g.url+"/oauth/device", url.Values{"user_code": {strings.ToLower(user)}})
	if done := h.allow(t, page, g.pair(t, ada)); done.status != http.StatusOK || !strings.Contains(done.text, "approved") {
		t.Errorf("the approval is answered %d %s", done.status, done.text)
	}
	status, tokens := poll()
	if status != http.StatusOK || g.acts(t, tokens["access_token"]) != ada {
		t.Fatalf("a poll is answered %d %v", status, tokens)
	}
	if status, next := h.refresh(t, tokens["refresh_token"]); status != http.StatusOK {
		t.Errorf("a refresh is answered %d %v", status, next)
	}
	if status, answer := poll(); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("a poll after the tokens is answered %d %v", status, answer)
	}

	asked, poll = begin()
	complete, _ := asked["verification_uri_complete"].(string)
	page = h.do(t, http.MethodGet, complete, nil)
	if done := h.do(t, http.MethodPost, g.url+"/oauth/authorize", url.Values{"form": {formOf(t, page)}, "as": {"nobody"}}); done.status != http.StatusOK {
		t.Errorf("the denial is answered %d %s", done.status, done.text)
	}
	if status, answer := poll(); status != http.StatusBadRequest || answer["error"] != "access_denied" {
		t.Errorf("a denied device is answered %d %v", status, answer)
	}
}

func TestRevokeEndsTheSessionOfAToken(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	h := g.host(t)
	for _, kind := range []string{"access_token", "refresh_token"} {
		_, tokens := h.post(t, "/oauth/token", h.redemption(h.code(t, ada)))
		text, _ := tokens[kind].(string)
		if status, answer := h.post(t, "/oauth/revoke", url.Values{"token": {text}}); status != http.StatusUnauthorized || g.acts(t, tokens["access_token"]) != ada {
			t.Errorf("%s of another client: %d %v", kind, status, answer)
		}
		for range 2 {
			if status, answer := h.post(t, "/oauth/revoke", url.Values{"token": {text}, "client_id": {h.id}}); status != http.StatusOK || answer != nil {
				t.Errorf("%s: %d %v", kind, status, answer)
			}
		}
		if did := g.acts(t, tokens["access_token"]); did != "" {
			t.Errorf("after the end by its %s, a token acts for %s", kind, did)
		}
	}
}
