//go:build interop

package main_test

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/files/directory"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/taskfile"
)

// filesWorld is a gateway with an IRC network, a registry, a voice directory and a ".handoffs"
// directory. The IRC user is bob of the voice directory, and the agent of the registry is sven;
// records name both by their DIDs.
type filesWorld struct {
	*world

	agent        *mailbox
	voice, tasks string
}

func newFilesWorld(t *testing.T) *filesWorld {
	t.Helper()
	h := newHouse(t)
	w := &filesWorld{world: &world{house: h, net: newNetwork(t, h, "lab", "1LA"), key: newPerson(t)}}
	w.populate(t)
	w.agent = &mailbox{Agent: w.scout}
	if code := w.stop(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	w.voice, w.tasks = filepath.Join(h.dir, "calls"), filepath.Join(h.dir, "tasks")
	for _, path := range []string{w.voice, w.tasks} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.keep(t, "pair.key", voiceSecret)
	pairs := ""
	for _, other := range []string{"bob", "sven"} {
		pairs += fmt.Sprintf("[[files.voice.pairs]]\nagents = [%q, \"alice\"]\nsecret_file = \"pair.key\"\n", other)
	}
	h.configure(t, unlimited, w.net.table, fmt.Sprintf("[[files.voice]]\nname = \"calls\"\ndir = %q\nagents = { bob = %q, sven = %q }\n",
		w.voice, w.key.did, w.scout.DID), pairs, fmt.Sprintf("[[files.tasks]]\nname = \"research\"\ndir = %q\ntrusted = [\"scanner\"]\n", w.tasks))
	w.start(t)
	w.ready(t)
	return w
}

// webHandle returns the handle of a did:web in the registry.
func webHandle(did federation.DID) string {
	sum := sha256.Sum256([]byte(did))
	return "web_" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:26]
}

// born is one directory, as its agents use it.
type born struct {
	name  string
	agent federation.DID // that takes work in the directory
	maker federation.DID // that offers work from the directory
	// offer offers a task to the IRC user or to the agent of the registry, and returns a function
	// that waits until its file says how the handoff ended.
	offer func(t *testing.T, w *filesWorld, toIRC bool) (ended func(t *testing.T))
	// works takes the one task waiting in the directory, and calls told after each step.
	works func(t *testing.T, w *filesWorld, told func(verb string))
}

func directories() []born {
	return []born{
		{"voice directory", native("calls", "alice"), native("calls", "alice"), offerVoice, workVoice},
		{".handoffs directory", native("research", "reviewer"), native("research", "scanner"), offerTask, workTask},
	}
}

func offerVoice(t *testing.T, w *filesWorld, toIRC bool) func(t *testing.T) {
	t.Helper()
	to := map[bool]string{true: "bob", false: "sven"}[toIRC]
	content := voicePayload(voiceSecret, "alice", to, "call for "+to, time.Minute, nil)
	drop(t, filepath.Join(w.voice, "handoff", to+".json"), content)
	return func(t *testing.T) {
		t.Helper()
		await(t, "the file in the archive", func() bool {
			for _, name := range filesIn(t, filepath.Join(w.voice, "archive")) {
				if text, err := os.ReadFile(filepath.Join(w.voice, "archive", name)); err == nil && string(text) == string(content) {
					return true
				}
			}
			return false
		})
	}
}

func workVoice(t *testing.T, w *filesWorld, told func(verb string)) {
	t.Helper()
	name := awaitFile(t, filepath.Join(w.voice, "handoff"), ".json")
	for _, move := range []struct{ from, to, verb string }{{"handoff", "claimed", "accept"}, {"claimed", "archive", "complete"}} {
		moveVoice(move.from, move.to)(t, w, name)
		told(move.verb)
	}
}

func offerTask(t *testing.T, w *filesWorld, toIRC bool) func(t *testing.T) {
	t.Helper()
	to, id := w.key.did, "task-for-irc"
	if !toIRC {
		to, id = w.scout.DID, "task-for-scout"
	}
	path := filepath.Join(w.tasks, id+".json")
	drop(t, path, []byte(`{"task_id":"`+id+`","from_agent":"scanner","to_agent":"`+to+
		`","status":"offered","description":"scheduling","created_at":"2026-11-23T10:00:00Z","updated_at":"2026-11-23T10:00:00Z"}`))
	return func(t *testing.T) {
		t.Helper()
		await(t, "the record to be completed", func() bool {
			var r struct {
				Status string
				To     string `json:"to_agent"`
			}
			text, err := os.ReadFile(path)
			return err == nil && json.Unmarshal(text, &r) == nil && r.Status == "completed" && r.To == to
		})
	}
}

func workTask(t *testing.T, w *filesWorld, told func(verb string)) {
	t.Helper()
	tasks, path := directory.Tasks{Path: w.tasks}, ""
	await(t, "a record that is offered", func() bool {
		items, _, err := tasks.List()
		i := slices.IndexFunc(items, func(item directory.Task) bool { return item.Status == taskfile.Offered })
		if err == nil && i >= 0 {
			path = tasks.PathOf(items[i].ID)
		}
		return path != ""
	})
	for _, move := range []struct{ from, to, verb string }{{"offered", "accepted", "accept"}, {"accepted", "completed", "complete"}} {
		restate(move.from, move.to)(t, w, filepath.Base(path))
		told(move.verb)
	}
}

