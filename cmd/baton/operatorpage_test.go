package main_test

import (
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func (h *house) operatorToken(t *testing.T, scope string) string {
	t.Helper()
	var made struct{ Token string }
	h.asks(t, &made, "token", "create", "--scope", scope, "--name", scope+"-"+filepath.Base(t.TempDir()), "--reason", "a test")
	h.secrets = append(h.secrets, made.Token)
	return made.Token
}

// populated is a village with finished handoffs, one that waits, and a dead letter.
func populated(t *testing.T) (v *village, finished, waiting string) {
	t.Helper()
	v = newVillage(t)
	var filed struct{ ID string }
	v.asks(t, &filed, "handoff", "offer", "--from", ann, "--to", v.scout.DID, "--channel", "#ops", "--title", "Cite three sources on \u202ereversed")
	finished = filed.ID
	v.sees(t, "the offer", isStep("offer", finished))
	_, requester := v.reads(t, "system:handshake_request")
	if status, answer, err := v.scout.Consent(t.Context(), requester, "accept"); err != nil || status != http.StatusOK {
		t.Fatalf("consent: %d, %v, %v", status, answer, err)
	}
	request, from := v.reads(t, "task:request")
	answer := map[string]any{"type": "ack", "data": map[string]any{"replyTo": request, "status": "received"}}
	if status, got, err := v.scout.Send(t.Context(), from, "on it", answer); err != nil || status != http.StatusCreated {
		t.Fatalf("accept: %d, %v, %v", status, got, err)
	}
	v.sees(t, "the accept", isStep("accept", finished))
	v.asks(t, &filed, "handoff", "complete", finished, "--from", v.scout.DID, "--note", "Three sources: two journals and <b>a preprint</b>.")
	v.sees(t, "the end", isStep("complete", finished))
	v.asks(t, &struct{}{}, "feed", "hold", "lab", "--reason", "their server moves")
	v.asks(t, &filed, "handoff", "offer", "--from", ann, "--open", "--channel", "#ops", "--title", "Summarise the minutes")
	v.asks(t, &struct{}{}, "feed", "fail", filed.ID, "--reason", "a test")
	v.asks(t, &filed, "handoff", "offer", "--from", ann, "--open", "--channel", "#ops", "--title", "Translate the abstract")
	v.asks(t, &struct{}{}, "feed", "release", "lab")
	v.sees(t, "the second open offer", isStep("offer", filed.ID))
	logIn(t, v.url())
	return v, finished, filed.ID
}

// tab is a browser without scripts: it keeps cookies and follows no redirect.
type tab struct {
	base string
	http *http.Client
}

func newTab(t *testing.T, h *house) *tab {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &tab{"http://" + h.admin, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// seen is the answer to a tab.
type seen struct {
	*http.Response

	text string
}

// sends sends a form, or without one a GET, with headers.
func (b *tab) sends(t *testing.T, path string, form url.Values, header ...string) seen {
	t.Helper()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	request, err := http.NewRequestWithContext(t.Context(), method, b.base+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := b.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return seen{response, string(text)}
}

// wants sends a request whose answer must have a status.
func (b *tab) wants(t *testing.T, status int, path string, form url.Values, header ...string) seen {
	t.Helper()
	got := b.sends(t, path, form, header...)
	if got.StatusCode != status {
		t.Errorf("%s %v is answered %d, want %d", path, header, got.StatusCode, status)
	}
	return got
}

// loggedIn is a tab with a session of a token.
func loggedIn(t *testing.T, h *house, token string) *tab {
	t.Helper()
	b := newTab(t, h)
	b.wants(t, http.StatusSeeOther, "/ui/login", url.Values{"token": {token}})
	return b
}

// csrf returns the secret of the forms of a session.
func (b *tab) csrf(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(b.sends(t, "/ui/links", nil).text)
	if found == nil {
		t.Fatal("the page has no form of the session")
	}
	return found[1]
}

func TestOperatorPageNeedsASession(t *testing.T) {
	h := newHouse(t)
	h.start(t)
	token := h.operatorToken(t, "read")
	b := newTab(t, h)
	for path, to := range map[string]string{
		"/": "/ui/", "/ui/feeds?cursor=3": "/ui/login?next=%2Fui%2Ffeeds%3Fcursor%3D3", "/ui/events": "/ui/login?next=%2Fui%2Fevents", "/ui/none": "/ui/login?next=%2Fui%2Fnone",
	} {
		if got := b.wants(t, http.StatusSeeOther, path, nil).Header.Get("Location"); got != to {
			t.Errorf("%s leads to %s, want %s", path, got, to)
		}
	}
	for _, path := range []string{"/ui/logout", "/ui/links", "/ui/act/feeds/lab/hold"} {
		b.wants(t, http.StatusForbidden, path, url.Values{"csrf": {"x"}, "reason": {"x"}})
	}
	form := b.wants(t, http.StatusOK, "/ui/login?next=/ui/dead", nil).text
	for _, part := range []string{`<label for="token">Operator token</label>`, `type="password"`, ">Log in</button>", `name="next" value="/ui/dead"`} {
		if !strings.Contains(form, part) {
			t.Errorf("the form of the login lacks %s", part)
		}
	}
	wrong := b.wants(t, http.StatusUnauthorized, "/ui/login", url.Values{"token": {"baton_op_wrong"}})
	if !strings.Contains(wrong.text, `role="alert"`) || strings.Contains(wrong.text, "baton_op_wrong") {
		t.Errorf("a wrong token is answered\n%s", wrong.text)
	}
	good := b.wants(t, http.StatusSeeOther, "/ui/login", url.Values{"token": {token}, "next": {"/ui/dead?cursor=3"}})
	if got := good.Header.Get("Location"); got != "/ui/dead?cursor=3" {
		t.Errorf("the login leads to %s", got)
	}
	cookie := good.Cookies()[0]
	if cookie.Name != "baton_session" || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Secure || strings.Contains(cookie.Value, token) {
		t.Errorf("the cookie is %v", cookie)
	}
	if got := b.wants(t, http.StatusSeeOther, "/ui/", nil).Header.Get("Location"); got != "/ui/links" {
		t.Errorf("/ui/ leads to %s", got)
	}
	if page := b.wants(t, http.StatusOK, "/ui/links", nil).text; strings.Contains(page, token) || strings.Contains(page, cookie.Value) {
		t.Error("the page has a secret")
	}
	b.wants(t, http.StatusSeeOther, "/ui/logout", url.Values{"csrf": {b.csrf(t)}})
	b.wants(t, http.StatusSeeOther, "/ui/links", nil)
}

func TestOperatorPageLoginRedirectsOnlyToThePage(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	token := h.operatorToken(t, "read")
	for _, next := range []string{"https://evil.example/ui/", "//evil.example/ui/x", "/\\evil.example", "/metrics", "/ui/../metrics", "/ui/%2e%2e/metrics", "ui/links", "javascript:x", ""} {
		got := newTab(t, h).wants(t, http.StatusSeeOther, "/ui/login", url.Values{"token": {token}, "next": {next}})
		if to := got.Header.Get("Location"); to != "/ui/links" {
			t.Errorf("next %q leads to %s", next, to)
		}
	}
}

func TestOperatorPageSessionEndsWithItsToken(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	b := loggedIn(t, h, h.operatorToken(t, "admin"))
	b.wants(t, http.StatusOK, "/ui/links", nil)
	var tokens struct{ Items []struct{ Name string } }
	h.asks(t, &tokens, "token", "list")
	h.asks(t, &struct{}{}, "token", "revoke", tokens.Items[0].Name, "--reason", "lost")
	b.wants(t, http.StatusSeeOther, "/ui/links", nil)
	b.wants(t, http.StatusForbidden, "/ui/logout", url.Values{"csrf": {"x"}})
}

func TestOperatorPageLimitsWrongTokens(t *testing.T) {
	h := newHouse(t)
	h.start(t)
	b := newTab(t, h)
	for range 10 {
		b.wants(t, http.StatusUnauthorized, "/ui/login", url.Values{"token": {"wrong"}})
	}
	b.wants(t, http.StatusTooManyRequests, "/ui/login", url.Values{"token": {"wrong"}})
}

func TestOperatorPageRefusesFormsOfOtherSites(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	b := loggedIn(t, v.house, v.operatorToken(t, "operate"))
	csrf := b.csrf(t)
	other := loggedIn(t, v.house, v.operatorToken(t, "admin")).csrf(t)
	const hold = "/ui/act/feeds/lab/hold"
	form := url.Values{"csrf": {csrf}, "reason": {"a test"}}
	b.wants(t, http.StatusForbidden, hold, url.Values{"reason": {"a test"}})
	b.wants(t, http.StatusForbidden, hold, url.Values{"csrf": {other}, "reason": {"a test"}})
	for _, header := range [][]string{
		{"Origin", "https://evil.example"},
		{"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
		{"Origin", "null", "Sec-Fetch-Site", "cross-site"},
		{"Origin", "https://evil.example", "Sec-Fetch-Site", "same-origin"},
	} {
		b.wants(t, http.StatusForbidden, hold, form, header...)
	}
	b.wants(t, http.StatusUnprocessableEntity, hold, url.Values{"csrf": {csrf}, "reason": {" "}})
	var shape struct{ Items []struct{ Held bool } }
	if v.asks(t, &shape, "feed", "shape"); len(shape.Items) != 0 {
		t.Fatalf("a refused form changed %+v", shape)
	}
	done := b.wants(t, http.StatusSeeOther, hold, form, "Origin", "http://"+v.admin, "Sec-Fetch-Site", "same-origin")
	if to := done.Header.Get("Location"); to != "/ui/feeds" {
		t.Errorf("the action leads to %s", to)
	}
	if v.asks(t, &shape, "feed", "shape"); len(shape.Items) != 1 || !shape.Items[0].Held {
		t.Errorf("the form of the page changed %+v", shape)
	}
	if page := b.sends(t, "/ui/feeds", nil).text; !strings.Contains(page, `<p role="status" class="notice">lab is held.</p>`) || !strings.Contains(page, "held: a test") {
		t.Errorf("the page says\n%s", page)
	}
	if page := b.sends(t, "/ui/feeds", nil).text; strings.Contains(page, `role="status"`) {
		t.Error("the page says twice what was done")
	}
}

func TestOperatorPageHidesActionsFromReaders(t *testing.T) {
	t.Parallel()
	v, finished, _ := populated(t)
	b := loggedIn(t, v.house, v.operatorToken(t, "read"))
	for _, path := range []string{"links", "links/lab", "feeds", "handoffs/" + finished, "dead", "dead/1", "peers"} {
		if page := b.wants(t, http.StatusOK, "/ui/"+path, nil).text; strings.Contains(page, "/ui/act/") {
			t.Errorf("%s has an action", path)
		}
	}
	for _, path := range []string{"/ui/act/feeds/lab/hold", "/ui/act/dead/1/replay", "/ui/act/dead/1/drop", "/ui/act/links/lab/dial", "/ui/act/peers/x.test/mode", "/ui/act/held/1/allow", "/ui/act/held/1/drop"} {
		b.wants(t, http.StatusForbidden, path, nil)
		b.wants(t, http.StatusForbidden, path, url.Values{"csrf": {b.csrf(t)}, "reason": {"a test"}, "mode": {"block"}})
	}
	operate := loggedIn(t, v.house, v.operatorToken(t, "operate"))
	operate.wants(t, http.StatusForbidden, "/ui/act/peers/x.test/mode", nil)
}

// An operator has no DID: it logs in a host with a code that the operator page makes for a participant.
func TestOperatorPagePairsAHost(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	ada := logIn(t, h.url())
	for _, scope := range []string{"read", "operate"} {
		other := loggedIn(t, h, h.operatorToken(t, scope))
		other.wants(t, http.StatusForbidden, "/ui/pair", nil)
		other.wants(t, http.StatusForbidden, "/ui/pair", url.Values{"csrf": {other.csrf(t)}, "did": {string(ada.did)}, "reason": {"a test"}})
	}
	b := loggedIn(t, h, h.operatorToken(t, "admin"))
	foreign := loggedIn(t, h, h.operatorToken(t, "admin")).csrf(t)
	form := url.Values{"csrf": {b.csrf(t)}, "did": {string(ada.did)}, "reason": {"her laptop"}}
	with := func(name, value string) url.Values {
		changed := maps.Clone(form)
		changed[name] = []string{value}
		return changed
	}
	b.wants(t, http.StatusForbidden, "/ui/pair", with("csrf", ""))
	b.wants(t, http.StatusForbidden, "/ui/pair", with("csrf", foreign))
	for _, header := range [][]string{{"Origin", h.url()}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
		b.wants(t, http.StatusForbidden, "/ui/pair", form, header...)
	}
	b.wants(t, http.StatusUnprocessableEntity, "/ui/pair", with("reason", " "))
	b.wants(t, http.StatusBadRequest, "/ui/pair", with("did", "did:key:z6Mk"))
	if page := b.wants(t, http.StatusOK, "/ui/bindings", nil).text; !strings.Contains(page, `href="/ui/pair"`) {
		t.Errorf("the bindings link to no form: %s", page)
	}
	b.wants(t, http.StatusSeeOther, "/ui/pair", form, "Origin", b.base, "Sec-Fetch-Site", "same-origin")
	shows := regexp.MustCompile(`<p role="status" class="notice">The pairing code ([0-9A-Z]{4}-[0-9A-Z]{4}) logs in one host as ` + string(ada.did))
	code := shows.FindStringSubmatch(b.wants(t, http.StatusOK, "/ui/pair", nil).text)
	if code == nil {
		t.Fatal("no code is shown")
	}
	if page := b.wants(t, http.StatusOK, "/ui/pair", nil).text; strings.Contains(page, code[1]) {
		t.Error("the code is shown twice")
	}
	v := newVisitor(t, h)
	if text, _ := v.page(t); !strings.Contains(text, `href="`+b.base+`/ui/pair"`) {
		t.Errorf("the authorize page has no link to the form: %s", text)
	}
	if granted, page := v.decide(t, url.Values{"as": {"code"}, "code": {code[1]}}); granted == "" {
		t.Errorf("the code is answered %s", page)
	}
	var audit struct {
		Items []struct{ Actor, What, Subject, Reason string }
	}
	h.asks(t, &audit, "audit", "list")
	if got := audit.Items[0]; got.What != "token pair" || got.Subject != string(ada.did) || got.Reason != "her laptop" || !strings.HasPrefix(got.Actor, "token:admin-") {
		t.Errorf("the audit log has %+v", got)
	}
}

func TestOperatorPageSetsSecurityHeaders(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	b := loggedIn(t, h, h.operatorToken(t, "read"))
	page := b.sends(t, "/ui/links", nil).text
	script := regexp.MustCompile(`src="(/ui/baton-[0-9a-f]+\.js)"`).FindStringSubmatch(page)
	style := regexp.MustCompile(`href="(/ui/baton-[0-9a-f]+\.css)"`).FindStringSubmatch(page)
	if script == nil || style == nil {
		t.Fatalf("the page names no files:\n%s", page)
	}
	caching := map[string]string{
		"/": "no-store", "/ui/": "no-store", "/ui/links": "no-store", "/ui/none": "no-store", "/ui/links/none": "no-store", "/ui/pair": "no-store", "/ui/login": "no-store", "/ui/baton.js": "no-store",
		script[1]: "public, max-age=31536000, immutable", style[1]: "public, max-age=31536000, immutable",
	}
	for path, cached := range caching {
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": cached,
		} {
			if got := b.sends(t, path, nil).Header.Get(name); got != want {
				t.Errorf("%s has %s %q, want %q", path, name, got, want)
			}
		}
	}
	b.wants(t, http.StatusNotFound, "/ui/none", nil)
	b.wants(t, http.StatusNotFound, "/ui/links/none", nil)
	if regexp.MustCompile(` (style|on[a-z]+)=|<style|<script[^>]*></script>.*<script|https?://[^"]*\.(js|css)`).MatchString(page) {
		t.Error("the page has a style or script of its own")
	}
	if status, _ := h.asksAdmin(t, "/ui/links", "evil.example", ""); status != http.StatusMisdirectedRequest {
		t.Errorf("a foreign Host is answered %d", status)
	}
}

func TestOperatorPageHasTablesAndCommands(t *testing.T) {
	t.Parallel()
	v, finished, waiting := populated(t)
	b := loggedIn(t, v.house, v.operatorToken(t, "admin"))
	v.asks(t, &struct{}{}, "block", "add", "192.0.2.0/24", "--reason", "a flood")
	await(t, "the first checks", func() bool {
		var status struct{ Checks []struct{} }
		v.asks(t, &status, "status")
		return len(status.Checks) > 0
	})
	for path, wants := range map[string][]string{
		"links":     {"Links", `<span class="count" aria-hidden="true" id="n-dead" data-part>1</span>`, `<link rel="icon" href="/ui/baton-`, ">Links</caption>", ">baton link list</code>", `href="/ui/links/lab"`, `Dial<span class="hidden"> lab</span>`},
		"links/lab": {"Links", "Negotiated", "Not carried", ">baton link show lab</code>"},
		"overview": {
			"Overview", "<dt>State</dt>", "<dt>Up since</dt>", "<dt>Certificate</dt>", ">Warnings</caption>", ">baton doctor</code>", ">baton status</code>", ">What waits</caption>",
			`<svg role="img" aria-labelledby="g-steps"`, "Free disk", ">Last day by hour</caption>", ">well-known</td>",
		},
		"sessions":                        {"Sessions", ">Sessions</caption>", ">baton session list</code>", `End<span class="hidden"> `, "did:key:"},
		"feeds":                           {"Feeds", ">By destination</caption>", ">Waiting</caption>", ">baton feed shape</code>", ">baton feed list</code>", `Hold<span class="hidden"> lab</span>`},
		"handoffs":                        {"Handoffs", ">Handoffs</caption>", ">baton handoff list</code>", "/ui/handoffs/" + finished, "Summarise the minutes"},
		"handoffs?search=" + waiting[20:]: {"Handoffs", "/ui/handoffs/" + waiting, ">baton handoff list --search " + waiting[20:] + "</code>"},
		"handoffs?state=completed":        {"Handoffs", "/ui/handoffs/" + finished, ">baton handoff list --state completed</code>"},
		"handoffs?search=minutes+THE":     {"Handoffs", "Summarise the minutes", ">baton handoff list --search &#39;minutes THE&#39;</code>"},
		"handoffs/" + finished: {
			"Handoffs", `<ol aria-label="Timeline"`, ">accept</strong>", ">evidence</a>", ">Passport</a>", "<details>", ">baton handoff show " + finished + "</code>",
			"U&#43;202Ereversed", "&lt;b&gt;a preprint&lt;/b&gt;", "delivered lab #ops",
		},
		"dead":                         {"Dead letters", ">Dead letters</caption>", ">baton dead list</code>", `href="/ui/dead/1"`},
		"dead/1":                       {"Dead letters", "Raw bytes", "Verdict", "What to do", ">Attempts</caption>", ">Replay 1</a>", ">Drop 1</a>", ">baton dead show 1</code>"},
		"peers":                        {"Peers", ">Peers</caption>", ">baton peer list</code>", ">Held relays</caption>", ">baton airc held</code>", "No message waits for consent."},
		"keys":                         {"Keys", ">Keys</caption>", ">baton keys list</code>", "did:web:gw.test"},
		"policy":                       {"Policy", ">Rules</caption>", ">Limits</caption>", "vouched", "clock_skew"},
		"audit":                        {"Audit", ">Changes</caption>", ">baton audit list</code>", "their server moves"},
		"dead?reason=expired&peer=lab": {"Dead letters", ">baton dead list --reason expired --peer lab</code>", "There is no dead letter.", `name="reason" value="expired"`},
		"feeds?link=lab&older=1h":      {"Feeds", ">baton feed list --link lab --older 1h</code>", `name="older" value="1h"`},
		"webhooks":                     {"Webhooks", ">Webhooks</caption>", ">baton webhook list</code>", "No agent has a webhook."},
		"blocks":                       {"Blocks", ">Blocks</caption>", ">baton block list</code>", "192.0.2.0/24", "a flood", `Remove<span class="hidden"> 192.0.2.0/24</span>`},
		"bindings":                     {"Bindings", ">Bindings</caption>", ">baton bind list</code>", ann},
		"top":                          {"Top", ">Top by DID</caption>", ">baton top --by did</code>", ">Top by link</caption>", ">baton top --by address</code>", " KiB</td>"},
	} {
		page := b.wants(t, http.StatusOK, "/ui/"+path, nil).text
		title := wants[0]
		for _, part := range append(wants[1:], "<title>"+title, "<h1>"+title, `aria-current="page">`+title, "Skip to content", `<nav aria-label="Pages">`) {
			if !strings.Contains(page, part) {
				t.Errorf("%s lacks %s", path, part)
			}
		}
		if strings.Count(page, "<table>") != strings.Count(page, "</caption>") {
			t.Errorf("%s has a table without a caption", path)
		}
	}
	for path, not := range map[string]string{"handoffs?state=completed": waiting, "handoffs?search=minutes": finished, "handoffs?search=nothing-has-this": finished} {
		if strings.Contains(b.sends(t, "/ui/"+path, nil).text, "/ui/handoffs/"+not) {
			t.Errorf("%s has %s", path, not)
		}
	}
	passport := b.wants(t, http.StatusOK, "/ui/handoffs/"+finished+"/passport", nil)
	if got := passport.Header.Get("Content-Type"); got != "application/vnd.baton.passport+json" || !strings.Contains(passport.text, finished) {
		t.Errorf("the passport has the type %s", got)
	}
}

func TestOperatorPageEventsNameTheChangedPage(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	b := loggedIn(t, v.house, v.operatorToken(t, "read"))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.base+"/ui/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := b.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := make(chan string)
	go func() {
		defer close(lines)
		buffer := make([]byte, 4096)
		for {
			n, err := response.Body.Read(buffer)
			if err != nil {
				return
			}
			lines <- string(buffer[:n])
		}
	}()
	if first := <-lines; !strings.HasPrefix(first, "retry: ") {
		t.Fatalf("the stream begins with %q", first)
	}
	start := time.Now()
	v.asks(t, &struct{}{}, "handoff", "offer", "--from", ann, "--open", "--channel", "#ops", "--title", "A live one")
	said := ""
	for !strings.Contains(said, "data: /ui/handoffs\n") {
		said += <-lines
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("the stream names the page after %s", took)
	}
}

func TestOperatorPageOfALinkNamesItsObstacles(t *testing.T) {
	t.Parallel()
	h := newHouse(t, `[[irc.freeq]]
name = "freeq"
server_name = "irc.freeq.example"
endpoint_id = "a09aa5f47a6759802ff955f8dc2d2a14a5c99d23be97f864127ff9383455a4f0"
peer_api = "http://irc.freeq.example"
address = "127.0.0.1:4433"
dial_command = ["no-such-program", "{ticket}"]
channels = ["#ops"]
`)
	h.start(t)
	page := loggedIn(t, h, h.operatorToken(t, "read")).wants(t, http.StatusOK, "/ui/links/freeq", nil).text
	for _, part := range []string{"<dt>Obstacle</dt>", "receipts and steps wait: the keys at peer_api", "no-such-program is not installed"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
}

func (h *house) posts(t *testing.T, path, document string, want int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url()+path, strings.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != want {
		t.Fatalf("%s is answered %d %s, want %d", path, response.StatusCode, text, want)
	}
}

func TestOperatorPageAllowsAndDropsHeldRelays(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[[airc.peers]]\ndomain = \"peer.test\"\n")
	h.start(t)
	h.ready(t)
	h.posts(t, "/api/presence", `{"action":"register","username":"scout_7"}`, http.StatusCreated)
	for i := range 4 {
		document := fmt.Sprintf(`{"origin_registry":"peer.test","from":"amy_1","to":"scout_7","body":"<b>number %d</b>","message_id":"message-%d"}`, i+1, i+1)
		h.posts(t, "/federation/relay", document, http.StatusAccepted)
	}
	ids := h.held(t)
	if len(ids) != 4 {
		t.Fatalf("held: %v", ids)
	}
	b := loggedIn(t, h, h.operatorToken(t, "operate"))
	page := b.wants(t, http.StatusOK, "/ui/peers", nil).text
	for _, part := range []string{
		">Held relays</caption>", "?amy_1@peer.test", "&lt;b&gt;number 1&lt;/b&gt;", `Allow<span class="hidden"> ` + ids[0] + "</span>", `Drop<span class="hidden"> ` + ids[1] + "</span>",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %s", part)
		}
	}
	allow, drop := "/ui/act/held/"+ids[0]+"/allow", "/ui/act/held/"+ids[1]+"/drop"
	shown := b.wants(t, http.StatusOK, allow, nil).text
	for _, part := range []string{"<h1>Allow " + ids[0] + "</h1>", "<p>Dry run: 1 would change.</p>", "baton airc allow " + ids[0] + " --reason", ">Allow</button>"} {
		if !strings.Contains(shown, part) {
			t.Errorf("the form lacks %s", part)
		}
	}
	form := url.Values{"csrf": {b.csrf(t)}, "reason": {"I know her"}}
	b.wants(t, http.StatusForbidden, allow, url.Values{"reason": {"I know her"}})
	b.wants(t, http.StatusUnprocessableEntity, allow, url.Values{"csrf": form["csrf"]})
	if got := h.held(t); !slices.Equal(got, ids) {
		t.Fatalf("a refused form changed what is held: %v", got)
	}
	for path, said := range map[string]string{allow: ids[0] + " is delivered.", drop: ids[1] + " is dropped."} {
		done := b.wants(t, http.StatusSeeOther, path, form)
		if to := done.Header.Get("Location"); to != "/ui/peers" {
			t.Errorf("%s leads to %s", path, to)
		}
		if page := b.sends(t, "/ui/peers", nil).text; !strings.Contains(page, `<p role="status" class="notice">`+said+`</p>`) {
			t.Errorf("after %s the page says\n%s", path, page)
		}
	}
	if got := h.held(t); !slices.Equal(got, ids[2:]) {
		t.Errorf("held afterwards: %v", got)
	}
	b.wants(t, http.StatusNotFound, allow, form)
	b.wants(t, http.StatusNotFound, "/ui/act/held/"+ids[2]+"/forget", form)
	var audit struct {
		Items []struct{ Actor, What, Subject, Reason string }
	}
	h.asks(t, &audit, "audit", "list")
	told := map[string]string{}
	for _, each := range audit.Items {
		if strings.HasPrefix(each.What, "airc ") && strings.HasPrefix(each.Actor, "token:operate-") && each.Reason == "I know her" {
			told[each.What] = each.Subject
		}
	}
	want := map[string]string{"airc allow": "?amy_1@peer.test to scout_7 message-1", "airc drop": "?amy_1@peer.test to scout_7 message-2"}
	if !maps.Equal(told, want) {
		t.Errorf("the audit log has %+v", audit.Items)
	}
}

func (h *house) held(t *testing.T) (numbers []string) {
	t.Helper()
	var page struct{ Items []struct{ ID int64 } }
	h.asks(t, &page, "airc", "held")
	for _, each := range page.Items {
		numbers = append(numbers, fmt.Sprint(each.ID))
	}
	return numbers
}

func TestOperatorPageEndsABlockWithAReason(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	h.ready(t)
	h.asks(t, &struct{}{}, "block", "add", "192.0.2.0/24", "--reason", "a flood")
	b := loggedIn(t, h, h.operatorToken(t, "operate"))
	const remove = "/ui/act/blocks/192.0.2.0%2F24/remove"
	form := b.wants(t, http.StatusOK, remove, nil).text
	if !strings.Contains(form, "<input id=\"reason\" name=\"reason\" required autofocus") || !strings.Contains(form, ">baton block remove 192.0.2.0/24 --reason") {
		t.Errorf("the form is %s", form)
	}
	b.wants(t, http.StatusSeeOther, remove, url.Values{"csrf": {b.csrf(t)}, "reason": {"it is over"}})
	if page := b.wants(t, http.StatusOK, "/ui/blocks", nil).text; strings.Contains(page, "a flood") || !strings.Contains(page, "192.0.2.0/24 is not blocked any more.") {
		t.Errorf("afterwards it says %s", page)
	}
}

// An action on many rows says how many there are, asks for a reason, and takes only the rows of the
// filter or the selected ones.
func TestOperatorPageChangesManyRows(t *testing.T) {
	t.Parallel()
	v, _, _ := populated(t)
	b := loggedIn(t, v.house, v.operatorToken(t, "operate"))
	csrf := b.csrf(t)
	v.asks(t, &struct{}{}, "feed", "hold", "lab", "--reason", "their server moves")
	var ids []string
	for _, title := range []string{"First", "Second", "Third"} {
		var filed struct {
			Event string `json:"event_id"`
		}
		v.asks(t, &filed, "handoff", "offer", "--from", ann, "--open", "--channel", "#ops", "--title", title)
		ids = append(ids, filed.Event)
	}
	rows := func(path string) []string {
		var found []string
		for _, match := range regexp.MustCompile(`name="row" value="([^"]+)"`).FindAllStringSubmatch(b.wants(t, http.StatusOK, path, nil).text, -1) {
			found = append(found, html.UnescapeString(match[1]))
		}
		return found
	}
	does := func(action string, form url.Values, back string, wants ...string) {
		t.Helper()
		shown := b.wants(t, http.StatusOK, "/ui/act/"+action+"?"+form.Encode(), nil).text
		for _, want := range wants {
			if !strings.Contains(shown, want) {
				t.Errorf("%s lacks %q:\n%s", action, want, shown)
			}
		}
		sent := url.Values{"csrf": {csrf}, "back": {back}}
		for _, match := range regexp.MustCompile(`name="(row|link|peer|older|cause)" value="([^"]+)"`).FindAllStringSubmatch(shown, -1) {
			sent.Add(match[1], html.UnescapeString(match[2]))
		}
		b.wants(t, http.StatusUnprocessableEntity, "/ui/act/"+action, sent) // a reason is required
		sent.Set("reason", "many at once")
		b.wants(t, http.StatusSeeOther, "/ui/act/"+action, sent)
	}
	all := rows("/ui/feeds")
	all = slices.DeleteFunc(all, func(row string) bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(row, id) })
	})
	if len(all) != 3 {
		t.Fatalf("the page has the rows %q", all)
	}
	b.wants(t, http.StatusUnprocessableEntity, "/ui/act/feeds/selected/fail", nil)
	if page := b.sends(t, "/ui/feeds", nil).text; strings.Contains(page, "all that match") {
		t.Error("without a filter all deliveries can be changed")
	}
	does("feeds/selected/fail", url.Values{"row": all[:2]}, "/ui/feeds", "Fail 2 selected", "Dry run: 2 would change.", "baton feed fail "+ids[0]+" "+ids[1]+" --link lab --reason")
	if notice := b.sends(t, "/ui/feeds", nil).text; !strings.Contains(notice, `role="status" class="notice">Fail: 2 changed.`) {
		t.Errorf("the page does not tell what was done: %s", notice)
	}
	does("feeds/all/retry", url.Values{"link": {"lab"}}, "/ui/feeds?link=lab", "Retry all that match", "would change.", "baton feed retry --link lab --reason")
	if left := rows("/ui/feeds?link=lab"); slices.Contains(left, all[0]) || !slices.Contains(left, all[2]) {
		t.Errorf("the rows %q are left", left)
	}
	letters := rows("/ui/dead")
	if len(letters) != 3 {
		t.Fatalf("the page has the dead letters %q", letters)
	}
	does("dead/selected/drop", url.Values{"row": letters[:1]}, "/ui/dead", "Drop 1 selected", "Dry run: 1 would change.", "baton dead drop "+letters[0]+" --reason")
	does("dead/all/replay", url.Values{"reason": {"operator"}, "peer": {"lab"}}, "/ui/dead", "Replay all that match", "Dry run: 2 would change.", "baton dead replay --peer lab --cause operator --reason")
	changes, err := v.plain(t, "audit", "list").Output()
	if err != nil || strings.Count(string(changes), "many at once") != 5 {
		t.Errorf("the audit log: %v\n%s", err, changes)
	}
}

