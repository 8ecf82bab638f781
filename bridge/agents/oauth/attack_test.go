package oauth_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/agents/oauth"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// score counts the tries of an attack, and the accepted ones.
type score struct{ tries, accepted int }

func (s *score) try(accepted bool) {
	s.tries++
	if accepted {
		s.accepted++
	}
}

// SECURITY.md has the numbers of this table.
func TestAuthorizationServerRefusesAttacks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name            string
		attack          func(t *testing.T, s *score)
		tries, accepted int
	}{
		{"a code a second time", replayCode, 12, 2},
		{"a stolen code", stealCode, 8, 0},
		{"PKCE downgrade", downgrade, 9, 0},
		{"redirect confusion", confuseRedirect, 31, 0},
		{"redirect schemes", redirectSchemes, 24, 0},
		{"mixed-up issuer", mixUp, 4, 0},
		{"forms of other sites and browsers", forgeForm, 10, 0},
		{"an operator's session", borrowOperator, 8, 0},
		{"frames", frame, 3, 0},
		{"client documents", badDocuments, 24, 0},
		{"10,000 registrations", floodRegistrations, 10000, 0},
		{"guessed pairing codes", guessPairing, 200, 0},
		{"guessed user codes", guessUser, 100, 0},
		{"refresh tokens", replayRefresh, 9, 1},
		{"device codes", stealDevice, 7, 0},
		{"devices of one address", floodDevices, 100, 16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got score
			tt.attack(t, &got)
			if got.tries != tt.tries || got.accepted != tt.accepted {
				t.Errorf("%d of %d tries were accepted, want %d of %d", got.accepted, got.tries, tt.accepted, tt.tries)
			}
		})
	}
}

// replayCode uses two codes twice, once in ten requests at a time. The tokens of the first use end.
func replayCode(t *testing.T, s *score) {
	t.Helper()
	g := newGateway(t)
	h := g.host(t)
	code := h.code(t, ada)
	_, first := h.post(t, "/oauth/token", h.redemption(code))
	s.try(g.acts(t, first["access_token"]) == ada)
	status, _ := h.post(t, "/oauth/token", h.redemption(code))
	s.try(status == http.StatusOK)
	if did := g.acts(t, first["access_token"]); did != "" {
		t.Errorf("after a second use of its code, a token acts for %s", did)
	}
	if status, _ := h.refresh(t, first["refresh_token"]); status == http.StatusOK {
		t.Error("after a second use of its code, a refresh token is valid")
	}

	code = h.code(t, ada)
	var group sync.WaitGroup
	var issued, valid atomic.Int64
	tokens := make(chan any, 10)
	for range 10 {
		group.Go(func() {
			if status, answer := h.post(t, "/oauth/token", h.redemption(code)); status == http.StatusOK {
				issued.Add(1)
				tokens <- answer["access_token"]
			}
		})
	}
	group.Wait()
	close(tokens)
	for token := range tokens {
		if g.acts(t, token) != "" {
			valid.Add(1)
		}
	}
	for i := range 10 {
		s.try(int64(i) < issued.Load())
	}
	if valid.Load() != 0 {
		t.Errorf("%d of the tokens for a code that was used ten times are valid", valid.Load())
	}
}

func stealCode(t *testing.T, s *score) {
	t.Helper()
	g := newGateway(t)
	h, thief := g.host(t), g.host(t)
	code := h.code(t, ada)
	for _, change := range []func(url.Values){
		func(f url.Values) { f.Set("client_id", thief.id) },
		func(f url.Values) { f.Del("client_id") },
		func(f url.Values) { f.Set("redirect_uri", "https://host.example/cb") },
		func(f url.Values) { f.Set("code_verifier", thief.verifier) },
		func(f url.Values) { f.Del("code_verifier") },
		func(f url.Values) { f.Set("code_verifier", h.verifier[:20]) },
		func(f url.Values) { f.Set("resource", g.url+"/a2a") },
		func(f url.Values) { f.Set("code", code[:len(code)-1]) },
	} {
		form := h.redemption(code)
		change(form)
		status, _ := h.post(t, "/oauth/token", form)
		s.try(status == http.StatusOK)
	}
	if status, answer := h.post(t, "/oauth/token", h.redemption(code)); status != http.StatusOK {
		t.Errorf("the client itself is answered %d %v", status, answer)
	}
}

