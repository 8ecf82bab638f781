package main_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// voiceSecret is the secret of bob and alice.
const voiceSecret = "a secret of bob and alice"

// filesHouse is a gateway with a voice directory and a ".handoffs" directory. Bob of the one and the
// remote agent of the other are scholar, a caller over plain HTTP.
type filesHouse struct {
	*house

	scholar      *caller
	voice, tasks string
}

// newFilesHouse starts the gateway. The DID of scholar is known before the directories are
// configured.
func newFilesHouse(t *testing.T, tables ...string) *filesHouse {
	t.Helper()
	h := &filesHouse{house: newHouse(t, tables...)}
	h.start(t)
	h.scholar = logIn(t, h.url())
	if code := h.stop(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	h.voice, h.tasks = filepath.Join(h.dir, "calls"), filepath.Join(h.dir, "tasks")
	for _, path := range []string{h.voice, h.tasks} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.keep(t, "bob-alice.key", voiceSecret)
	h.keep(t, "bob.hub", "the hub token of bob")
	h.keep(t, "alice.hub", "the hub token of alice")
	h.configure(t, append(tables, fmt.Sprintf(`[limits]
did_events_per_minute = 0
open_handoffs_per_did = 0
%s
[[files.voice]]
name = "calls"
dir = %q
state_dir = %q
agents = { bob = %q }
hub_token_files = { bob = "bob.hub", alice = "alice.hub" }
[[files.voice.pairs]]
agents = ["bob", "alice"]
secret_file = "bob-alice.key"
[[files.tasks]]
name = "research"
dir = %q
agents = { scholar = %q }
trusted = ["scanner"]
`, anyAddress, h.voice, filepath.Join(h.dir, "state"), h.scholar.did, h.tasks, h.scholar.did))...)
	h.start(t)
	h.ready(t)
	return h
}

// voicePayload returns a handoff file from one agent to another one, signed.
func voicePayload(secret, from, to, caller string, lifetime time.Duration, more map[string]any) []byte {
	now := time.Now().UTC().Truncate(time.Second)
	sum := sha256.Sum256([]byte(caller))
	said := map[string]any{
		"protocol_version": 1, "handoff_id": fmt.Sprintf("%d-%s-%s-%x", now.Unix(), from, to, sum[:8]), "caller_hash": hex.EncodeToString(sum[:8]),
		"from_agent": from, "to_agent": to, "reason": "scheduling", "initiated_at": now.Format(time.RFC3339), "expires_at": now.Add(lifetime).Format(time.RFC3339),
		"transcript": []any{map[string]any{"role": "user", "text": "hello"}},
	}
	maps.Copy(said, more)
	return signVoice(secret, said)
}

func signVoice(secret string, said map[string]any) []byte {
	delete(said, "hmac")
	unsigned, _ := json.Marshal(said) //nolint:errchkjson // the test made it
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(unsigned)
	said["hmac"] = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	text, _ := json.Marshal(said) //nolint:errchkjson // the test made it
	return text
}

// drop writes a file into a folder as the reference does.
func drop(t *testing.T, path string, content []byte) {
	t.Helper()
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	if err := os.WriteFile(temp, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, path); err != nil {
		t.Fatal(err)
	}
}

// filesIn returns the names of the files in a folder.
func filesIn(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the gateway makes some folders when it needs them
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}

// awaitFile waits until a folder has one file with an extension, and returns its name.
func awaitFile(t *testing.T, folder, extension string) string {
	t.Helper()
	var found []string
	await(t, "a file "+extension+" in "+folder, func() bool {
		found = slices.DeleteFunc(filesIn(t, folder), func(name string) bool { return !strings.HasSuffix(name, extension) || strings.HasPrefix(name, ".") })
		return len(found) > 0
	})
	return found[0]
}

func (h *filesHouse) state(t *testing.T, id string) string {
	t.Helper()
	var shown struct{ State string }
	h.scholar.must(t, http.StatusOK, http.MethodGet, "handoffs/"+id, nil, &shown)
	return shown.State
}

// next returns the next step in the inbox of scholar.
func (h *filesHouse) next(t *testing.T, cursor *string) arrived {
	t.Helper()
	entries := h.scholar.reads(t, *cursor)
	if len(entries) == 0 {
		t.Fatal("nothing arrives")
	}
	*cursor = entries[0].Cursor
	return entries[0]
}

func native(link, name string) federation.DID {
	return federation.DID("did:web:gw.test:dir:" + link + ":" + name)
}

func TestFilesVoiceHandoffGoesToAnAgent(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	var cursor string
	for _, end := range []struct{ verb, folder string }{{"complete", "archive"}, {"fail", "rejected"}, {"decline", "rejected"}} {
		content := voicePayload(voiceSecret, "alice", "bob", "caller "+end.verb, time.Minute, map[string]any{"context_summary": "budget"})
		drop(t, filepath.Join(h.voice, "handoff", "x-0.json"), content)
		step := h.next(t, &cursor).Step
		if step.Verb != "offer" || step.Title != "scheduling" || step.For != string(native("calls", "alice")) || step.Provenance != "vouched" ||
			step.Context != `{"transcript":[{"role":"user","text":"hello"}],"context_summary":"budget"}` {
			t.Fatalf("the offer is %+v", step)
		}
		claimed := awaitFile(t, filepath.Join(h.voice, "claimed"), ".json")
		if end.verb != "decline" {
			h.scholar.step(t, step.HandoffID, "accept", nil)
			bootstrap := awaitFile(t, filepath.Join(h.dir, "state", "handoffs"), ".json")
			text, err := os.ReadFile(filepath.Join(h.dir, "state", "handoffs", bootstrap))
			if err != nil || !bytes.Contains(text, []byte("untrusted")) || !bytes.Contains(text, []byte("budget")) {
				t.Errorf("the bootstrap is %s, %v", text, err)
			}
			if err := os.Remove(filepath.Join(h.dir, "state", "handoffs", bootstrap)); err != nil { // the voice server consumes it
				t.Error(err)
			}
		}
		h.scholar.step(t, step.HandoffID, end.verb, map[string]any{"note": "so be it"})
		at := filepath.Join(h.voice, end.folder)
		name := awaitFile(t, at, ".json")
		if now, err := os.ReadFile(filepath.Join(at, name)); err != nil || !bytes.Equal(now, content) {
			t.Errorf("%s has other bytes now: %v", claimed, err)
		}
		if end.folder == "rejected" {
			var reason struct{ Code, Detail, At string }
			text, err := os.ReadFile(filepath.Join(at, name+".reason"))
			want := map[string]string{"fail": "failed", "decline": "declined"}[end.verb]
			if err != nil || json.Unmarshal(text, &reason) != nil || reason.Code != want || reason.Detail != "so be it" {
				t.Errorf("the sidecar is %s, %v", text, err)
			}
		}
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if left := filesIn(t, filepath.Join(h.dir, "state", "handoffs")); len(left) > 0 {
		t.Errorf("bootstraps are written again: %v", left)
	}
}

func TestFilesOfferToAVoiceAgentBecomesAFile(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	var cursor string
	for _, tt := range []struct {
		folders, verbs []string
		state          string
	}{
		{[]string{"claimed", "archive"}, []string{"accept", "complete"}, "completed"},
		{[]string{"rejected"}, []string{"decline"}, "declined"},
		{[]string{"claimed", "rejected"}, []string{"accept", "fail"}, "failed"},
	} {
		id := h.scholar.offer(t, map[string]any{"to": native("calls", "alice"), "title": "take it", "context": map[string]any{"topic": "X"}})
		at := filepath.Join(h.voice, "handoff")
		name := awaitFile(t, at, ".json")
		text, err := os.ReadFile(filepath.Join(at, name))
		if err != nil {
			t.Fatal(err)
		}
		var said map[string]any
		if err := json.Unmarshal(text, &said); err != nil || said["from_agent"] != "bob" || said["to_agent"] != "alice" || said["reason"] != "take it" || said["topic"] != "X" {
			t.Errorf("the file is %s, %v", text, err)
		}
		if again := signVoice(voiceSecret, said); !bytes.Equal(again, text) {
			t.Errorf("the file is\n%s, and signed again\n%s", text, again)
		}
		for i, folder := range tt.folders {
			to := filepath.Join(h.voice, folder, fmt.Sprintf("%s-%d.json", id, i))
			if err := os.Rename(filepath.Join(at, name), to); err != nil {
				t.Fatal(err)
			}
			at, name = filepath.Dir(to), filepath.Base(to)
			if got := h.next(t, &cursor).Step; got.HandoffID != id || got.Verb != tt.verbs[i] || got.For != string(native("calls", "alice")) {
				t.Errorf("in %s: the step is %+v, want %s", folder, got, tt.verbs[i])
			}
		}
		if got := h.state(t, id); got != tt.state {
			t.Errorf("the handoff is %s, want %s", got, tt.state)
		}
	}
}

func TestFilesRecordGoesToAnAgent(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	var cursor string
	const id = "a1b2c3d4-0000-4000-8000-000000000001"
	path := filepath.Join(h.tasks, id+".json")
	drop(t, path, []byte(`{"task_id":"`+id+`","from_agent":"scanner","to_agent":"scholar","status":"offered","description":"Review it",
 "context":{"line":12345678901234567890,"f":1.50},"created_at":"2026-11-23T10:00:00.000001+00:00","updated_at":"2026-11-23T10:00:00","x_own":[1,{"a":2}]}`))
	step := h.next(t, &cursor).Step
	if step.Verb != "offer" || step.Title != "Review it" || step.For != string(native("research", "scanner")) || step.Context != `{"line":12345678901234567890,"f":1.50}` {
		t.Fatalf("the offer is %+v", step)
	}
	record := func() (r struct {
		Status  string
		To      string `json:"to_agent"`
		Created string `json:"created_at"`
		Context map[string]json.RawMessage
		Own     json.RawMessage `json:"x_own"`
	},
	) {
		text, err := os.ReadFile(path)
		if err == nil {
			_ = json.Unmarshal(text, &r)
		}
		return r
	}
	h.scholar.step(t, step.HandoffID, "accept", nil)
	await(t, "the record to be accepted", func() bool { return record().Status == "accepted" })
	h.scholar.step(t, step.HandoffID, "fail", map[string]any{"note": "no time"})
	await(t, "the record to fail", func() bool { return record().Status == "failed" })
	r := record()
	if r.To != "scholar" || string(r.Context["line"]) != "12345678901234567890" || string(r.Context["f"]) != "1.50" || len(r.Context) != 3 || r.Created != "2026-11-23T10:00:00.000001+00:00" || len(r.Own) == 0 {
		t.Errorf("the record is %+v", r)
	}
	// The agent of the directory offers it again: a new handoff, that names the old one.
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	drop(t, path, bytes.Replace(text, []byte(`"failed"`), []byte(`"offered"`), 1))
	second := h.next(t, &cursor).Step
	var shown struct{ Replaces string }
	h.scholar.must(t, http.StatusOK, http.MethodGet, "handoffs/"+second.HandoffID, nil, &shown)
	if second.Verb != "offer" || second.HandoffID == step.HandoffID || shown.Replaces != step.HandoffID {
		t.Errorf("the second offer is %+v and replaces %q", second, shown.Replaces)
	}
	h.kill(t)
	h.start(t)
	h.ready(t)
	h.scholar.step(t, second.HandoffID, "accept", nil)
	h.scholar.step(t, second.HandoffID, "complete", nil)
	await(t, "the record to be completed", func() bool { return record().Status == "completed" })
}

func TestFilesOfferToADirectoryAgentBecomesARecord(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	var cursor string
	id := h.scholar.offer(t, map[string]any{"to": native("research", "reviewer"), "title": "Review it", "context": map[string]any{"n": 1}})
	name := awaitFile(t, h.tasks, ".json")
	for _, args := range [][]string{{"accept", "--agent", "reviewer"}, {"complete", "--agent", "reviewer"}} {
		cmd := exec.CommandContext(t.Context(), program, "dir", args[0], name[:8], "--dir", h.tasks, args[1], args[2])
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("baton dir %v: %v: %s", args, err, out)
		}
		if got := h.next(t, &cursor).Step; got.HandoffID != id || got.Verb != args[0] || got.For != string(native("research", "reviewer")) {
			t.Errorf("the step is %+v, want %s", got, args[0])
		}
	}
	if got := h.state(t, id); got != "completed" {
		t.Errorf("the handoff is %s", got)
	}
}

func (h *filesHouse) hub(t *testing.T, token, method, path string, body []byte) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, h.url()+"/api/v1/handoffs/"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestFilesHubExchangesHandoffs(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	const bob, alice = "the hub token of bob", "the hub token of alice"
	start := voicePayload(voiceSecret, "bob", "alice", "hub", time.Minute, nil)
	var said struct {
		ID string `json:"handoff_id"`
	}
	if err := json.Unmarshal(start, &said); err != nil {
		t.Fatal(err)
	}
	other := voicePayload(voiceSecret, "bob", "alice", "hub", time.Minute, map[string]any{"reason": "another", "handoff_id": said.ID})
	bad := bytes.Replace(start, []byte("scheduling"), []byte("scheduled"), 1)
	toBob := voicePayload(voiceSecret, "alice", "bob", "hub", time.Minute, nil)
	for _, tt := range []struct {
		name, token, method, path string
		body                      []byte
		status                    int
		has                       string
	}{
		{"no token of the hub", "else", "POST", "start", start, 401, ""},
		{"a token of an agent of the API", h.scholar.token, "POST", "start", start, 401, ""},
		{"the file of another agent", alice, "POST", "start", start, 403, ""},
		{"a bad HMAC", bob, "POST", "start", bad, 422, `"status":"rejected"`},
		{"a start", bob, "POST", "start", start, 201, `"handoff_id":"` + said.ID + `","status":"pending"`},
		{"the same start", bob, "POST", "start", start, 201, `"handoff_id":"` + said.ID + `","status":"pending"`},
		{"another handoff with that handoff_id", bob, "POST", "start", other, 409, ""},
		{"the inbox of another agent", bob, "GET", "poll?agent=alice", nil, 403, ""},
		{"the file", alice, "GET", "poll?agent=alice&wait=10", nil, 200, string(start)},
		{"no file for bob", bob, "GET", "poll", nil, 204, ""},
		{"an accept by the wrong agent", bob, "POST", said.ID + "/accept", nil, 403, ""},
		{"a complete before the accept", alice, "POST", said.ID + "/complete", nil, 409, ""},
		{"an accept", alice, "POST", said.ID + "/accept", nil, 200, ""},
		{"an accept again", alice, "POST", said.ID + "/accept", nil, 409, ""},
		{"nothing more", alice, "GET", "poll?agent=alice", nil, 204, ""},
		{"a complete", alice, "POST", said.ID + "/complete", nil, 200, ""},
		{"an unknown handoff", alice, "POST", "nothing-here/accept", nil, 404, ""},
		{"a handoff of the API", alice, "POST", "01K9ZQ0000000000000000000H/accept", nil, 401, ""},
		{"a verb of the API alone", h.scholar.token, "POST", said.ID + "/accept", nil, 401, ""},
		{"a start to bob", alice, "POST", "start", toBob, 201, `"status":"pending"`},
	} {
		status, answer := h.hub(t, tt.token, tt.method, tt.path, tt.body)
		if status != tt.status || !strings.Contains(answer, tt.has) {
			t.Errorf("%s is answered %d %s; want %d with %s", tt.name, status, answer, tt.status, tt.has)
		}
	}
	awaitFile(t, filepath.Join(h.voice, "archive"), ".json")
	var steps []string
	var cursor string
	for len(steps) < 3 {
		step := h.next(t, &cursor).Step
		steps = append(steps, step.Verb)
	}
	if want := []string{"accept", "complete", "offer"}; !slices.Equal(steps, want) {
		t.Errorf("bob reads %v, want %v", steps, want)
	}
	if left := filesIn(t, filepath.Join(h.voice, "claimed")); len(left) > 0 {
		t.Errorf("a start wrote files: %v", left)
	}
}
