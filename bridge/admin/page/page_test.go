package page_test

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/page"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mount registers an API that answers each list with one link, whose name tries to be markup.
func mount(mux *http.ServeMux, admit admin.Admission) {
	mux.HandleFunc(admin.Prefix, func(w http.ResponseWriter, r *http.Request) {
		if _, err := admit(r, federation.ReadScope); err != nil {
			http.Error(w, "", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(`{"items":[{"name":"<img>","network":"a\u202eb\u0007","state":"up","last_error":"x"}],"next_cursor":"c d"}`))
	})
}

// newPage returns a page with a token of a life.
func newPage(t *testing.T, life time.Duration) (mux *http.ServeMux, token string) {
	t.Helper()
	record := storetest.Open(t)
	text, kept, err := federation.NewOperatorToken(strings.NewReader(strings.Repeat("entropy", 32)))
	if err != nil {
		t.Fatal(err)
	}
	kept.Name, kept.Scope, kept.Created, kept.Expires = "ann", federation.ReadScope, time.Now(), time.Now().Add(life)
	if err := record.AddToken(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	p := page.New(page.Deps{Home: "gw.example", Mount: mount, Tokens: record.Operators, Check: admin.NewTokenCheck(record.Operators), Log: slog.New(slog.DiscardHandler)})
	mux = http.NewServeMux()
	p.Mount(mux)
	return mux, text
}

// answered serves a request with the cookies of a session.
func answered(t *testing.T, mux http.Handler, method, path string, form url.Values, cookies ...*http.Cookie) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(context.WithoutCancel(t.Context()), method, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, each := range cookies {
		r.AddCookie(each)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

func loggedIn(t *testing.T, mux http.Handler, token string) *http.Cookie {
	t.Helper()
	login := answered(t, mux, http.MethodPost, "/ui/login", url.Values{"token": {token}})
	cookie, err := http.ParseSetCookie(login.Header().Get("Set-Cookie"))
	if err != nil {
		t.Fatal(err)
	}
	return cookie
}

func TestASessionEndsAfterTwelveHoursOrWithItsToken(t *testing.T) {
	t.Parallel()
	for _, each := range []struct{ life, ends time.Duration }{{100 * time.Hour, 12 * time.Hour}, {3 * time.Hour, 3 * time.Hour}} {
		life, ends := each.life, each.ends
		synctest.Test(t, func(t *testing.T) {
			mux, token := newPage(t, life)
			cookie := loggedIn(t, mux, token)
			time.Sleep(ends - time.Second)
			if got := answered(t, mux, http.MethodGet, "/ui/links", nil, cookie); got.Code != http.StatusOK {
				t.Errorf("a second before its end a session of a token for %s is answered %d", life, got.Code)
			}
			time.Sleep(time.Second)
			if got := answered(t, mux, http.MethodGet, "/ui/links", nil, cookie); got.Code != http.StatusSeeOther {
				t.Errorf("at its end a session of a token for %s is answered %d", life, got.Code)
			}
		})
	}
}

func TestACookieOverTLSIsSecure(t *testing.T) {
	t.Parallel()
	mux, token := newPage(t, time.Hour)
	login := answered(t, mux, http.MethodPost, "https://gw.example/ui/login", url.Values{"token": {token}})
	if cookie := login.Header().Get("Set-Cookie"); !strings.Contains(cookie, "; Secure") {
		t.Errorf("the cookie is %s", cookie)
	}
}

func TestTextOfOthersIsTextAndHidesNothing(t *testing.T) {
	t.Parallel()
	mux, token := newPage(t, time.Hour)
	cookie := loggedIn(t, mux, token)
	text := answered(t, mux, http.MethodGet, "/ui/links", nil, cookie).Body.String()
	for _, want := range []string{"&lt;img&gt;", "/ui/links/%3Cimg%3E", "aU&#43;202EbU&#43;0007", `href="/ui/links?cursor=c&#43;d">Older</a>`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, never := range []string{"<img", "\u202e", "\a", token, cookie.Value} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
	if digest := sha256.Sum256([]byte(token)); strings.Contains(text, string(digest[:])) {
		t.Error("the page has the digest of the token")
	}
}

func TestPeersPageHasPositionInEachList(t *testing.T) {
	t.Parallel()
	mux, token := newPage(t, time.Hour)
	cookie := loggedIn(t, mux, token)
	text := answered(t, mux, http.MethodGet, "/ui/peers?held=a+b", nil, cookie).Body.String()
	for _, want := range []string{
		`<div id="a-peers" data-part><p><a class="older" href="/ui/peers?cursor=c&#43;d">Older</a></p>`, ">baton peer list</code>",
		`<div id="a-held" data-part><p><a class="older" href="/ui/peers?held=c&#43;d">Older</a></p>`, ">baton airc held &#39;--cursor=a b&#39;</code>",
	} {
		if !strings.Contains(strings.ReplaceAll(text, "\n", ""), want) {
			t.Errorf("the page lacks %s:\n%s", want, text)
		}
	}
}

// A chart has a line for each time without gaps, and says its figures in words.
func TestChartHasItsFiguresInWords(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	var samples []admin.Sample
	var values []int
	for n := range 100 {
		at := now.Add(-time.Duration(100-n) * 5 * time.Minute)
		if n < 50 {
			at = at.Add(-2 * time.Hour)
		}
		samples, values = append(samples, admin.Sample{Time: admin.Moment(at)}), append(values, n%7)
	}
	words, line, area := page.Chart(samples, now, values)
	if want := "1 now; least 0 at 01:40, most 6 at 02:10"; words != want {
		t.Errorf("the words are %q, want %q", words, want)
	}
	if n := strings.Count(line, "M"); n != 2 {
		t.Errorf("the line has %d parts: %s", n, line)
	}
	if n := strings.Count(area, "Z"); n != 2 {
		t.Errorf("the area has %d parts: %s", n, area)
	}
}