func downgrade(t *testing.T, s *score) {
	t.Helper()
	g := newGateway(t)
	h := g.host(t)
	for _, change := range []func(url.Values){
		func(q url.Values) { q.Del("code_challenge") },
		func(q url.Values) { q.Del("code_challenge_method") },
		func(q url.Values) { q.Set("code_challenge_method", "plain"); q.Set("code_challenge", h.verifier) },
		func(q url.Values) { q.Set("code_challenge_method", "s256") },
		func(q url.Values) { q.Set("code_challenge", "abc") },
		func(q url.Values) { q.Set("code_challenge", q.Get("code_challenge")+"=") },
		func(q url.Values) { q.Set("response_type", "token") },
		func(q url.Values) { q.Set("response_type", "code token") },
		func(q url.Values) { q.Add("code_challenge", "x") },
	} {
		q := h.query()
		change(q)
		page := h.authorize(t, q)
		s.try(strings.Contains(page.text, `name="form"`))
		if page.status == http.StatusSeeOther && h.answerOf(t, page).Get("error") == "" {
			t.Errorf("a downgrade leads to %s", page.header.Get("Location"))
		}
	}
}

func confuseRedirect(t *testing.T, s *score) {
	t.Helper()
	g := newGateway(t)
	h := g.host(t)
	for _, redirect := range []string{
		"", "https://host.example", "https://host.example/", "https://host.example/cb/", "https://host.example/CB", "https://host.example/cb?x=1",
		"https://host.example/cb#x", "https://host.example/cb/../cb", "https://host.example/%63b", "https://host.example:443/cb", "https://host.example:8443/cb",
		"https://HOST.example/cb", "https://host.example.evil.example/cb", "https://evil.example/cb", "https://host.example@evil.example/cb",
		"https://evil.example/https://host.example/cb", "http://host.example/cb", "//host.example/cb", "/cb", "https:host.example/cb", "https://host.example\\@evil.example/cb",
		"http://127.0.0.1.evil.example/callback", "http://127.0.0.1:80@evil.example/callback", "http://127.0.0.2/callback", "http://localhost/callback",
		"http://[::1]/callback", "https://127.0.0.1/callback", "http://127.0.0.1:1/callback/x", "http://127.0.0.1:1/callback?x", "cursor://evil/cb", "vscode://anysphere.cursor/cb",
	} {
		q := h.query()
		q.Set("redirect_uri", redirect)
		page := h.authorize(t, q)
		s.try(page.status != http.StatusBadRequest || page.header.Get("Location") != "" || strings.Contains(page.text, "evil"))
	}
	h.redirect = "http://127.0.0.1:9/callback"
	if page := h.authorize(t, h.query()); page.status != http.StatusOK {
		t.Errorf("another port is answered %d", page.status)
	}
	h.redirect = "cursor://anysphere.cursor/cb"
	if answer := h.answerOf(t, h.allow(t, h.authorize(t, h.query()), g.pair(t, ada))); answer.Get("code") == "" {
		t.Errorf("a private-use scheme is sent %v", answer)
	}
	// A registration is free: its client may not use this gateway to lead a browser elsewhere.
	h.redirect = "https://host.example/cb"
	q := h.query()
	q.Del("code_challenge")
	if page := h.authorize(t, q); page.header.Get("Location") != "" || !strings.Contains(page.text, "error=invalid_request") {
		t.Errorf("an error leads to %q %s", page.header.Get("Location"), page.text)
	}
}

