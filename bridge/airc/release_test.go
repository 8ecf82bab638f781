package airc_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// spec: airc-shapes "Sessions and proofs"
func TestTakenHandleNamesBothRemedies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(t, "scout_7", 0x01)
	w.newcomer(t, "amy_1", nil)
	said := map[string]map[string]any{}
	for _, handle := range []string{"scout_7", "amy_1"} {
		for _, path := range []string{"/api/presence", "/api/users", "/api/identity"} {
			status, answer := (&client{world: w}).call(t, http.MethodPost, path, map[string]any{"action": "register", "username": handle})
			if status != http.StatusConflict {
				t.Errorf("%s at %s: %d %v", handle, path, status, answer)
			}
			said[path+" "+handle] = answer
		}
	}
	_, answer, err := w.stranger("amy_1", 0x09).Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": "amy_1"})
	if err != nil {
		t.Fatal(err)
	}
	said["/register/challenge"] = answer
	for where, answer := range said {
		message, _ := answer["message"].(string)
		if answer["error"] != "handle_taken" || !strings.Contains(message, "sign the request with its registered key") || !strings.Contains(message, "baton airc release HANDLE") {
			t.Errorf("%s: %v", where, answer)
		}
	}
}

func TestReleasedHandleIsRegisteredAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, amy := w.agent(t, "scout_7", 0x01), w.newcomer(t, "amy_1", nil)
	planner := w.agent(t, "planner", 0x04)
	consents(t, scout, planner)
	if got := told(planner.Send(t.Context(), "scout_7", "before", nil)); got != "201" {
		t.Fatal(got)
	}
	before, err := w.record.Agent(t.Context(), "scout_7")
	if err != nil {
		t.Fatal(err)
	}
	for _, handle := range []string{"scout_7", "amy_1"} {
		if err := w.record.ReleaseHandle(t.Context(), handle, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if got := told(scout.Call(t.Context(), http.MethodGet, "/messages/inbox", nil)); got != "401 key_revoked" {
		t.Errorf("the session of a released handle: %s", got)
	}
	if status, answer := amy.call(t, http.MethodGet, "/api/messages?user=amy_1", nil); status != http.StatusUnauthorized {
		t.Errorf("the token of a released handle: %d %v", status, answer)
	}
	if got := told(planner.Send(t.Context(), "scout_7", "meanwhile", nil)); got != "201" {
		t.Errorf("a message to a released handle: %s", got)
	}

	again := w.agent(t, "scout_7", 0x09) // with another key
	after, err := w.record.Agent(t.Context(), "scout_7")
	if err != nil || after.DID != before.DID || len(after.Keys) != 1 || after.Keys[0].ID == before.Keys[0].ID {
		t.Errorf("registered again: %+v, %v", after, err)
	}
	var texts []string
	for _, m := range inbox(t, again) {
		texts = append(texts, m.Body)
	}
	if got := strings.Join(texts, ", "); !strings.HasSuffix(got, "before, meanwhile") {
		t.Errorf("its inbox: %s", got)
	}
	if got := edge(t, planner, "scout_7"); !strings.HasPrefix(got, "accepted") {
		t.Errorf("its consent: %s", got)
	}
	w.newcomer(t, "amy_1", nil) // 201, without a proof
	if got := told(w.stranger("scout_7", 0x01).Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": "scout_7"})); got != "200" {
		t.Errorf("a challenge for the former key: %s", got)
	}
	if err := w.stranger("scout_7", 0x01).Register(t.Context()); err == nil || !strings.Contains(err.Error(), "409") {
		t.Errorf("the former key registers: %v, want 409", err)
	}
}
