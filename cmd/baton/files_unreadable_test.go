package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// noRights is the user and the group without rights.
const noRights = 65534

// servesAs has the gateway of a house run as a user that permissions bind, which root is not.
func (h *house) servesAs(t *testing.T, user int) {
	t.Helper()
	if os.Getuid() != 0 {
		return // permissions bind the user of the test
	}
	h.binary = filepath.Join(h.dir, "serve")
	script := fmt.Sprintf("#!/bin/sh\nexec setpriv --reuid=%d --regid=%d --clear-groups %q \"$@\"\n", user, user, program)
	if err := os.WriteFile(h.binary, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, open := range []string{filepath.Dir(program), filepath.Dir(h.dir)} {
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(h.dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, user, user)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A file that the gateway may not read stays, is counted once, and is taken after its mode allows it.
func TestFilesWithoutPermissionStay(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	if code := h.stop(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	h.servesAs(t, noRights)
	files := map[string]string{
		"calls":    filepath.Join(h.voice, "handoff", "secret.json"),
		"research": filepath.Join(h.tasks, "secret-1.json"),
	}
	drop(t, files["calls"], voicePayload(voiceSecret, "alice", "bob", "secret", time.Hour, map[string]any{"reason": "was secret"}))
	drop(t, files["research"], []byte(`{"task_id":"secret-1","from_agent":"scanner","to_agent":"scholar","status":"offered",
"description":"was secret","created_at":"2026-11-23T10:00:00Z","updated_at":"2026-11-23T10:00:00Z"}`))
	for _, path := range files {
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
	}
	h.start(t)
	h.ready(t)
	counted := func(link string) float64 {
		return h.counters(t)[fmt.Sprintf(`baton_bad_input_total{link=%q,network="files",reason="unreadable"}`, link)]
	}
	for link, path := range files {
		await(t, "the file to be counted", func() bool { return counted(link) == 1 })
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s: %v", link, err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var cursor string
	for range files {
		if step := h.next(t, &cursor).Step; step.Verb != "offer" || step.Title != "was secret" {
			t.Errorf("the step is %+v", step)
		}
	}
	for link := range files {
		if n := counted(link); n != 1 {
			t.Errorf("%s is counted %g times", link, n)
		}
	}
}