func redirectSchemes(t *testing.T, s *score) {
	t.Helper()
	g := newGateway(t)
	h := g.host(t)
	for _, redirect := range []string{
		"javascript:alert(1)", "javascript://host.example/%0aalert(1)", "JavaScript://x/y", "data:text/html,x", "data://x/y", "file:///etc/passwd", "vbscript://x/y",
		"blob://x/y", "about://blank/x", "intent://x/y", "ftp://host.example/x", "ws://host.example/x", "http://host.example/cb", "http://192.168.0.1/cb",
		"https:///cb", "https://user@host.example/cb", "https://host.example/cb#", "com.example.app:callback", "", "callback", "//host.example/cb",
		"https://host.example/a b", "https://host.example/" + strings.Repeat("a", 512), "https://host.example/é",
	} {
		status, answer := h.post(t, "/oauth/register", `{"redirect_uris":["`+redirect+`"]}`)
		s.try(status == http.StatusCreated || answer["client_id"] != nil)
	}
}

// mixUp looks for answers without the issuer, and for codes and tokens of another gateway.
func mixUp(t *testing.T, s *score) {
	t.Helper()
	g, other := newGateway(t), newGateway(t, func(d *oauth.Deps) { d.Home, d.TokenKey = "other.example", []byte("another key of thirty-two bytes.") })
	h := g.host(t)
	page := h.authorize(t, h.query())
	denied := h.do(t, http.MethodPost, g.url+"/oauth/authorize", url.Values{"form": {formOf(t, page)}, "as": {"nobody"}})
	s.try(h.answerOf(t, denied).Get("iss") != g.url)
	answer := h.answerOf(t, h.allow(t, page, g.pair(t, ada)))
	s.try(answer.Get("iss") != g.url)
	_, tokens := h.post(t, "/oauth/token", h.redemption(answer.Get("code")))
	s.try(other.acts(t, tokens["access_token"]) != "")
	elsewhere := *h
	elsewhere.g = other
	form := elsewhere.redemption(h.code(t, ada))
	status, _ := elsewhere.post(t, "/oauth/token", form)
	s.try(status == http.StatusOK)
}

func forgeForm(t *testing.T, s *score) {
	t.Helper()
	g := newGateway(t)
	h, attacker := g.host(t), g.host(t)
	first := h.authorize(t, h.query())
	h.answerOf(t, h.allow(t, first, g.pair(t, ada))) // the browser is logged in
	page := h.authorize(t, h.query())
	own, foreign := formOf(t, page), formOf(t, attacker.authorize(t, attacker.query()))
	post := func(by *host, form, as string, header ...string) {
		r := by.do(t, http.MethodPost, g.url+"/oauth/authorize", url.Values{"form": {form}, "as": {as}}, header...)
		s.try(r.header.Get("Location") != "")
	}
	post(h, own, "session", "Origin", "https://evil.example")
	post(h, own, "session", "Sec-Fetch-Site", "cross-site")
	post(h, own, "session", "Sec-Fetch-Site", "same-site")
	post(h, own, "session", "Origin", "null")
	post(h, own[1:], "session")
	post(h, "", "session")
	post(h, foreign, "session") // the attacker's request in the browser of the person
	post(attacker, own, "session")
	post(attacker, foreign, "session") // a browser without a login
	get := h.do(t, http.MethodGet, g.url+"/oauth/authorize?"+url.Values{"form": {own}, "as": {"session"}}.Encode(), nil)
	s.try(get.header.Get("Location") != "")
	if answer := h.answerOf(t, h.do(t, http.MethodPost, g.url+"/oauth/authorize", url.Values{"form": {own}, "as": {"session"}}, "Origin", g.url, "Sec-Fetch-Site", "same-origin")); answer.Get("code") == "" {
		t.Errorf("the person itself is sent %v", answer)
	}
}

