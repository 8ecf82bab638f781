package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// reasonOf returns the code in the sidecar of a rejected file.
func (h *filesHouse) reasonOf(t *testing.T, name string) string {
	t.Helper()
	var reason struct {
		Code, Detail string
		At           time.Time
	}
	path := filepath.Join(h.voice, "rejected", name)
	await(t, "the sidecar of "+name, func() bool {
		text, err := os.ReadFile(path + ".reason")
		_, moved := os.Lstat(path)
		return err == nil && moved == nil && json.Unmarshal(text, &reason) == nil && reason.Detail != "" && !reason.At.IsZero()
	})
	return reason.Code
}

func TestFilesRejectABadVoiceFileWithItsReason(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	var cursor string
	good := func(caller string, more map[string]any) []byte {
		return voicePayload(voiceSecret, "alice", "bob", caller, time.Minute, more)
	}
	taken := good("taken", nil)
	drop(t, filepath.Join(h.voice, "handoff", "taken.json"), taken)
	offered := h.next(t, &cursor).Step
	now := time.Now().UTC().Truncate(time.Second)
	for name, tt := range map[string]struct {
		content []byte
		code    string
	}{
		"wrong-secret": {voicePayload("another secret, long", "alice", "bob", "w", time.Minute, nil), "bad-hmac"},
		"tampered":     {bytes.Replace(good("t", nil), []byte("hello"), []byte("hullo"), 1), "bad-hmac"},
		"no-hmac":      {bytes.Replace(good("n", nil), []byte(`"hmac"`), []byte(`"hmak"`), 1), "bad-hmac"},
		"no-secret":    {voicePayload(voiceSecret, "gordon", "bob", "n", time.Minute, nil), "no-secret"},
		"expired":      {good("e", map[string]any{"initiated_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T00:01:00Z"}), "expired"},
		"future":       {good("f", map[string]any{"initiated_at": now.Add(time.Hour).Format(time.RFC3339), "expires_at": now.Add(2 * time.Hour).Format(time.RFC3339)}), "future"},
		"replayed":     {taken, "replayed"},
		"no-zone":      {good("z", map[string]any{"initiated_at": "2026-01-01T00:00:00"}), "bad-time"},
		"too-long":     {good("l", map[string]any{"expires_at": now.AddDate(1, 0, 0).Format(time.RFC3339)}), "bad-time"},
		"bad-id":       {good("i", map[string]any{"handoff_id": "../../etc/passwd"}), "bad-id"},
		"bad-version":  {good("v", map[string]any{"protocol_version": true}), "bad-version"},
		"bad-caller":   {good("c", map[string]any{"caller_hash": "+15550100001"}), "bad-caller"},
		"bad-role":     {good("r", map[string]any{"transcript": []any{map[string]any{"role": "tool", "text": "x"}}}), "bad-transcript"},
	} {
		drop(t, filepath.Join(h.voice, "handoff", name+".json"), tt.content)
		if code := h.reasonOf(t, name+".json"); code != tt.code {
			t.Errorf("%s is rejected as %s, want %s", name, code, tt.code)
		}
		if text, err := os.ReadFile(filepath.Join(h.voice, "rejected", name+".json")); err != nil || !bytes.Equal(text, tt.content) {
			t.Errorf("%s has other bytes now: %v", name, err)
		}
	}
	h.leavesAlone(t, good)
	if step := h.next(t, &cursor).Step; step.Title != "half" {
		t.Errorf("a bad file became the step %+v", step)
	}
	if got := h.state(t, offered.HandoffID); got != "offered" {
		t.Errorf("the good handoff is %s", got)
	}
	drop(t, filepath.Join(h.voice, "handoff", "last.json"), good("last", map[string]any{"reason": "the last"}))
	if step := h.next(t, &cursor).Step; step.Title != "the last" {
		t.Errorf("a bad file became the step %+v", step)
	}
}

