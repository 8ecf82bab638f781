package rest_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
)

// Each path and method is called by each sort of caller. A handoff hidden from a caller
// does not exist for it, whatever it tries.
func TestAuthorisationOfEachRoute(t *testing.T) {
	w := newWorld(t)
	offerer, offeree, stranger := w.login(t, "offerer"), w.login(t, "offeree"), w.login(t, "stranger")
	member, able := w.login(t, "member"), w.login(t, "able")
	w.Join("#ops", member.did)
	hook := offerer.hook(t, "https://offerer.example/hook").member("id")
	w.ask(t, able.token, http.MethodPut, "/api/v1/agents/"+string(able.did), map[string]any{"caps": []string{"go", "sql"}})
	tokens := map[string]string{
		"nobody": "", "forger": "e30.e30.e30", "offerer": offerer.token, "offeree": offeree.token, "stranger": stranger.token,
		"member": member.token, "able": able.token, "operator": "operator",
	}
	who := []string{"nobody", "forger", "offerer", "offeree", "stranger", "member", "able", "operator"}
	offers := map[string]func() string{
		"private": func() string {
			return offerer.offer(t, map[string]any{"to": offeree.did, "title": "x"})
		},
		"channel": func() string {
			return offerer.offer(t, map[string]any{"to": offeree.did, "title": "x", "channel": "#ops"})
		},
		"open": func() string {
			return offerer.offer(t, map[string]any{"title": "x", "channel": "#ops", "caps": []string{"go"}})
		},
	}
	for _, tt := range []struct {
		handoff, request, body string
		want                   string // of each caller
	}{
		//                                                            noone  forger offerer offeree stranger member able operator
		{"private", "GET /api/v1/handoffs/{id}", "", "401 401 200 200 404 404 404 200"},
		{"channel", "GET /api/v1/handoffs/{id}", "", "401 401 200 200 404 200 404 200"},
		{"open", "GET /api/v1/handoffs/{id}", "", "401 401 200 200 200 200 200 200"},
		{"private", "GET /api/v1/handoffs/{id}/passport", "", "401 401 200 200 404 404 404 200"},
		{"channel", "GET /api/v1/actions/{id}", "", "401 401 200 200 404 200 404 200"},
		{"private", "POST /api/v1/handoffs/{id}/accept", "{}", "401 401 403 201 404 404 404 403"},
		{"channel", "POST /api/v1/handoffs/{id}/accept", "{}", "401 401 403 201 404 403 404 403"},
		{"channel", "POST /api/v1/handoffs/{id}/decline", "{}", "401 401 403 201 404 403 404 403"},
		{"channel", "POST /api/v1/handoffs/{id}/cancel", "{}", "401 401 201 403 404 403 404 403"},
		{"private", "POST /api/v1/handoffs/{id}/complete", "{}", "401 401 409 409 404 404 404 403"},
		{"open", "POST /api/v1/handoffs/{id}/claim", "{}", "401 401 201 201 201 201 201 403"},
		{"", "GET /api/v1/handoffs", "", "401 401 200 200 200 200 200 200"},
		{"", "POST /api/v1/handoffs", `{"title":"x"}`, "401 401 201 201 201 201 201 403"},
		{"", "GET /api/v1/actions", "", "401 401 200 200 200 200 200 200"},
		{"", "GET /api/v1/place", "", "401 401 200 200 200 200 200 403"},
		{"", "GET /api/v1/inbox", "", "401 401 200 200 200 200 200 403"},
		{"", "GET /api/v1/inbox/stream?cursor=elsewhere", "", "401 401 400 400 400 400 400 403"},
		{"", "GET /api/v1/inbox/socket", "", "401 401 426 426 426 426 426 403"},
		{"", "POST /api/v1/inbox/lease", `{"device":"d"}`, "401 401 200 200 200 200 200 403"},
		{"", "POST /api/v1/inbox/ack", `{"device":"d","cursor":"x","delivery_count":1}`, "401 401 409 409 409 409 409 403"},
		{"", "POST /api/v1/inbox/nack", `{"device":"d","cursor":"x","delivery_count":1}`, "401 401 409 409 409 409 409 403"},
		{"", "POST /api/v1/inbox/extend", `{"device":"d","cursor":"x","delivery_count":1,"seconds":1}`, "401 401 409 409 409 409 409 403"},
		{"", "GET /api/v1/agents/" + string(offerer.did), "", "401 401 200 200 200 200 200 200"},
		{"", "PUT /api/v1/agents/" + string(offerer.did), `{"caps":[]}`, "401 401 200 403 403 403 403 403"},
		{"", "GET /api/v1/notices", "", "401 401 200 200 200 200 200 403"},
		{"", "GET /api/v1/webhooks", "", "401 401 200 200 200 200 200 403"},
		{"", "POST /api/v1/webhooks", `{"url":"https://elsewhere.example/"}`, "401 401 201 201 201 201 201 403"},
		{"", "GET /api/v1/webhooks/" + hook, "", "401 401 200 404 404 404 404 403"},
		{"", "GET /api/v1/webhooks/" + hook + "/deliveries", "", "401 401 200 404 404 404 404 403"},
		{"", "POST /api/v1/webhooks/" + hook + "/enable", "", "401 401 200 404 404 404 404 403"},
		{"", "POST /api/v1/webhooks/" + hook + "/redeliver", `{}`, "401 401 202 404 404 404 404 403"},
		{"", "DELETE /api/v1/webhooks/" + hook, "", "401 401 204 404 404 404 404 403"},
		{"", "POST /api/v1/auth/challenge", `{"did":"did:key:z6Mk"}`, "200 200 200 200 200 200 200 200"},
		{"", "POST /api/v1/auth/refresh", `{"refresh_token":"x"}`, "401 401 401 401 401 401 401 401"},
	} {
		var got []string
		for _, name := range who {
			method, path, _ := strings.Cut(tt.request, " ")
			if tt.handoff != "" {
				path = strings.Replace(path, "{id}", offers[tt.handoff](), 1)
			}
			var body any
			if tt.body != "" {
				body = tt.body
			}
			got = append(got, http.StatusText(w.ask(t, tokens[name], method, path, body).Status))
		}
		var want []string
		for code := range strings.FieldsSeq(tt.want) {
			want = append(want, statusName(code))
		}
		for i := range who {
			if got[i] != want[i] {
				t.Errorf("%s of a handoff that is %q by %s: %s, want %s", tt.request, tt.handoff, who[i], got[i], want[i])
			}
		}
	}
}