// borrowOperator sends the page the cookie of the operator page, whose session has no DID.
func borrowOperator(t *testing.T, s *score) {
	t.Helper()
	g := newGateway(t, func(d *oauth.Deps) { d.OperatorPage = "http://127.0.0.1:8081/ui/pair" })
	h := g.host(t)
	cookie := "baton_session=" + strings.Repeat("A", 26)
	page := h.do(t, http.MethodGet, g.url+"/oauth/authorize?"+h.query().Encode(), nil, "Cookie", cookie)
	s.try(strings.Contains(page.text, `value="session"`))
	if !strings.Contains(page.text, `href="http://127.0.0.1:8081/ui/pair"`) {
		t.Errorf("on the machine of the gateway the page links to no operator page: %s", page.text)
	}
	for _, as := range []string{"session", "operator", "code", "new", "", "did", "admin"} {
		form := url.Values{"form": {formOf(t, page)}, "as": {as}, "did": {string(ada)}, "code": {string(ada)}, "name": {"ada"}, "reason": {"a test"}}
		got := h.do(t, http.MethodPost, g.url+"/oauth/authorize", form, "Cookie", cookie)
		s.try(got.header.Get("Location") != "")
	}
}

func frame(t *testing.T, s *score) {
	t.Helper()
	g := newGateway(t)
	h := g.host(t)
	for redirect, source := range map[string]string{
		"http://127.0.0.1:33418/callback": "http://127.0.0.1:33418", "https://host.example/cb": "https://host.example", "cursor://anysphere.cursor/cb": "cursor:",
	} {
		h.redirect = redirect
		page := h.authorize(t, h.query())
		policy := page.header.Get("Content-Security-Policy")
		s.try(!strings.Contains(policy, "frame-ancestors 'none'") || !strings.HasSuffix(policy, "form-action 'self' "+source) || page.header.Get("X-Frame-Options") != "DENY" ||
			strings.Contains(page.text, "<script"))
	}
}

// badDocuments names clients at private addresses, and clients with bad documents.
func badDocuments(t *testing.T, s *score) {
	t.Helper()
	called := 0
	inside := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called++ }))
	t.Cleanup(inside.Close)
	guarded := identity.NewClient(identity.FetchConfig{Timeout: 5 * time.Second, MaxBytes: 65536, PerHost: 100})
	private := newGateway(t, func(d *oauth.Deps) { d.Fetch = guarded.Fetch })
	try := func(g *gateway, id string) {
		h := g.host(t)
		h.id = id
		accepted := false
		for _, h.redirect = range []string{"https://host.example/cb", "http://127.0.0.1:1/callback"} {
			page := h.authorize(t, h.query())
			accepted = accepted || page.status == http.StatusOK || page.header.Get("Location") != ""
		}
		s.try(accepted)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(inside.URL, "https://"), ":")
	for _, host := range []string{
		"127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port, "[::ffff:127.0.0.1]:" + port, "10.0.0.1", "192.168.1.1", "169.254.169.254", "[fd00::1]", "0.0.0.0:" + port, "2130706433:" + port, "0x7f.1:" + port,
	} {
		try(private, "https://"+host+"/client")
	}
	if called > 0 {
		t.Errorf("a private address was called %d times", called)
	}

	big := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 10<<20)) }))
	t.Cleanup(big.Close)
	config := big.Client().Transport.(*http.Transport).TLSClientConfig //nolint:forcetypeassert // of this server
	open := identity.NewClient(identity.FetchConfig{Timeout: 5 * time.Second, MaxBytes: 65536, PerHost: 100, AllowPrivate: true, TLS: config})
	try(newGateway(t, func(d *oauth.Deps) { d.Fetch = open.Fetch }), big.URL+"/client")

	g := newGateway(t)
	const at = "https://host.example/client"
	for _, text := range []string{
		`{"client_id":"https://other.example/client","redirect_uris":["https://host.example/cb"]}`, `{"redirect_uris":["https://host.example/cb"]}`,
		`{"client_id":"` + at + `","redirect_uris":["https://evil.example/cb"]}`, `{"client_id":"` + at + `"}`, `[]`, `not JSON`,
		`{"client_id":"` + at + `","client_id":"` + at + `","redirect_uris":["https://host.example/cb"]}`,
		`{"client_id":"` + at + `","redirect_uris":["https://host.example/cb"],"token_endpoint_auth_method":"client_secret_basic"}`,
		`{"client_id":"` + at + `","redirect_uris":["https://host.example/cb"],"x":"` + strings.Repeat("a", 17000) + `"}`,
	} {
		id := fmt.Sprintf("%s%d", at, s.tries) // none is cached
		g.documents[id] = strings.ReplaceAll(text, at, id)
		try(g, id)
	}
	for _, id := range []string{"https://host.example", "http://host.example/client", "https://host.example/a/../client"} {
		g.documents[id] = `{"client_id":"` + id + `","redirect_uris":["https://host.example/cb"]}`
		try(g, id)
	}
}

