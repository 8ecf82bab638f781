package main_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation/identity"
)

// sharers are two gateways that serve the same directories for the same agent.
type sharers struct {
	homes               map[string]*filesHouse // by home.name
	voice, tasks, state string
	agent               ed25519.PrivateKey
}

func newSharers(t *testing.T) *sharers {
	t.Helper()
	dir := t.TempDir()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	did := identity.KeyDID(public)
	s := &sharers{
		homes: map[string]*filesHouse{}, voice: filepath.Join(dir, "calls"), tasks: filepath.Join(dir, "tasks"), state: filepath.Join(dir, "state"), agent: private,
	}
	for _, folder := range []string{"handoff", "claimed", "archive", "rejected"} {
		if err := os.MkdirAll(filepath.Join(s.voice, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(s.tasks, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.test", "b.test"} {
		h := &filesHouse{house: newHouse(t), voice: s.voice, tasks: s.tasks}
		h.keep(t, "bob-alice.key", voiceSecret)
		h.configure(t, fmt.Sprintf(`[limits]
did_events_per_minute = 0
open_handoffs_per_did = 0
inbox_events_per_sender = 0
%s
[[files.voice]]
name = "calls"
dir = %q
state_dir = %q
agents = { bob = %q }
[[files.voice.pairs]]
agents = ["bob", "alice"]
secret_file = "bob-alice.key"
[[files.tasks]]
name = "research"
dir = %q
agents = { scholar = %q }
trusted = ["scanner"]
`, anyAddress, s.voice, s.state, did, s.tasks, did))
		var text []byte
		if text, err = os.ReadFile(h.config); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(h.config, bytes.Replace(text, []byte("gw.test"), []byte(name), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		s.homes[name] = h
	}
	return s
}

// run starts all gateways and waits until they are ready.
func (s *sharers) run(t *testing.T) {
	t.Helper()
	for _, h := range s.homes {
		h.launch(t)
	}
	for _, h := range s.homes {
		h.ready(t)
	}
}

// offers returns the titles of the handoffs at each gateway.
func (s *sharers) offers(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for name, h := range s.homes {
		var list struct{ Items []struct{ Title string } }
		h.asks(t, &list, "handoff", "list", "--limit", "200")
		for _, each := range list.Items {
			found[name] = append(found[name], each.Title)
		}
	}
	return found
}

// awaitOnce waits until all titles are offered, and checks that none is offered twice. It returns
// the gateway of each.
func (s *sharers) awaitOnce(t *testing.T, titles []string) map[string]string {
	t.Helper()
	slices.Sort(titles)
	var found []string
	owner := map[string]string{}
	await(t, fmt.Sprint(len(titles), " offers"), func() bool {
		found, owner = nil, map[string]string{}
		for name, each := range s.offers(t) {
			found = append(found, each...)
			for _, title := range each {
				owner[title] = name
			}
		}
		return len(owner) == len(titles)
	})
	slices.Sort(found)
	if !slices.Equal(found, titles) {
		t.Errorf("the handoffs are %v, want %v", found, titles)
	}
	return owner
}

func claimName(t *testing.T, content []byte, home string) string {
	t.Helper()
	var said struct {
		Caller string `json:"caller_hash"`
		HMAC   string
	}
	if err := json.Unmarshal(content, &said); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s-%.8x-%.4x.json", said.Caller, sha256.Sum256([]byte(said.HMAC)), sha256.Sum256([]byte(home)))
}

// Native writers put files into a directory served by two gateways. Only one gateway claims each
// file, even if a writer adds a copy, and the name in "claimed" identifies the gateway.
func TestVoiceClaimIsThatOfOneGateway(t *testing.T) {
	t.Parallel()
	s := newSharers(t)
	s.run(t)
	files, titles := map[string][]byte{}, []string{}
	for n := range 24 {
		title := fmt.Sprint("call ", n)
		files[title] = voicePayload(voiceSecret, "alice", "bob", title, time.Minute, map[string]any{"reason": title})
		titles = append(titles, title)
		drop(t, filepath.Join(s.voice, "handoff", fmt.Sprint("x-", n, ".json")), files[title])
		if n%4 == 0 {
			drop(t, filepath.Join(s.voice, "handoff", fmt.Sprint("copy-", n, ".json")), files[title])
		}
	}
	owner := s.awaitOnce(t, titles)
	await(t, "an empty folder of pending files", func() bool { return len(filesIn(t, filepath.Join(s.voice, "handoff"))) == 0 })
	want := map[string]bool{}
	for title, content := range files {
		want[claimName(t, content, owner[title])] = true
	}
	if got := filesIn(t, filepath.Join(s.voice, "claimed")); !maps.Equal(want, setOf(got)) {
		t.Errorf("claimed are %v, want %v", got, slices.Sorted(maps.Keys(want)))
	}
	for _, name := range filesIn(t, filepath.Join(s.voice, "rejected")) {
		if text, err := os.ReadFile(filepath.Join(s.voice, "rejected", name)); err != nil || strings.HasSuffix(name, ".reason") && !bytes.Contains(text, []byte(`"replayed"`)) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
	for _, h := range s.homes { // after a restart, no gateway claims a file of the other one
		h.kill(t)
	}
	s.run(t)
	s.awaitOnce(t, titles)
	if bootstraps := filesIn(t, filepath.Join(s.state, "handoffs")); len(bootstraps) > 0 {
		t.Errorf("bootstraps without an accept: %v", bootstraps)
	}
	for name, h := range s.homes {
		if !slices.Contains(slices.Collect(maps.Values(owner)), name) {
			continue
		}
		agent := logInWith(t, h.url(), s.agent)
		for _, each := range agent.reads(t, "") {
			agent.step(t, each.Step.HandoffID, "accept", nil)
		}
	}
	await(t, "a bootstrap for each file", func() bool { return len(filesIn(t, filepath.Join(s.state, "handoffs"))) == len(titles) })
	for name, h := range s.homes {
		if n := h.counters(t)[`baton_bad_input_total{link="calls",network="files",reason="bootstrap-exists"}`]; n > 0 {
			t.Errorf("%s wrote %v second bootstraps", name, n)
		}
	}
}

func setOf(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}

// A gateway killed after its rename offers the file at its next start, and no other gateway does. A
// file under the name of an earlier version belongs to the gateway with a record of it.
func TestVoiceClaimSurvivesACrashAndAnUpgrade(t *testing.T) {
	t.Parallel()
	s := newSharers(t)
	crashed := voicePayload(voiceSecret, "alice", "bob", "crashed", time.Minute, map[string]any{"reason": "crashed"})
	native := voicePayload(voiceSecret, "alice", "bob", "native", time.Minute, map[string]any{"reason": "native"})
	drop(t, filepath.Join(s.voice, "claimed", claimName(t, crashed, "b.test")), crashed)
	drop(t, filepath.Join(s.voice, "claimed", "native-0.json"), native)
	shared := strings.TrimSuffix(claimName(t, native, ""), fmt.Sprintf("-%.4x.json", sha256.Sum256(nil))) + ".json"
	drop(t, filepath.Join(s.voice, "claimed", shared), native)
	earlier := voicePayload(voiceSecret, "alice", "bob", "earlier", time.Minute, map[string]any{"reason": "earlier"})
	drop(t, filepath.Join(s.voice, "handoff", "x.json"), earlier)
	s.run(t)
	owner := s.awaitOnce(t, []string{"crashed", "earlier"})
	if owner["crashed"] != "b.test" {
		t.Errorf("the file of b.test is offered by %s", owner["crashed"])
	}
	for _, h := range s.homes {
		if code := h.stop(t); code != 0 {
			t.Fatalf("exit code %d", code)
		}
	}
	name := claimName(t, earlier, owner["earlier"])
	before := strings.TrimSuffix(name, fmt.Sprintf("-%.4x.json", sha256.Sum256([]byte(owner["earlier"])))) + ".json"
	if err := os.Rename(filepath.Join(s.voice, "claimed", name), filepath.Join(s.voice, "claimed", before)); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.homes[owner["earlier"]].dir, "data", "baton.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	digest := sha256.Sum256(earlier)
	if _, err := db.ExecContext(t.Context(), `UPDATE answer SET body = x'' WHERE digest = ?`, digest[:]); err != nil {
		t.Fatal(err)
	}
	s.run(t)
	await(t, "the name to say whose file it is", func() bool {
		_, err := os.Stat(filepath.Join(s.voice, "claimed", name))
		return err == nil
	})
	s.awaitOnce(t, []string{"crashed", "earlier"})
	if got := filesIn(t, filepath.Join(s.voice, "claimed")); !slices.Contains(got, "native-0.json") || !slices.Contains(got, shared) || len(got) != 4 {
		t.Errorf("claimed are %v", got)
	}
}

// Two gateways trust the writer of a ".handoffs" directory. Each record is claimed by the gateway
// named in its note.
func TestTaskRecordClaimIsThatOfOneGateway(t *testing.T) {
	t.Parallel()
	s := newSharers(t)
	var titles []string
	write := func(n int) {
		title := fmt.Sprint("task ", n)
		titles = append(titles, title)
		drop(t, filepath.Join(s.tasks, fmt.Sprintf("task-%03d.json", n)), taskRecord(t, fmt.Sprintf("task-%03d", n), title, map[string]any{"n": n}))
	}
	for n := range 12 {
		write(n)
	}
	s.run(t)
	for n := range 12 {
		write(12 + n)
	}
	owner := s.awaitOnce(t, titles)
	for n := range titles {
		text, err := os.ReadFile(filepath.Join(s.tasks, fmt.Sprintf("task-%03d.json", n)))
		var record struct {
			Status, Description string
			Context             struct {
				N   *int
				Fed struct{ Gateway string } `json:"_fed"`
			}
		}
		if err != nil || json.Unmarshal(text, &record) != nil || record.Status != "offered" || record.Context.N == nil || *record.Context.N != n ||
			record.Context.Fed.Gateway != owner[record.Description] {
			t.Errorf("%v: the record is %s; %s offers it", err, text, owner[record.Description])
		}
	}
	for _, h := range s.homes {
		h.kill(t)
	}
	s.run(t)
	s.awaitOnce(t, titles)
	if got := len(filesIn(t, s.tasks)); got != len(titles) {
		t.Errorf("the directory has %v", filesIn(t, s.tasks))
	}
}

// A replaced directory is not used until an operator allows it.
func TestSwappedDirectoryTakesTheLinkDown(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	drop(t, filepath.Join(h.tasks, "kept-1.json"), taskRecord(t, "kept-1", "Fix it", nil))
	var cursor string
	kept := h.next(t, &cursor).Step.HandoffID
	for _, dir := range []struct{ path, link string }{{h.tasks, "research"}, {h.voice, "calls"}} {
		down := func(what string) {
			t.Helper()
			await(t, what, func() bool {
				var shown struct {
					State string
					Error string `json:"last_error"`
				}
				h.asks(t, &shown, "link", "show", dir.link)
				return shown.State != "up" && strings.Contains(shown.Error, dir.path+" was replaced by another folder") && strings.Contains(shown.Error, "baton link dial "+dir.link)
			})
		}
		if err := os.Rename(dir.path, dir.path+".away"); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir.path, 0o755); err != nil {
			t.Fatal(err)
		}
		down("the link to be down")
		dials := strings.Count(h.told(t), `"msg":"link down"`)
		await(t, "more dials", func() bool { return strings.Count(h.told(t), `"msg":"link down"`) > dials })
		down("the link to stay down")
		if left := filesIn(t, dir.path); len(left) > 0 {
			t.Errorf("the gateway writes into another folder: %v", left)
		}
		if err := os.RemoveAll(dir.path); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir.path, 0o755); err != nil { // it may reuse the inode of the earlier one
			t.Fatal(err)
		}
		down("the link to stay down in a third folder")
		if err := os.Remove(dir.path); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(dir.path+".away", dir.path); err != nil {
			t.Fatal(err)
		}
		h.ready(t)
		if got := h.state(t, kept); got != "offered" {
			t.Errorf("the handoff is %s", got)
		}
		if err := os.Rename(dir.path, dir.path+".away"); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir.path, 0o755); err != nil {
			t.Fatal(err)
		}
		down("the link to be down again")
		if err := h.command(t, "link", "dial", dir.link).Run(); err != nil {
			t.Error(err)
		}
		h.ready(t)
	}
	drop(t, filepath.Join(h.tasks, "new-1.json"), taskRecord(t, "new-1", "Fix that", nil))
	if step := h.next(t, &cursor).Step; step.Title != "Fix that" {
		t.Errorf("the step is %+v", step)
	}
	if got := h.state(t, kept); got != "offered" {
		t.Errorf("the handoff is %s", got)
	}
}