func statusName(code string) string {
	names := map[string]int{"200": 200, "201": 201, "202": 202, "204": 204, "400": 400, "401": 401, "403": 403, "404": 404, "409": 409, "426": 426}
	return http.StatusText(names[code])
}

func TestTokensNeedASignatureAndExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		eliza := w.login(t, "eliza")
		mallory := &agent{w: w, did: eliza.did, key: keyOf("mallory")}
		challenge := func() string {
			return w.ask(t, "", http.MethodPost, "/api/v1/auth/challenge", map[string]any{"did": eliza.did}).member("challenge")
		}
		login := func(proof map[string]any) answer {
			return w.ask(t, "", http.MethodPost, "/api/v1/auth/token", proof)
		}
		refused(t, login(mallory.proof(t, challenge())), http.StatusUnauthorized, "unauthorized")
		proof := eliza.proof(t, challenge())
		tokens := login(proof)
		refused(t, login(proof), http.StatusUnauthorized, "unauthorized") // a challenge is good once
		late := eliza.proof(t, challenge())
		time.Sleep(6 * time.Minute)
		refused(t, login(late), http.StatusUnauthorized, "unauthorized")
		refused(t, login(map[string]any{"did": "did:plc:other", "challenge": challenge(), "signature": "AAAA"}), http.StatusUnauthorized, "unauthorized")

		time.Sleep(10 * time.Minute)
		eliza.token = tokens.member("access_token")
		expired := eliza.get(t, "/api/v1/inbox")
		refused(t, expired, http.StatusUnauthorized, "unauthorized")
		if expired.Header.Get("WWW-Authenticate") == "" {
			t.Error("nothing says how to authenticate")
		}
		refresh := func(token string) answer {
			return w.ask(t, "", http.MethodPost, "/api/v1/auth/refresh", map[string]any{"refresh_token": token})
		}
		next := refresh(tokens.member("refresh_token"))
		eliza.token = next.member("access_token")
		if got := eliza.get(t, "/api/v1/inbox"); got.Status != http.StatusOK {
			t.Errorf("a refreshed token is answered %d %s", got.Status, got.Text)
		}
		refused(t, refresh(eliza.token), http.StatusUnauthorized, "unauthorized") // it is for access
		refused(t, refresh(tokens.member("refresh_token")), http.StatusUnauthorized, "unauthorized")
		refused(t, refresh(next.member("refresh_token")), http.StatusUnauthorized, "unauthorized") // the thief ended the session
	})
}

func TestLoginIsRateLimitedByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Logins = 6
		eliza := w.login(t, "eliza") // two of them
		w.login(t, "scholar")
		ask := func(path string, body any) answer {
			return w.ask(t, eliza.token, http.MethodPost, "/api/v1/auth/"+path, body)
		}
		refused(t, ask("refresh", map[string]any{"refresh_token": "x"}), http.StatusUnauthorized, "unauthorized")
		last := ask("challenge", map[string]any{"did": eliza.did})
		if h := last.Header; last.Status != http.StatusOK || h.Get("X-RateLimit-Limit") != "6" || h.Get("X-RateLimit-Remaining") != "0" {
			t.Errorf("the sixth is answered %d %v", last.Status, h)
		}
		for path, body := range map[string]any{
			"challenge": map[string]any{"did": eliza.did}, "token": eliza.proof(t, last.member("challenge")), "refresh": map[string]any{"refresh_token": "x"},
		} {
			much := ask(path, body)
			refused(t, much, http.StatusTooManyRequests, "rate-limited")
			if much.Header.Get("Retry-After") != "10" {
				t.Errorf("%s: headers %v", path, much.Header)
			}
		}
		if got := eliza.get(t, "/api/v1/inbox"); got.Status != http.StatusOK { // a token is good from any address
			t.Errorf("an inbox is answered %d %s", got.Status, got.Text)
		}
		time.Sleep(10 * time.Second)
		if got := ask("token", eliza.proof(t, last.member("challenge"))); got.Status != http.StatusOK {
			t.Errorf("ten seconds later answered %d %s", got.Status, got.Text)
		}
	})
}

