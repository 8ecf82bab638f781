package rest_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// A revoked key ends its sessions at every replica. Open streams are woken, and nothing is shown in
// an ended session.
func TestRevokedKeyEndsStreamsLeasesAndWebhooks(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(w.mux)
	defer http.DefaultClient.CloseIdleConnections()
	defer server.Close()
	scout, eliza := w.login(t, "scout"), w.login(t, "eliza")
	eliza.offer(t, map[string]any{"to": scout.did, "title": "first"})
	lease := scout.post(t, "/api/v1/inbox/lease", map[string]any{"device": "thief", "seconds": 3600})
	var leased struct{ Items []json.RawMessage }
	if err := json.Unmarshal([]byte(lease.Text), &leased); err != nil || len(leased.Items) != 1 {
		t.Fatalf("a lease: %d %s", lease.Status, lease.Text)
	}
	hook := scout.post(t, "/api/v1/webhooks", map[string]any{"url": "https://thief.example/in"})
	if hook.Status != http.StatusCreated {
		t.Fatalf("a webhook: %d %s", hook.Status, hook.Text)
	}
	socket := scout.call(t, server.URL, "", nil)
	socket.hear(t)
	request := func(path string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+scout.token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	stream := request("/api/v1/inbox/stream")
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	if _, err := nextEvent(lines); err != nil {
		t.Fatal(err)
	}
	polled := make(chan int, 1)
	last := scout.get(t, "/api/v1/inbox").member("next_cursor")
	go func() {
		answer := request("/api/v1/inbox?wait=50s&cursor=" + last)
		_ = answer.Body.Close()
		polled <- answer.StatusCode
	}()
	for deadline := time.Now().Add(10 * time.Second); w.Woken.WaitingFor(bridge.SessionsTopic(string(scout.did))) < 3; {
		if time.Now().After(deadline) {
			t.Fatal("the three requests do not wait")
		}
		time.Sleep(time.Millisecond)
	}

	if err := w.record.Revoke(t.Context(), scout.did, federation.KeyID(scout.key.Public), time.Now()); err != nil {
		t.Fatal(err)
	}
	w.Woken.Wake(bridge.SessionsTopic(string(scout.did)))
	if status := socket.over(t); status != websocket.StatusPolicyViolation {
		t.Errorf("the WebSocket is closed with %d", status)
	}
	if _, err := nextEvent(lines); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ends with %v", err)
	}
	if status := <-polled; status != http.StatusUnauthorized {
		t.Errorf("a request that waits is answered %d", status)
	}
	for _, path := range []string{"/api/v1/inbox", "/api/v1/webhooks", "/api/v1/handoffs"} {
		if got := scout.get(t, path); got.Status != http.StatusUnauthorized {
			t.Errorf("GET %s: %d %s", path, got.Status, got.Text)
		}
	}
	again, err := w.record.Lease(t.Context(), scout.did, "owner", "", time.Now(), time.Now().Add(time.Minute), 10)
	if err != nil || len(again) != 1 {
		t.Errorf("the owner leases %d entries, %v", len(again), err)
	}
	hooks, err := w.record.Webhooks(t.Context(), scout.did, federation.WebhookID{}, 10)
	if err != nil || len(hooks) != 1 || !hooks[0].Over(time.Now()) {
		t.Errorf("webhooks %+v, %v", hooks, err)
	}
	due, err := w.record.Rows().Take(t.Context(), federation.ToWebhook, time.Now(), time.Now().Add(time.Minute), 10)
	if err != nil || len(due) != 1 {
		t.Errorf("webhooks to be disabled: %v, %v", due, err)
	}
	if due, err := w.record.Rows().Heads(t.Context(), federation.WebhookName(hooks[0].ID), time.Now(), 1); len(due) != 0 || err != nil {
		t.Errorf("posts to the webhook: %v, %v", due, err)
	}
}

// Entries read after the end of a session are not shown, even if the wake-up is lost.
func TestStreamShowsNothingAfterItsSession(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(w.mux)
	defer http.DefaultClient.CloseIdleConnections()
	defer server.Close()
	scout, eliza := w.login(t, "scout"), w.login(t, "eliza")
	socket := scout.call(t, server.URL, "", nil)
	if err := w.record.Revoke(t.Context(), scout.did, federation.KeyID(scout.key.Public), time.Now()); err != nil {
		t.Fatal(err)
	}
	eliza.offer(t, map[string]any{"to": scout.did, "title": "secret"})
	if _, text, err := socket.conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("the socket shows %s, %v", text, err)
	}
}
