package airc_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// beat sends a heartbeat and returns the answer.
func beat(t *testing.T, a *bridgetest.Agent, body map[string]any) map[string]any {
	t.Helper()
	status, answer, err := a.Call(t.Context(), http.MethodPost, "/presence", body)
	if err != nil || status != http.StatusOK {
		t.Fatalf("heartbeat of %s: %d %v %v", a.Handle, status, answer, err)
	}
	return answer
}

// sees returns an agent's view of others: each handle with its status, context and mood.
func sees(t *testing.T, a *bridgetest.Agent) []string {
	t.Helper()
	status, answer, err := a.Call(t.Context(), http.MethodGet, "/presence", nil)
	if err != nil || status != http.StatusOK {
		t.Fatal(status, answer, err)
	}
	var seen []string
	for _, one := range answer["presence"].([]any) {
		member := func(name string) string { text, _ := one.(map[string]any)[name].(string); return text }
		seen = append(seen, strings.TrimSpace(member("handle")+" "+member("status")+" "+member("context")+" "+member("mood")))
	}
	slices.Sort(seen)
	return seen
}

// spec: airc-v0.1.1 §8.3
func TestPresenceVisibility(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, friend, half, stranger := w.agent(t, "scout_7", 0x01), w.agent(t, "friend", 0x02), w.agent(t, "half_way", 0x03), w.agent(t, "stranger", 0x04)
	for _, edge := range []struct {
		who    *bridgetest.Agent
		handle string
		action string
	}{{scout, "friend", "accept"}, {friend, "scout_7", "accept"}, {scout, "half_way", "accept"}, {stranger, "scout_7", "accept"}} {
		if got := told(edge.who.Consent(t.Context(), edge.handle, edge.action)); got != "200" {
			t.Fatal(got)
		}
	}
	for _, test := range []struct {
		visibility, contextVisibility string
		self, friend, others          string // each one's view of scout, "" for nothing
	}{
		{"", "", "scout_7 online x y", "scout_7 online  y", ""},
		{"contacts", "contacts", "scout_7 online x y", "scout_7 online x y", ""},
		{"public", "none", "scout_7 online x y", "scout_7 online  y", "scout_7 online"},
		{"public", "contacts", "scout_7 online x y", "scout_7 online x y", "scout_7 online"},
		{"public", "public", "scout_7 online x y", "scout_7 online x y", "scout_7 online x"},
		{"none", "public", "scout_7 online x y", "", ""},
		{"contacts", "none", "scout_7 online x y", "scout_7 online  y", ""},
		{"contacts", "public", "scout_7 online x y", "scout_7 online x y", ""},
		{"none", "contacts", "scout_7 online x y", "", ""},
		{"none", "none", "scout_7 online x y", "", ""},
	} {
		body := map[string]any{"status": "online", "context": "x", "mood": "y"}
		if test.visibility != "" {
			body["visibility"], body["contextVisibility"] = test.visibility, test.contextVisibility
		}
		beat(t, scout, body)
		for viewer, want := range map[*bridgetest.Agent]string{scout: test.self, friend: test.friend, half: test.others, stranger: test.others} {
			if got := strings.Join(sees(t, viewer), ", "); got != want {
				t.Errorf("with %q and %q %s sees %q, want %q", test.visibility, test.contextVisibility, viewer.Handle, got, want)
			}
		}
	}
}

func TestPresenceEndsAfterEightySeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scout := w.agent(t, "scout_7", 0x01)
		answer := beat(t, scout, map[string]any{"status": "shipping", "visibility": "none"})
		now := float64(time.Now().Unix())
		if answer["status"] != "online" || answer["lastHeartbeat"] != now || answer["expiresAt"] != now+80 ||
			answer["visibility"] != "none" || answer["contextVisibility"] != "none" {
			t.Errorf("answered %v", answer)
		}
		time.Sleep(79 * time.Second)
		if got := sees(t, scout); len(got) != 1 {
			t.Errorf("after 79 s: %v", got)
		}
		time.Sleep(time.Second)
		if got := sees(t, scout); len(got) != 0 {
			t.Errorf("after 80 s: %v", got)
		}
		if answer := beat(t, scout, map[string]any{"status": "busy"}); answer["status"] != "dnd" || answer["visibility"] != "none" {
			t.Errorf("a heartbeat that does not name the visibility: %v", answer)
		}
		beat(t, scout, map[string]any{"status": "offline"})
		if got := sees(t, scout); len(got) != 0 {
			t.Errorf("offline: %v", got)
		}
	})
}

func TestHeartbeatRefusesUnreadableBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	for name, body := range map[string]map[string]any{
		"no status":            {"context": "x"},
		"a long context":       {"status": "online", "context": strings.Repeat("é", 281)},
		"a long mood":          {"status": "online", "mood": strings.Repeat("x", 65)},
		"a context of numbers": {"status": "online", "context": 7},
		"an unknown level":     {"status": "online", "visibility": "friends"},
	} {
		if got := told(scout.Call(t.Context(), http.MethodPost, "/presence", body)); got != "400 bad_request" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := told(w.stranger("nobody", 0x09).Call(t.Context(), http.MethodGet, "/presence", nil)); got != "401 unauthorized" {
		t.Errorf("without a token: %s", got)
	}
}