func TestRequestsOutsideTheContractAreRefused(t *testing.T) {
	w := newWorld(t)
	eliza := w.login(t, "eliza")
	for name, got := range map[string]answer{
		"a member that nobody knows":  eliza.post(t, "/api/v1/handoffs", `{"title":"x","too":"did:key:z"}`),
		"a member twice":              eliza.post(t, "/api/v1/handoffs", `{"title":"x","title":"y"}`),
		"a number for a text":         eliza.post(t, "/api/v1/handoffs", `{"title":7}`),
		"no JSON":                     eliza.post(t, "/api/v1/handoffs", `title=x`),
		"a DID that is none":          eliza.get(t, "/api/v1/agents/scholar"),
		"a parameter that nobody has": eliza.get(t, "/api/v1/handoffs?staet=open"),
		"a limit that is too much":    eliza.get(t, "/api/v1/handoffs?limit=501"),
		"an id that is none":          eliza.get(t, "/api/v1/handoffs/abc"),
		"a context that is a number":  eliza.post(t, "/api/v1/handoffs", `{"title":"x","context":7}`),
		"a cursor of nobody":          eliza.get(t, "/api/v1/handoffs?cursor=x"),
		"a DID of no known method":    eliza.post(t, "/api/v1/auth/challenge", `{"did":"did:example:x"}`),
		"a title that is null":        eliza.post(t, "/api/v1/handoffs", `{"title":null,"context":7}`),
		"a path escaped badly":        eliza.get(t, "/api/v1/agents/"+string(eliza.did)+"%25"),
		"no channel":                  eliza.get(t, "/api/v1/handoffs?channel=ops"),
	} {
		if got.Status != http.StatusBadRequest || got.member("code") != "usage" || got.member("detail") == "" || strings.Contains(got.Text, `\n`) {
			t.Errorf("%s is answered %d %s", name, got.Status, got.Text)
		}
	}
	escaped := decode[contract.Agent](t, eliza.get(t, "/api/v1/agents/"+url.QueryEscape(string(eliza.did))), http.StatusOK)
	if escaped.DID != string(eliza.did) {
		t.Errorf("a path that is escaped is of %+v", escaped)
	}
	refused(t, eliza.get(t, "/api/v1/nothing"), http.StatusNotFound, "not-found")
	other := w.ask(t, eliza.token, http.MethodDelete, "/api/v1/handoffs", nil)
	refused(t, other, http.StatusMethodNotAllowed, "usage")
	if allow := other.Header.Get("Allow"); allow != "GET, HEAD, POST" {
		t.Errorf("Allow is %q", allow)
	}
	refused(t, eliza.post(t, "/api/v1/handoffs", `{"title":"`+strings.Repeat("x", 70000)+`"}`), http.StatusRequestEntityTooLarge, "usage")
	if got := eliza.get(t, "/api/v1/inbox").Header; got.Get("X-RateLimit-Remaining") != "59" || got.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", got)
	}
}

func TestRefusalNamesTheMistake(t *testing.T) {
	w := newWorld(t)
	eliza := w.login(t, "eliza")
	for want, got := range map[string]answer{
		"device: ":         eliza.post(t, "/api/v1/inbox/lease", `{"device":"a b"}`),
		"delay_seconds: ":  eliza.post(t, "/api/v1/inbox/nack", `{"device":"desk","cursor":"x","delivery_count":1,"delay_seconds":-1}`),
		"limit: ":          eliza.get(t, "/api/v1/inbox?limit=0"),
		"a body is needed": eliza.post(t, "/api/v1/inbox/lease", nil),
	} {
		if detail := got.member("detail"); got.Status != http.StatusBadRequest || !strings.HasPrefix(detail, want) {
			t.Errorf("answered %d %q, want %q", got.Status, detail, want)
		}
	}
}

func TestHEADAnswersLikeGET(t *testing.T) {
	w := newWorld(t)
	eliza, scholar, other := w.login(t, "eliza"), w.login(t, "scholar"), w.login(t, "other")
	path := "/api/v1/handoffs/" + eliza.offer(t, map[string]any{"to": scholar.did, "title": "Cite three sources"})
	head := func(token, path string) answer { return w.ask(t, token, http.MethodHead, path, nil) }
	if got, read := head(scholar.token, path), scholar.get(t, path); got.Status != http.StatusOK || got.Header.Get("ETag") != read.Header.Get("ETag") {
		t.Errorf("answered %d %v, and read %v", got.Status, got.Header, read.Header)
	}
	refused(t, head("", path), http.StatusUnauthorized, "unauthorized")
	refused(t, head(other.token, path), http.StatusNotFound, "unknown-handoff")
	for _, path := range []string{path + "/accept", "/api/v1/inbox/stream", "/api/v1/inbox/socket"} { // changes, and streams without an end
		refused(t, head(scholar.token, path), http.StatusMethodNotAllowed, "usage")
	}
}

func TestContractIsServedAsJSONAndHTML(t *testing.T) {
	w := newWorld(t)
	if got := w.ask(t, "", http.MethodGet, "/openapi.json", nil); got.member("openapi") != "3.1.0" {
		t.Errorf("answered %d %.80s", got.Status, got.Text)
	}
	page := w.ask(t, "", http.MethodGet, "/openapi", nil)
	for _, want := range []string{"POST /api/v1/handoffs/{id}/{verb}", "Idempotency-Key", "delivery_count"} {
		if !strings.Contains(page.Text, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}
