package main_test

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// slots returns how many rows the links of directories keep for longer than a day from now.
func (h *filesHouse) slots(t *testing.T) (kept int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(h.dir, "data", "baton.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.QueryRowContext(t.Context(), `SELECT count(*) FROM answer WHERE key LIKE 'files:%' AND at > ?`, time.Now().Add(24*time.Hour).UnixNano()).Scan(&kept)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// The record's note of a file ends with the work, or with the file.
func TestFilesOfClosedHandoffsAreForgotten(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	var cursor string
	expect := func(what string, want int) {
		t.Helper()
		await(t, what, func() bool { return h.slots(t) == want })
	}
	expect("no slot at first", 0)

	// A file that an agent of the gateway takes.
	drop(t, filepath.Join(h.voice, "handoff", "in.json"), voicePayload(voiceSecret, "alice", "bob", "in", time.Minute, nil))
	id := h.next(t, &cursor).Step.HandoffID
	h.scholar.step(t, id, "accept", nil)
	expect("the slot of the accepted file", 1)
	h.scholar.step(t, id, "complete", nil)
	awaitFile(t, filepath.Join(h.voice, "archive"), ".json")
	expect("no slot of the archived file", 0)

	// Handoffs of the hub: one to an agent of the directory, and a forged one.
	body := voicePayload(voiceSecret, "bob", "alice", "slot", time.Minute, map[string]any{"handoff_id": "slot"})
	for range 2 {
		if status, answer := h.hub(t, "the hub token of bob", http.MethodPost, "start", body); status != http.StatusCreated {
			t.Fatalf("start is answered %d %s", status, answer)
		}
	}
	awaitFile(t, filepath.Join(h.voice, "handoff"), ".json")
	if status, answer := h.hub(t, "the hub token of alice", http.MethodPost, "slot/accept", nil); status != http.StatusOK {
		t.Fatalf("accept is answered %d %s", status, answer)
	}
	expect("the three slots of the accepted handoff", 3)
	if status, answer := h.hub(t, "the hub token of alice", http.MethodPost, "slot/complete", nil); status != http.StatusOK {
		t.Fatalf("complete is answered %d %s", status, answer)
	}
	expect("no slot of the completed handoff", 0)
	if status, answer := h.hub(t, "the hub token of bob", http.MethodPost, "start", body); status != http.StatusCreated {
		t.Errorf("the same start again is answered %d %s", status, answer)
	}

	// A record, which has no expiry: it is deleted.
	drop(t, filepath.Join(h.tasks, "slot-1.json"), []byte(`{"task_id":"slot-1","from_agent":"scanner","to_agent":"scholar","status":"offered",
"description":"x","created_at":"2026-11-23T10:00:00Z","updated_at":"2026-11-23T10:00:00Z"}`))
	expect("the slot of the record", 1)
	await(t, "the record to be deleted", func() bool { return os.Remove(filepath.Join(h.tasks, "slot-1.json")) == nil }) // it is away while it is claimed
	expect("no slot of the deleted record", 0)
}
