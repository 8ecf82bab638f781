package main_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// visitor is a person with a browser and an agent host.
type visitor struct {
	browser  *http.Client
	url      string
	id       string // of the client
	verifier string
}

func newVisitor(t *testing.T, h *house) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{url: h.url(), verifier: rand.Text() + rand.Text()}
	v.browser = &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var made struct {
		ID string `json:"client_id"`
	}
	text := v.ask(t, http.MethodPost, "/oauth/register", "application/json", `{"redirect_uris":["http://127.0.0.1/cb"]}`, nil)
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	v.id = made.ID
	return v
}

// ask sends a request and returns the body of the answer. It sets location to the target of a redirect.
func (v *visitor) ask(t *testing.T, method, path, media, body string, location *string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, v.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", media)
	response, err := v.browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if location != nil {
		*location = response.Header.Get("Location")
	}
	return string(text)
}

// page returns the authorize page, with the value of its hidden field.
func (v *visitor) page(t *testing.T) (text, form string) {
	t.Helper()
	sum := sha256.Sum256([]byte(v.verifier))
	text = v.ask(t, http.MethodGet, "/oauth/authorize?"+url.Values{
		"response_type": {"code"}, "client_id": {v.id}, "redirect_uri": {"http://127.0.0.1:1/cb"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode(), "", "", nil)
	found := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("the page has no form: %s", text)
	}
	return text, found[1]
}

// create creates an agent on the page and returns the code for its host, or the page.
func (v *visitor) create(t *testing.T, name string) (code, page string) {
	t.Helper()
	return v.decide(t, url.Values{"as": {"new"}, "name": {name}})
}

// decide sends the form of the page and returns the code for the host, or the page.
func (v *visitor) decide(t *testing.T, decision url.Values) (code, page string) {
	t.Helper()
	_, form := v.page(t)
	decision.Set("form", form)
	var location string
	page = v.ask(t, http.MethodPost, "/oauth/authorize", "application/x-www-form-urlencoded", decision.Encode(), &location)
	_, query, _ := strings.Cut(location, "?")
	answer, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Get("code"), page
}

func TestOpenRegistrationCreatesAnAgent(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[agents]\nopen_registration = true\n[limits]\n"+anyAddress)
	h.start(t)
	v := newVisitor(t, h)
	code, page := v.create(t, "fresh_scout")
	var tokens struct {
		AccessToken string `json:"access_token"`
	}
	text := v.ask(t, http.MethodPost, "/oauth/token", "application/x-www-form-urlencoded", url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {"http://127.0.0.1:1/cb"}, "client_id": {v.id}, "code_verifier": {v.verifier},
	}.Encode(), nil)
	if err := json.Unmarshal([]byte(text), &tokens); err != nil || tokens.AccessToken == "" {
		t.Fatalf("the tokens are %s, %v; the page was %s", text, err, page)
	}
	scholar := logIn(t, h.url())
	fresh := &caller{url: h.url(), token: tokens.AccessToken}
	var filed struct{ ID string }
	fresh.must(t, http.StatusCreated, http.MethodPost, "handoffs", map[string]any{"to": string(scholar.did), "title": "Cite three"}, &filed)
	var shown shownHandoff
	h.asks(t, &shown, "handoff", "show", filed.ID)
	if shown.Steps[0].Provenance != "vouched" {
		t.Errorf("the offer is %+v", shown.Steps[0])
	}
	for name, want := range map[string]string{"fresh_scout": "is taken", "X": "name:", "plc_x": "name:", "system": "name:"} {
		if code, page := newVisitor(t, h).create(t, name); code != "" || !strings.Contains(page, want) {
			t.Errorf("%s is answered %q %s", name, code, page)
		}
	}
}

func TestOpenRegistrationIsOffByDefault(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	v := newVisitor(t, h)
	if text, _ := v.page(t); strings.Contains(text, "new agent") {
		t.Errorf("the page offers it: %s", text)
	}
	if code, _ := v.create(t, "fresh_scout"); code != "" {
		t.Error("a stranger created an agent")
	}
}
