package airc_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// ask sends one request from an address and returns the answer as it came.
func (w *world) ask(t *testing.T, from, method, path, token, body string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	request.RemoteAddr = from
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	recorder := httptest.NewRecorder()
	w.mux.ServeHTTP(recorder, request)
	return recorder
}

func TestLimitsShareOneBucketPerDID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
		w.rates.limit, w.gateway.home.Limits.EventsPerMinute = 6, 6
		scout, planner := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
		w.offer(t, alice, scout.DID)
		from, offer := wire.Handle(alice.DID), inbox(t, scout)[0].ID
		send := func(a *bridgetest.Agent, to string, payload any) string {
			status, answer, err := a.Send(t.Context(), to, "hello", payload)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(status, " ", answer["error"])
		}
		var got []string
		got = append(
			got,
			send(scout, from, ack(offer, "received")), // each of the first six takes one
			send(scout, from, result(offer, "partial")),
			send(scout, "scout_7", nil),
			send(scout, "nobody", nil),
			send(scout, from, request("x")),
			send(scout, from, result(offer, "unheard of")),
			send(scout, "scout_7", nil),
			send(scout, from, result(offer, "partial")),
			send(planner, "planner", nil), // others have their own
		)
		time.Sleep(10 * time.Second) // one sixth of a minute
		got = append(got, send(scout, "scout_7", nil), send(scout, "scout_7", nil))
		if diff := cmp.Diff([]string{
			"201 <nil>", "201 <nil>", "201 <nil>", "404 identity_not_found", "201 <nil>", "400 bad_request",
			"429 rate_limited", "429 rate_limited", "201 <nil>", "201 <nil>", "429 rate_limited",
		}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestLimitsAreReportedInEveryAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.registrations, w.rates.limit = 30, 60
		scout := w.agent(t, "scout_7", 0x01)
		now := time.Now().Unix()
		told := func(r *httptest.ResponseRecorder) [3]string {
			h := r.Header()
			return [3]string{h.Get("X-Ratelimit-Limit"), h.Get("X-Ratelimit-Remaining"), h.Get("X-Ratelimit-Reset")}
		}
		at := func(seconds int64) string { return strconv.FormatInt(now+seconds, 10) }
		const here = "192.0.2.1:1000"
		for _, test := range []struct {
			from, method, path, token string
			want                      [3]string
		}{
			{here, "GET", "/identity/scout_7", "", [3]string{"30", "30", at(0)}},
			{agentsAddress, "GET", "/identity/nobody", "", [3]string{"30", "29", at(120)}},
			{here, "GET", "/nothing", "no token", [3]string{"30", "30", at(0)}},
			{here, "GET", "/identity/scout_7", scout.Token, [3]string{"60", "60", at(0)}},
			{here, "POST", "/messages", scout.Token, [3]string{"60", "59", at(1)}},
			{here, "DELETE", "/", scout.Token, [3]string{"60", "59", at(1)}},
			{here, "POST", "/auth/refresh", scout.RefreshToken, [3]string{"60", "59", at(1)}},
		} {
			if diff := cmp.Diff(test.want, told(w.ask(t, test.from, test.method, test.path, test.token, ""))); diff != "" {
				t.Errorf("%s %s: %s", test.method, test.path, diff)
			}
		}
		w.registrations, w.rates.limit = 0, 0
		for _, token := range []string{"", scout.Token} {
			if got := told(w.ask(t, here, "GET", "/", token, "")); got != [3]string{} {
				t.Errorf("without a limit: %v", got)
			}
		}
	})
}

func TestRegisterIsLimitedPerAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.registrations = 2
		n := 0
		register := func(from string) string {
			n++
			a := w.stranger(fmt.Sprintf("agent_%d", n), byte(n))
			a.Transport = transport(func(r *http.Request) (*http.Response, error) {
				r.RemoteAddr = from
				return w.RoundTrip(r)
			})
			if err := a.Register(t.Context()); err != nil {
				return "refused"
			}
			return "registered"
		}
		var got []string
		for _, from := range []string{
			"192.0.2.1:1", "192.0.2.1:2", "[::ffff:192.0.2.1]:3", "192.0.2.2:1", // one address, however it is written
			"[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::3]:1", "[2001:db8:0:1::1]:1", // one subnet, then another
		} {
			got = append(got, from+" "+register(from))
		}
		if diff := cmp.Diff([]string{
			"192.0.2.1:1 registered", "192.0.2.1:2 registered", "[::ffff:192.0.2.1]:3 refused", "192.0.2.2:1 registered",
			"[2001:db8::1]:1 registered", "[2001:db8::2]:1 registered", "[2001:db8::3]:1 refused", "[2001:db8:0:1::1]:1 registered",
		}, got); diff != "" {
			t.Error(diff)
		}
		for _, path := range []string{"/register", "/register/challenge"} {
			r := w.ask(t, "192.0.2.1:1", http.MethodPost, path, "", `{"handle":"more"}`)
			if r.Code != http.StatusTooManyRequests || r.Header().Get("Retry-After") != "1800" {
				t.Errorf("%s: %d, again after %s", path, r.Code, r.Header().Get("Retry-After"))
			}
		}
		time.Sleep(31 * time.Minute)
		if got := register("192.0.2.1:1"); got != "registered" {
			t.Errorf("half an hour later: %s", got)
		}
		w.registrations = 3 // changed while it runs
		if got := register("192.0.2.1:1"); got != "registered" {
			t.Errorf("with a new limit: %s", got)
		}
	})
}

func TestRegisterCountsNoFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registrations = 1
	if status, answer, err := w.stranger("no", 1).Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": "no"}); err != nil || status != 422 {
		t.Fatal(status, answer, err)
	}
	w.agent(t, "scout_7", 0x01)
}

// transport is a function that carries requests.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRefreshTokenIsValidOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scout := w.agent(t, "scout_7", 0x01)
		other := w.agent(t, "planner", 0x04)
		first := scout.RefreshToken
		refresh := func(want string) {
			t.Helper()
			status, answer, err := scout.Refresh(t.Context())
			if got := fmt.Sprint(status, " ", answer["error"]); err != nil || got != want {
				t.Fatalf("answered %s %v (%v), want %s", got, answer["message"], err, want)
			}
		}
		time.Sleep(time.Hour)
		refresh("200 <nil>")
		second := scout.RefreshToken
		if _, _, err := scout.Inbox(t.Context(), ""); err != nil {
			t.Error("the new access token:", err)
		}
		time.Sleep(23*time.Hour + 30*time.Minute) // past the end of the first
		refresh("200 <nil>")
		third := scout.RefreshToken
		scout.RefreshToken = first
		refresh("401 token_expired")
		scout.RefreshToken = scout.Token
		refresh("401 unauthorized")
		scout.RefreshToken = second
		refresh("401 unauthorized") // used again: the session ends
		scout.RefreshToken = third
		refresh("401 unauthorized")
		if status, answer, err := other.Refresh(t.Context()); err != nil || status != 401 || answer["error"] != "token_expired" {
			t.Error("a session of another, after a day:", status, answer, err)
		}
	})
}

func TestSessionSurvivesARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	again := newWorld(t, func(_ *airc.Config, d *airc.Deps) { d.Record = storetest.Bound(w.record) })
	scout.Transport = again
	if status, answer, err := scout.Refresh(t.Context()); err != nil || status != http.StatusOK || answer["expiresAt"] == nil {
		t.Error(status, answer, err)
	}
	scout.Transport = newWorld(t) // which never heard of it
	if status, answer, err := scout.Refresh(t.Context()); err != nil || status != http.StatusUnauthorized {
		t.Error(status, answer, err)
	}
}

func TestPlainMessageIsRefusedByAFullInbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.room = 3 // two held messages, and the registry's question about them
	scout, planner := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
	send := func() string {
		status, answer, err := planner.Send(t.Context(), "scout_7", "hello", nil)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(status, " ", answer["error"])
	}
	got := []string{send(), send(), send()}
	if status, answer, err := scout.Consent(t.Context(), "planner", "accept"); err != nil || status != http.StatusOK {
		t.Fatal(status, answer, err)
	}
	got = append(got, send())
	inbox(t, scout)
	got = append(got, send())
	want := []string{"202 <nil>", "202 <nil>", "429 recipient_over_capacity", "429 recipient_over_capacity", "201 <nil>"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}
