package rest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

func (w *world) redeem(t *testing.T, code, address string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/auth/pairing", strings.NewReader(`{"code":"`+code+`"}`))
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = address
	recorder := httptest.NewRecorder()
	w.mux.ServeHTTP(recorder, r)
	return answer{recorder.Code, recorder.Header(), recorder.Body.String()}
}

func TestPairingCodeLogsInAsItsMaker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.login(t, "scout")
	made := scout.post(t, "/api/v1/pairing-codes", nil)
	code := made.member("code")
	if made.Status != http.StatusOK || made.member("did") != string(scout.did) || len(code) != 9 {
		t.Fatalf("a code: %d %s", made.Status, made.Text)
	}
	paired := w.redeem(t, strings.ToLower(code), "192.0.2.1:1")
	if paired.Status != http.StatusOK {
		t.Fatalf("the code: %d %s", paired.Status, paired.Text)
	}
	if again := w.redeem(t, code, "192.0.2.1:1"); again.Status != http.StatusUnauthorized {
		t.Errorf("the code again: %d %s", again.Status, again.Text)
	}
	host := &agent{w: w, did: scout.did, token: paired.member("access_token")}
	if got := host.get(t, "/api/v1/inbox"); got.Status != http.StatusOK {
		t.Errorf("the inbox: %d %s", got.Status, got.Text)
	}
	var list struct {
		Items []struct {
			ID, Began string
			Current   bool
			ExpiresAt time.Time `json:"expires_at"`
		}
	}
	if err := json.Unmarshal([]byte(host.get(t, "/api/v1/sessions").Text), &list); err != nil || len(list.Items) != 2 {
		t.Fatalf("the sessions: %+v, %v", list, err)
	}
	own := list.Items[0]
	if !own.Current {
		own = list.Items[1]
	}
	if own.Began != "pairing" || time.Until(own.ExpiresAt) < 29*24*time.Hour {
		t.Errorf("the session of the host is %+v", own)
	}
	stranger := w.login(t, "stranger")
	if got := w.ask(t, stranger.token, http.MethodDelete, "/api/v1/sessions/"+own.ID, nil); got.Status != http.StatusNotFound {
		t.Errorf("a stranger ends it: %d %s", got.Status, got.Text)
	}
	refreshed := w.ask(t, "", http.MethodPost, "/api/v1/auth/refresh", map[string]any{"refresh_token": paired.member("refresh_token")})
	if refreshed.Status != http.StatusOK {
		t.Errorf("a refresh: %d %s", refreshed.Status, refreshed.Text)
	}
	if got := w.ask(t, scout.token, http.MethodDelete, "/api/v1/sessions/"+own.ID, nil); got.Status != http.StatusNoContent {
		t.Errorf("the party ends it: %d %s", got.Status, got.Text)
	}
	if got := host.get(t, "/api/v1/inbox"); got.Status != http.StatusUnauthorized {
		t.Errorf("the inbox after its end: %d %s", got.Status, got.Text)
	}
}

func TestPairingCodesCannotBeGuessed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.login(t, "scout")
	code := scout.post(t, "/api/v1/pairing-codes", nil).member("code")
	statuses := map[int]int{}
	for range 8 {
		statuses[w.redeem(t, "AAAA-AAAA", "192.0.2.9:1").Status]++
	}
	if statuses[http.StatusUnauthorized] != 5 || statuses[http.StatusTooManyRequests] != 3 {
		t.Errorf("eight wrong codes: %v", statuses)
	}
	if got := w.redeem(t, code, "192.0.2.9:1"); got.Status != http.StatusTooManyRequests {
		t.Errorf("then the right one: %d %s", got.Status, got.Text)
	}
	if got := w.redeem(t, code, "192.0.2.10:1"); got.Status != http.StatusOK {
		t.Errorf("from another address: %d %s", got.Status, got.Text)
	}
}

// The refresh tokens of an OAuth client are for the token endpoint only.
func TestRefreshRejectsTheTokenOfAnotherClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Now()
	session := credential.NewSession(federation.Session{Participant: "did:web:a.example", Began: federation.BeganCode, Client: "https://host.example/client"}, now)
	if err := w.record.StartSession(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	pair, err := participant.Open("rest", w.Deps()).Tokens().Pair(session, now)
	if err != nil {
		t.Fatal(err)
	}
	got := w.ask(t, "", http.MethodPost, "/api/v1/auth/refresh", map[string]any{"refresh_token": pair.Refresh})
	if got.Status != http.StatusUnauthorized {
		t.Errorf("it is answered %d %s", got.Status, got.Text)
	}
}
