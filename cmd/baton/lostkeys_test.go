package main_test

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// forgetKeys makes a record one from before any noted the keys that it was written with.
func (h *house) forgetKeys(t *testing.T) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(h.dir, "data", "baton.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `DELETE FROM own_key`); err != nil {
		t.Fatal(err)
	}
}

// adopted returns how often the log says that the record adopted keys.
func (h *house) adopted(t *testing.T) (times int) {
	t.Helper()
	for _, line := range h.logged(t) {
		if text, _ := line["msg"].(string); strings.Contains(text, "adopts the keys") {
			times++
		}
	}
	return times
}

func TestLostKeysAreAdoptedByARecordWithoutMarks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url()+"/api/presence", strings.NewReader(`{"action":"register","username":"scout_7","workingOn":"tests"}`))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("an agent registers with %d", response.StatusCode)
	}
	h.stop(t)
	if times := h.adopted(t); times != 0 {
		t.Errorf("the first start adopted keys %d times", times)
	}
	h.forgetKeys(t)
	h.start(t)
	h.stop(t)
	if times := h.adopted(t); times != 1 {
		t.Errorf("the start after an upgrade adopted keys %d times, want once", times)
	}

	keys := filepath.Join(h.dir, "data", "keys")
	for _, known := range []bool{true, false} {
		if !known {
			h.forgetKeys(t)
		}
		if err := os.RemoveAll(keys); err != nil {
			t.Fatal(err)
		}
		h.launch(t)
		if code := h.wait(t); code != 1 {
			t.Errorf("without its keys, the gateway ends with %d, want 1", code)
		}
		lines := strings.Split(strings.TrimSpace(h.told(t)), "\n")
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "baton: serve: key kept: ") || !strings.Contains(last, "registry, server, token") {
			t.Errorf("known %t: it says %s", known, last)
		}
		if left, err := os.ReadDir(keys); err == nil && len(left) > 0 {
			t.Errorf("it made %s", left[0].Name())
		}
	}
}