func TestOperatorPageEndsASession(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	h.ready(t)
	caller := logIn(t, h.url())
	var sessions struct {
		Items []struct{ ID, Participant, Began string }
	}
	h.asks(t, &sessions, "session", "list", "--did", string(caller.did))
	if len(sessions.Items) != 1 || sessions.Items[0].Participant != string(caller.did) {
		t.Fatalf("session list: %+v", sessions)
	}
	id := sessions.Items[0].ID
	b := loggedIn(t, h, h.operatorToken(t, "admin"))
	if page := b.wants(t, http.StatusOK, "/ui/act/sessions/"+id+"/end", nil).text; !strings.Contains(page, "Dry run: 1 would change.") || !strings.Contains(page, "baton session end "+id) {
		t.Errorf("the form: %s", page)
	}
	b.wants(t, http.StatusSeeOther, "/ui/act/sessions/"+id+"/end", url.Values{"csrf": {b.csrf(t)}, "reason": {"a lost laptop"}})
	if page := b.wants(t, http.StatusOK, "/ui/sessions", nil).text; strings.Contains(page, `data-key="`+id) {
		t.Error("the page still has the session")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url()+"/api/v1/inbox", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+caller.token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the ended session is answered %d", answer.StatusCode)
	}
	if out, err := h.plain(t, "session", "end", id).CombinedOutput(); err == nil || !strings.Contains(string(out), "there is no session "+id) {
		t.Errorf("ending it again: %v: %s", err, out)
	}
}