// floodRegistrations checks that registrations are not stored.
func floodRegistrations(t *testing.T, s *score) {
	t.Helper()
	g := newGateway(t)
	h := g.host(t)
	before, err := g.Record.Growth(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10000 {
		status, _ := h.post(t, "/oauth/register", fmt.Sprintf(`{"client_name":"flood %d","redirect_uris":["https://flood.example/%d"]}`, i, i))
		if status != http.StatusCreated {
			t.Fatalf("a registration is answered %d", status)
		}
		s.try(false)
	}
	after, err := g.Record.Growth(t.Context(), time.Now())
	if err != nil || after != before {
		t.Errorf("the record grew from %d to %d bytes, %v", before, after, err)
	}
	g.Logins = 60
	limited := 0
	for range 100 {
		if status, _ := h.post(t, "/oauth/register", `{"redirect_uris":["https://flood.example/"]}`); status == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < 39 {
		t.Errorf("%d of 100 registrations of one address were refused", limited)
	}
}

func guessPairing(t *testing.T, s *score) {
	t.Helper()
	g := newGateway(t)
	h := g.host(t)
	code, page := g.pair(t, ada), h.authorize(t, h.query())
	statuses := map[int]int{}
	for i := range 200 {
		got := h.allow(t, page, fmt.Sprintf("AAAA-%04d", i))
		s.try(got.header.Get("Location") != "")
		statuses[got.status]++
	}
	if statuses[http.StatusUnauthorized] != 5 || statuses[http.StatusTooManyRequests] != 195 {
		t.Errorf("the guesses are answered %v", statuses)
	}
	if got := h.allow(t, page, code); got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" {
		t.Errorf("then the right code is answered %d", got.status)
	}
}

func guessUser(t *testing.T, s *score) {
	t.Helper()
	g := newGateway(t)
	h := g.host(t)
	_, asked := h.post(t, "/oauth/device_authorization", url.Values{"client_id": {h.id}})
	for i := range 100 {
		got := h.do(t, http.MethodGet, fmt.Sprintf("%s/oauth/device?user_code=AAAA-%04d", g.url, i), nil)
		s.try(strings.Contains(got.text, `name="form"`))
	}
	complete, _ := asked["verification_uri_complete"].(string)
	if got := h.do(t, http.MethodGet, complete, nil); got.status != http.StatusTooManyRequests {
		t.Errorf("then the right code is answered %d", got.status)
	}
}

// replayRefresh uses a refresh token twice, by other clients and for other uses.
func replayRefresh(t *testing.T, s *score) {
	t.Helper()
	g := newGateway(t)
	h, thief := g.host(t), g.host(t)
	_, tokens := h.post(t, "/oauth/token", h.redemption(h.code(t, ada)))
	status, _ := thief.refresh(t, tokens["refresh_token"])
	s.try(status == http.StatusOK)
	nameless := *h
	nameless.id = ""
	status, _ = nameless.refresh(t, tokens["refresh_token"])
	s.try(status == http.StatusOK)
	status, _ = h.refresh(t, tokens["access_token"])
	s.try(status == http.StatusOK)
	s.try(g.acts(t, tokens["refresh_token"]) != "")
	_, err := g.access.Refresh(t.Context(), tokens["refresh_token"].(string), "", time.Now()) //nolint:forcetypeassert // a test
	s.try(err == nil)                                                                         // at REST
	status, next := h.refresh(t, tokens["refresh_token"])
	s.try(status == http.StatusOK)
	status, _ = h.refresh(t, tokens["refresh_token"])
	s.try(status == http.StatusOK)
	status, _ = h.refresh(t, next["refresh_token"])
	s.try(status == http.StatusOK)
	s.try(g.acts(t, next["access_token"]) != "")
}

func stealDevice(t *testing.T, s *score) {
	t.Helper()
	g := newGateway(t)
	h, thief := g.host(t), g.host(t)
	_, asked := h.post(t, "/oauth/device_authorization", url.Values{"client_id": {h.id}})
	code, _ := asked["device_code"].(string)
	user, _ := asked["user_code"].(string)
	poll := func(by *host, code string) (int, map[string]any) {
		return by.post(t, "/oauth/token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {code}, "client_id": {by.id}})
	}
	page := h.do(t, http.MethodPost, g.url+"/oauth/device", url.Values{"user_code": {user}})
	form := formOf(t, page)
	h.allow(t, page, g.pair(t, ada))
	status, _ := poll(thief, code)
	s.try(status == http.StatusOK)
	status, _ = poll(h, user)
	s.try(status == http.StatusOK)
	status, _ = poll(h, "")
	s.try(status == http.StatusOK)
	second := h.do(t, http.MethodPost, g.url+"/oauth/authorize", url.Values{"form": {form}, "as": {"code"}, "code": {g.pair(t, "did:web:mallory.example")}})
	s.try(second.status == http.StatusOK)
	got := thief.do(t, http.MethodPost, g.url+"/oauth/device", url.Values{"user_code": {user}})
	s.try(strings.Contains(got.text, `name="form"`))
	if status, tokens := poll(h, code); status != http.StatusOK || g.acts(t, tokens["access_token"]) != ada {
		t.Errorf("the device is answered %d %v", status, tokens)
	}
	status, _ = poll(h, code)
	s.try(status == http.StatusOK)
	cross := thief.do(t, http.MethodPost, g.url+"/oauth/device", url.Values{"user_code": {user}}, "Sec-Fetch-Site", "cross-site")
	s.try(strings.Contains(cross.text, `name="form"`))
}

func floodDevices(t *testing.T, s *score) {
	t.Helper()
	g := newGateway(t)
	h := g.host(t)
	for range 100 {
		status, _ := h.post(t, "/oauth/device_authorization", url.Values{"client_id": {h.id}})
		s.try(status == http.StatusOK)
	}
}

// blocked is the DID that an operator blocked.
type blocked federation.DID

// Blocked implements [bridge.Blocks].
func (b blocked) Blocked(_ context.Context, s federation.Source) error {
	if slices.Contains(s.DIDs, federation.DID(b)) {
		return &federation.RefusalError{Code: federation.PolicyDenied}
	}
	return nil
}

func TestBlockedPartyLogsInNoHost(t *testing.T) {
	t.Parallel()
	const mallory federation.DID = "did:web:mallory.example"
	g := newGateway(t, func(d *oauth.Deps) { d.Blocks = blocked(mallory) })
	h := g.host(t)
	page := h.authorize(t, h.query())
	if got := h.allow(t, page, g.pair(t, mallory)); got.header.Get("Location") != "" || got.status != http.StatusForbidden {
		t.Errorf("its code on the page is answered %d", got.status)
	}
	if _, err := g.access.Redeem(t.Context(), g.pair(t, mallory), netip.MustParsePrefix("192.0.2.1/32"), "192.0.2.1", time.Now()); err == nil {
		t.Error("its code is redeemed")
	}
	if answer := h.answerOf(t, h.allow(t, page, g.pair(t, ada))); answer.Get("code") == "" {
		t.Errorf("another party is sent %v", answer)
	}
}
