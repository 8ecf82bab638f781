package main_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// edge is a request to one of the HTTP interfaces.
type edge struct{ name, url, body, token string }

// send sends the request: a form if the body is no JSON.
func (e edge) send(t *testing.T) *http.Response {
	t.Helper()
	method, kind := http.MethodPost, "application/json"
	switch {
	case e.body == "":
		method = http.MethodGet
	case !strings.HasPrefix(e.body, "{"):
		kind = "application/x-www-form-urlencoded"
	}
	r, err := http.NewRequestWithContext(t.Context(), method, e.url, strings.NewReader(e.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	if e.token != "" {
		r.Header.Set("Authorization", "Bearer "+e.token)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response
}

// asksLater sends the request, which is to be answered with a status and when to come again.
func (e edge) asksLater(t *testing.T, status int) {
	t.Helper()
	response := e.send(t)
	wait, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if response.StatusCode != status || err != nil || wait < 1 {
		t.Errorf("%s is answered %d with Retry-After %q, want %d", e.name, response.StatusCode, response.Header.Get("Retry-After"), status)
	}
}

// marshal returns a value as JSON.
func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRetryAfterIsOnEach503AndEach429(t *testing.T) {
	t.Parallel()
	t.Run("full disk", func(t *testing.T) {
		t.Parallel()
		h := newFilesHouse(t, "[[peers]]\nname = \"away.test\"\ndid = \"did:web:away.test\"\nurl = \"http://127.0.0.1:9\"\n[fetch]\nallow_private = true\n")
		agent := newScout(t, h.house)
		operator := h.operatorToken(t, "admin")
		offer := marshal(t, map[string]any{"to": h.scholar.did, "title": "Cite the sources"})
		batch := marshal(t, map[string]any{"type": "steps", "v": 1, "from": "away.test", "to": "gw.test", "sent": time.Now(), "items": []any{}})
		voice := string(voicePayload(voiceSecret, "bob", "alice", "retry", time.Hour, nil))
		room := limitFiles(t, h.house, 1)
		for _, e := range []edge{
			{"/readyz", "http://" + h.admin + "/readyz", "", ""},
			{"operator API", "http://" + h.admin + operatorPath + "tokens", `{"scope":"read","name":"ben","reason":"he is new"}`, operator},
			{"AIRC", h.url() + "/messages", agent.envelope, agent.Token},
			{"REST", h.url() + "/api/v1/handoffs", offer, h.scholar.token},
			{"voice hub", h.url() + "/api/v1/handoffs/start", voice, "the hub token of bob"},
			{"other homes", h.url() + "/fed/v1/events", batch, ""},
		} {
			e.asksLater(t, http.StatusServiceUnavailable)
		}
		limitFiles(t, h.house, room)
	})
	t.Run("rates", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, "[limits]\nlogins_per_minute = 4\naddress_events_per_minute = 1\n")
		h.start(t)
		h.ready(t)
		worker, agent := logIn(t, h.url()), newScout(t, h)
		worker.must(t, http.StatusCreated, http.MethodPost, "handoffs", map[string]any{"to": worker.did, "title": "Cite the sources"}, nil)
		stranger := edge{"operator API", "http://" + h.admin + operatorPath + "links", "", "a wrong token"}
		await(t, "the rate of wrong tokens", func() bool { return stranger.send(t).StatusCode == http.StatusTooManyRequests })
		logins := edge{"REST login", h.url() + "/api/v1/auth/challenge", `{"did":"did:plc:bbbbbbbbbbbbbbbbbbbbbbbb"}`, ""}
		await(t, "the rate of logins", func() bool { return logins.send(t).StatusCode == http.StatusTooManyRequests })
		for _, e := range []edge{
			logins,
			{"AIRC", h.url() + "/messages", agent.envelope, agent.Token},
			{"AIRC login", h.url() + "/register/challenge", `{"handle":"scout_8"}`, ""},
			{"AIRC refresh", h.url() + "/auth/refresh", `{}`, ""},
			{"REST", h.url() + "/api/v1/handoffs", marshal(t, map[string]any{"to": worker.did, "title": "Cite more"}), worker.token},
			{"OAuth", h.url() + "/oauth/token", "grant_type=client_credentials", ""},
			stranger,
		} {
			e.asksLater(t, http.StatusTooManyRequests)
		}
	})
}

// scout is a registered agent with a signed message to itself.
type scout struct {
	*bridgetest.Agent

	envelope string
}

func newScout(t *testing.T, h *house) scout {
	t.Helper()
	agent := bridgetest.NewAgent(h.url(), "scout_7", make([]byte, 32))
	if err := agent.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.secrets = append(h.secrets, agent.Token)
	envelope, err := agent.Sign(agent.Envelope("scout_7", "hello", nil))
	if err != nil {
		t.Fatal(err)
	}
	return scout{agent, string(envelope)}
}
