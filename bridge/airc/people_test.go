package airc_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// listed returns the entry of a handle in a list of /api, nil without one.
func listed(t *testing.T, w *world, path, list, handle string) map[string]any {
	t.Helper()
	_, answer := (&client{world: w}).call(t, http.MethodGet, path, nil)
	entries, _ := answer[list].([]any)
	for _, each := range entries {
		if entry, _ := each.(map[string]any); entry["handle"] == handle {
			return entry
		}
	}
	return nil
}

func TestPresenceShowsFirstAndLastSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		began := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
		seen := func(answer map[string]any) []any {
			entry, _ := answer["presence"].(map[string]any)
			return []any{entry["firstSeen"], entry["lastSeen"]}
		}
		scout := &client{world: w, name: "scout_7"}
		_, answer := scout.call(t, http.MethodPost, "/api/presence", map[string]any{"action": "register", "username": "scout_7"})
		if diff := cmp.Diff([]any{began, began}, seen(answer)); diff != "" {
			t.Errorf("at registration (-want +got):\n%s", diff)
		}
		scout.token, _ = answer["token"].(string)
		for _, status := range []string{"available", "offline"} {
			time.Sleep(30 * time.Second)
			now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
			_, answer = scout.call(t, http.MethodPost, "/api/presence", map[string]any{"action": "heartbeat", "username": "scout_7", "status": status})
			if diff := cmp.Diff([]any{began, now}, seen(answer)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", status, diff)
			}
		}
	})
}

func TestHeldMessageRepeatedShowsItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.newcomer(t, "scout_7", nil)
		amy := w.newcomer(t, "amy_1", nil)
		sent := time.Now()
		body := map[string]any{"to": "scout_7", "body": "hello", "idempotency_key": "once-and-for-all"}
		for range 2 {
			_, answer := amy.call(t, http.MethodPost, "/api/messages", body)
			said, _ := answer["message"].(map[string]any)
			if said["timestamp"] != float64(sent.Unix()) || said["created_at"] != sent.UTC().Format("2006-01-02T15:04:05.000Z") {
				t.Errorf("sent at %v, %v", said["timestamp"], said["created_at"])
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestPresenceDistinguishesPeopleFromAgents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		register, heartbeat any // nil for none
		human               bool
	}{
		"that says nothing":                {nil, nil, false},
		"that says it is an agent":         {true, nil, false},
		"that says it is none":             {false, nil, true},
		"that says so with each heartbeat": {false, false, true},
		"that says so later":               {nil, false, true},
		"that takes it back":               {false, true, false},
		"that says it in another type":     {"false", nil, false},
	} {
		w := newWorld(t)
		body := func(action string, isAgent any) map[string]any {
			all := map[string]any{"action": action, "username": "amy_1", "workingOn": "tests"}
			if isAgent != nil {
				all["isAgent"] = isAgent
			}
			return all
		}
		amy := w.newcomer(t, "amy_1", body("register", test.register))
		amy.call(t, http.MethodPost, "/api/presence", body("heartbeat", test.heartbeat))
		kind := map[bool]string{true: "human", false: "agent"}[test.human]
		entry := listed(t, w, "/api/presence", "active", "amy_1")
		if entry["isAgent"] != !test.human || entry["agentType"] != kind || entry["type"] != kind {
			t.Errorf("one %s: isAgent %v, agentType %v, type %v, want %s", name, entry["isAgent"], entry["agentType"], entry["type"], kind)
		}
		if _, answer := (&client{world: w}).call(t, http.MethodGet, "/api/identity/amy_1", nil); answer["kind"] != kind {
			t.Errorf("one %s: kind %v, want %s", name, answer["kind"], kind)
		}
		if found := listed(t, w, "/api/agents", "agents", "amy_1"); (found == nil) != test.human {
			t.Errorf("one %s among the agents: %v", name, found)
		}
	}
}

func TestRegisterKeepsPeopleApartFromAgents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		amy := w.newcomer(t, "amy_1", map[string]any{"isAgent": false})
		time.Sleep(time.Hour) // its presence has expired
		amy.call(t, http.MethodPost, "/api/presence", map[string]any{"action": "heartbeat", "username": "amy_1"})
		if entry := listed(t, w, "/api/presence", "active", "amy_1"); entry["isAgent"] != false {
			t.Errorf("listed as %v", entry)
		}
	})
}