// The command status and the page agree, and the charts have the samples of the record.
func TestOperatorPageStatusHasTheStateAndTheLastDay(t *testing.T) {
	t.Parallel()
	v, _, _ := populated(t)
	var status struct {
		Ready   bool
		Version string
		Links   []struct{ Name, State string }
		Dead    int
		Rates   []struct {
			Over  string
			Steps int
		}
		Checks  []struct{ Check, State string }
		Samples []struct{ Disk int }
	}
	await(t, "a sample and the first checks", func() bool {
		v.asks(t, &status, "status")
		return len(status.Samples) > 0 && len(status.Checks) > 0
	})
	if !status.Ready || status.Version == "" || len(status.Links) != 5 || status.Dead != 1 || len(status.Rates) != 2 || status.Rates[1].Steps < 5 || len(status.Checks) < 10 {
		t.Errorf("status: %+v", status)
	}
	out, err := v.plain(t, "status").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"state", "ready", "5 of 5 work", "dead letters", "certificate", "none is configured", "FAIL well-known: ", "HOUR", "STEPS", " %"} {
		if !strings.Contains(string(out), part) {
			t.Errorf("status lacks %q:\n%s", part, out)
		}
	}
	page := loggedIn(t, v.house, v.operatorToken(t, "read")).wants(t, http.StatusOK, "/ui/overview", nil).text
	if !regexp.MustCompile(`<strong>Dead letters</strong> <span>1 now; least \d+ (?:at \d\d:\d\d|now), most \d+ (?:at \d\d:\d\d|now)</span>`).MatchString(page) {
		t.Errorf("the page has no words for its chart: %s", page)
	}
}
