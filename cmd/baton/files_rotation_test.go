package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The secret of a pair is rotated as the README says: for a time both are good, and at the end
// only the new one.
func TestFilesPairSecretIsRotatedWithoutRestart(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	const next = "the next secret of bob and alice"
	var cursor string
	takes := func(secret, name string) {
		t.Helper()
		drop(t, filepath.Join(h.voice, "handoff", "rotated.json"), voicePayload(secret, "alice", "bob", name, time.Minute, map[string]any{"reason": name}))
		if got := h.next(t, &cursor).Step.Title; got != name {
			t.Errorf("the offer is %q, want %q", got, name)
		}
	}
	reload := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(h.config)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(text), from, to, 1)
		if err := os.WriteFile(h.config, []byte(changed), 0o600); err != nil || changed == string(text) {
			t.Fatalf("%q is not in the configuration: %v", from, err)
		}
		up := `"msg":"link up","network":"files","link":"calls"`
		before := strings.Count(h.told(t), up)
		h.signal(t, syscall.SIGHUP)
		await(t, "the link with the secrets", func() bool { return strings.Count(h.told(t), up) > before })
	}
	takes(voiceSecret, "before")
	h.keep(t, "next.key", next)
	reload(`secret_file = "bob-alice.key"`, "secret_file = \"next.key\"\nprevious_file = \"bob-alice.key\"")
	takes(voiceSecret, "by the previous one")
	takes(next, "by the next one")
	reload(`previous_file = "bob-alice.key"`, "")
	takes(next, "after")
	drop(t, filepath.Join(h.voice, "handoff", "old.json"), voicePayload(voiceSecret, "alice", "bob", "old", time.Minute, nil))
	if code := h.reasonOf(t, "old.json"); code != "bad-hmac" {
		t.Errorf("the old secret is answered %s", code)
	}
}