// restate changes the status of a record.
func restate(from, to string) func(t *testing.T, w *filesWorld, file string) {
	return func(t *testing.T, w *filesWorld, file string) {
		t.Helper()
		path, was := filepath.Join(w.tasks, file), `"status": "`+from+`"`
		var text []byte
		await(t, "the record to be "+from, func() bool { // a record that the gateway changes is away for a moment
			var err error
			text, err = os.ReadFile(path)
			return err == nil && strings.Contains(string(text), was)
		})
		drop(t, path, []byte(strings.Replace(string(text), was, `"status": "`+to+`"`, 1)))
	}
}

// moveVoice moves a file from folder to folder.
func moveVoice(from, to string) func(t *testing.T, w *filesWorld, file string) {
	return func(t *testing.T, w *filesWorld, file string) {
		t.Helper()
		if err := os.Rename(filepath.Join(w.voice, from, file), filepath.Join(w.voice, to, file)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilesCrossToIRCAndARegistry(t *testing.T) {
	t.Parallel()
	w := newFilesWorld(t)
	for _, d := range directories() {
		t.Run(d.name+" and IRC", func(t *testing.T) { w.crossIRC(t, d) })
		t.Run(d.name+" and a registry", func(t *testing.T) { w.crossAIRC(t, d) })
	}
}

// crossIRC offers from IRC to a directory and back.
func (w *filesWorld) crossIRC(t *testing.T, d born) {
	t.Helper()
	offer := rfcTags.offer(w.key, channel, extras{"to": string(d.agent), "title": "from IRC"})
	send(t, w.alice, offer.tags)
	d.works(t, w, func(verb string) { checkVouched(t, rfcTags, rfcTags.await(t, w.alice, verb, offer.handoff), channel) })

	ended := d.offer(t, w, true)
	got := next(t, w.alice, "an offer from the directory", func(m bridgetest.IRCMessage) bool {
		return m.Command == "TAGMSG" && m.Tags[vendor+"handoff"] == "offer" && m.Tags[vendor+"handoff-for"] == string(d.maker)
	})
	id, target, venue := got.Tags[vendor+"handoff-id"], channel, channel
	if got.Params[0] != channel {
		target, venue = "Baton", privately(w.key.did, string(d.maker))
	}
	for _, verb := range []string{"accept", "complete"} {
		if err := w.alice.Send(rfcTags.step(w.key, venue, verb, id, nil).tags, "TAGMSG", target); err != nil {
			t.Fatal(err)
		}
	}
	ended(t)
}

// crossAIRC offers from a directory to an agent of the registry and back.
func (w *filesWorld) crossAIRC(t *testing.T, d born) {
	t.Helper()
	ended := d.offer(t, w, false)
	w.agent.next(t, "a handshake", func(m message) bool { return m.Payload.Type == "system:handshake_request" })
	maker := webHandle(d.maker)
	consent(t, w.scout, maker)
	offer := w.agent.next(t, "the offer", func(m message) bool { return about(m).Event == "offer" && m.From == maker })
	if said := about(offer); said.Provenance != "vouched" {
		t.Errorf("the offer says %+v", said)
	}
	for _, answer := range []map[string]any{
		payload("ack", map[string]any{"replyTo": offer.ID, "status": "received"}),
		payload("task:result", map[string]any{"requestId": offer.ID, "status": "completed", "result": map[string]any{"note": "done"}}),
	} {
		if got := post(t, w.scout, write(t, w.scout, w.scout.Envelope(maker, "", answer))); got.Status != http.StatusCreated {
			t.Fatalf("%v is answered %+v", answer, got)
		}
	}
	ended(t)

	worker := webHandle(d.agent)
	request := w.scout.Envelope(worker, "Review it", payload("task:request", map[string]any{"description": "Review it"}))
	filed := post(t, w.scout, write(t, w.scout, request))
	if filed.Status != http.StatusCreated {
		t.Fatalf("the offer is answered %+v", filed)
	}
	d.works(t, w, func(verb string) { w.agent.next(t, "the "+verb, isAbout(verb, filed.Handoff.ID)) })
}

// A record to anyone is an open offer in the channel, which an IRC user claims.
func TestFilesRecordIsClaimedByAnIRCUser(t *testing.T) {
	t.Parallel()
	w := newFilesWorld(t)
	path := filepath.Join(w.tasks, "task-for-anyone.json")
	drop(t, path, []byte(`{"task_id":"task-for-anyone","from_agent":"scanner","to_agent":"","status":"offered","description":"Look at it",
"created_at":"2026-11-23T10:00:00Z","updated_at":"2026-11-23T10:00:00Z"}`))
	offer := next(t, w.alice, "the open offer", func(m bridgetest.IRCMessage) bool {
		return m.Command == "TAGMSG" && m.Tags[vendor+"handoff"] == "offer" && m.Tags[vendor+"handoff-task"] == "Look at it"
	})
	if offer.Params[0] != channel || offer.Tags[vendor+"handoff-to"] != "" {
		t.Errorf("it is offered in %s to %q", offer.Params[0], offer.Tags[vendor+"handoff-to"])
	}
	for _, step := range []struct{ verb, status string }{{"claim", "accepted"}, {"complete", "completed"}} {
		send(t, w.alice, rfcTags.step(w.key, channel, step.verb, offer.Tags[vendor+"handoff-id"], nil).tags)
		await(t, "the record to be "+step.status, func() bool {
			var r struct {
				Status string
				To     string `json:"to_agent"`
			}
			text, err := os.ReadFile(path)
			return err == nil && json.Unmarshal(text, &r) == nil && r.Status == step.status && r.To == w.key.did
		})
	}
}