// leavesAlone checks that files which cannot be read stay, are counted once, and are read after
// they have become good; and that the files of other agents stay as they are.
func (h *filesHouse) leavesAlone(t *testing.T, good func(string, map[string]any) []byte) {
	t.Helper()
	at := func(name string) string { return filepath.Join(h.voice, "handoff", name) }
	secret := filepath.Join(h.dir, "outside.json")
	if err := os.WriteFile(secret, good("link", nil), 0o600); err != nil {
		t.Fatal(err)
	}
	others := good("others", map[string]any{"to_agent": "sven"})
	half := good("half", map[string]any{"reason": "half"})
	for _, create := range []func() error{
		func() error { return os.Symlink(secret, at("symlink.json")) },
		func() error { return unix.Mkfifo(at("fifo.json"), 0o644) },
		func() error { return os.Mkdir(at("folder.json"), 0o755) },
		func() error { return os.WriteFile(at(".hidden.json"), half, 0o644) },
		func() error { return os.WriteFile(at("notes.txt"), half, 0o644) },
	} {
		if err := create(); err != nil {
			t.Fatal(err)
		}
	}
	drop(t, at("huge.json"), bytes.Repeat([]byte(" "), 1<<20+1))
	drop(t, at("half.json"), half[:len(half)/2])
	drop(t, at("others.json"), others)
	want := map[string]float64{"irregular": 3, "too-large": 1, "json": 1, "dotfile": 1}
	counted := func() bool {
		counters := h.counters(t)
		for reason, n := range want {
			if counters[fmt.Sprintf(`baton_bad_input_total{link="calls",network="files",reason=%q}`, reason)] != n {
				return false
			}
		}
		return true
	}
	await(t, "the bad files to be counted", counted)
	since := time.Now()
	await(t, "a rescan, which counts nothing twice", func() bool { return time.Since(since) > 6*time.Second })
	if !counted() {
		t.Errorf("a rescan counts again: %v", h.counters(t))
	}
	if text, err := os.ReadFile(at("others.json")); err != nil || !bytes.Equal(text, others) {
		t.Errorf("the file of other agents has changed: %v", err)
	}
	for _, name := range []string{"symlink.json", "fifo.json", "folder.json", "huge.json", "half.json", ".hidden.json"} {
		if _, err := os.Lstat(at(name)); err != nil {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
	if err := os.WriteFile(at("half.json"), half, 0o644); err != nil { // its writer goes on
		t.Fatal(err)
	}
	await(t, "the whole file to be taken", func() bool { _, err := os.Lstat(at("half.json")); return err != nil })
	if err := os.Remove(at("symlink.json")); err != nil {
		t.Fatal(err)
	}
}

func TestFilesSurviveAVanishedDirectory(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	var cursor string
	for _, dir := range []struct{ path, link, agent string }{{h.voice, "calls", "alice"}, {h.tasks, "research", "reviewer"}} {
		if err := os.Rename(dir.path, dir.path+".away"); err != nil {
			t.Fatal(err)
		}
		await(t, "the link to be down", func() bool {
			status, body := h.ask(t, "/readyz")
			return status == http.StatusServiceUnavailable && strings.Contains(body, "link "+dir.link+": down")
		})
		id := h.scholar.offer(t, map[string]any{"to": native(dir.link, dir.agent), "title": "while it is away"})
		if dir.link == "calls" {
			drop(t, filepath.Join(dir.path+".away", "handoff", "x.json"), voicePayload(voiceSecret, "alice", "bob", "away", time.Minute, nil))
		}
		if err := os.Rename(dir.path+".away", dir.path); err != nil {
			t.Fatal(err)
		}
		h.ready(t)
		if dir.link == "calls" {
			awaitFile(t, filepath.Join(dir.path, "handoff"), ".json")
			if step := h.next(t, &cursor).Step; step.Verb != "offer" {
				t.Errorf("the step is %+v", step)
			}
		} else {
			awaitFile(t, dir.path, ".json")
		}
		if got := h.state(t, id); got != "offered" {
			t.Errorf("the handoff is %s", got)
		}
	}
}

// The file of a handoff declined while the directory was away is rejected with the reason of the
// agent.
func TestFilesKeepTheReasonOfADecline(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	drop(t, filepath.Join(h.voice, "handoff", "x.json"), voicePayload(voiceSecret, "alice", "bob", "away", time.Minute, nil))
	var cursor string
	offer := h.next(t, &cursor).Step
	awaitFile(t, filepath.Join(h.voice, "claimed"), ".json")
	if err := os.Rename(h.voice, h.voice+".away"); err != nil {
		t.Fatal(err)
	}
	await(t, "the link to be down", func() bool {
		status, body := h.ask(t, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "link calls: down")
	})
	h.scholar.step(t, offer.HandoffID, "decline", map[string]any{"note": "no time today"})
	if err := os.Rename(h.voice+".away", h.voice); err != nil {
		t.Fatal(err)
	}
	rejected := filepath.Join(h.voice, "rejected")
	name := awaitFile(t, rejected, ".json")
	var reason struct{ Code, Detail string }
	text, err := os.ReadFile(filepath.Join(rejected, name+".reason"))
	if err != nil || json.Unmarshal(text, &reason) != nil || reason.Code != "declined" || reason.Detail != "no time today" {
		t.Errorf("the sidecar is %s, %v", text, err)
	}
}

func TestFilesLeaveABadRecord(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	record := func(id, from, to, status string) string {
		return `{"task_id":"` + id + `","from_agent":"` + from + `","to_agent":"` + to + `","status":"` + status +
			`","description":"x","created_at":"2026-11-23T10:00:00Z","updated_at":"2026-11-23T10:00:00Z"}`
	}
	bad := map[string]string{
		"untrusted-1":  record("untrusted-1", "mallory", "scholar", "offered"),
		"other-name-1": record("another", "scanner", "scholar", "offered"),
		"no-status-1":  record("no-status-1", "scanner", "scholar", "done"),
		"twice-1":      strings.Replace(record("twice-1", "scanner", "scholar", "offered"), "{", `{"task_id":"twice-1",`, 1),
		"local-1":      record("local-1", "scanner", "reviewer", "offered"), // to an agent of the directory
		"worked-on-1":  record("worked-on-1", "scanner", "scholar", "accepted"),
		"no-json-1":    "{",
		"_hidden":      record("_hidden", "scanner", "scholar", "offered"),
	}
	for name, content := range bad {
		drop(t, filepath.Join(h.tasks, name+".json"), []byte(content))
	}
	if err := os.Symlink(h.config, filepath.Join(h.tasks, "link-1.json")); err != nil {
		t.Fatal(err)
	}
	await(t, "the bad records to be counted", func() bool {
		c := h.counters(t)
		count := func(reason string) float64 {
			return c[fmt.Sprintf(`baton_bad_input_total{link="research",network="files",reason=%q}`, reason)]
		}
		return count("untrusted") == 1 && count("record") == 4 && count("irregular") == 1
	})
	drop(t, filepath.Join(h.tasks, "good-1.json"), []byte(record("good-1", "scanner", "scholar", "offered")))
	var cursor string
	if step := h.next(t, &cursor).Step; step.Verb != "offer" {
		t.Errorf("the step is %+v", step)
	}
	for name, content := range bad {
		if text, err := os.ReadFile(filepath.Join(h.tasks, name+".json")); err != nil || string(text) != content {
			t.Errorf("%s has changed: %s, %v", name, text, err)
		}
	}
	if got := len(filesIn(t, h.tasks)); got != len(bad)+2 {
		t.Errorf("the directory has %v", filesIn(t, h.tasks))
	}
}
