//go:build interop

package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// The home of a handoff is away while an agent of a directory of another home takes the work and ends
// it. The home of the directory forgets nothing over a restart.
func TestFilesWorkWithoutTheHomeOfTheHandoff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		agent  string
		waits  func(t *testing.T, w *filesWorld) string // for a file, and returns its name
		accept func(t *testing.T, w *filesWorld, file string)
		end    func(t *testing.T, w *filesWorld, file string)
		verbs  string
	}{
		"a completed record": {"research:reviewer", taskWaits, restate("offered", "accepted"), restate("accepted", "completed"), "offer accept complete"},
		"a failed record":    {"research:reviewer", taskWaits, restate("offered", "accepted"), restate("accepted", "failed"), "offer accept fail"},
		"an archived file":   {"calls:alice", voiceWaits, moveVoice("handoff", "claimed"), moveVoice("claimed", "archive"), "offer accept complete"},
		"a rejected file":    {"calls:alice", voiceWaits, moveVoice("handoff", "claimed"), moveVoice("claimed", "rejected"), "offer accept fail"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b, w := newFilesNeighbours(t)
			key, _ := b.key(t, 1)
			id := b.must(t, "handoff", "offer", "--key-file", key, "--to", "did:web:a.test:dir:"+test.agent, "--title", "Cite three sources on X")
			file := test.waits(t, w)
			b.kill(t)

			test.accept(t, w, file)
			a.deferred(t, "accept")
			a.kill(t)
			a.start(t)
			test.end(t, w, file)
			verbs := strings.Fields(test.verbs)
			a.deferred(t, verbs[len(verbs)-1])
			b.start(t)
			agree(t, id, test.verbs, a, b)
		})
	}
}

// newFilesNeighbours starts a home with directories, and one whose first key is bob of the voice
// directory.
func newFilesNeighbours(t *testing.T) (files, other neighbour, w *filesWorld) {
	t.Helper()
	all := newNeighbours(t, "a.test", "b.test")
	files, other = all[0], all[1]
	_, did := other.key(t, 1)
	w, tables := newDirectories(t, files.dir, did)
	files.settle(t, all, tables)
	files.start(t)
	other.start(t)
	return files, other, w
}

// An agent of a registry takes work by an ack, and fails it, while the home of the handoff is away.
func TestAgentFailsWorkWithoutTheHomeOfTheHandoff(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	a.start(t)
	b.start(t)
	key, did := b.key(t, 1)
	scout := resident(t, a.house, "scout_7", 2)
	id := b.must(t, "handoff", "offer", "--key-file", key, "--to", scout.DID, "--title", "Cite three sources on X")
	agree(t, id, "offer", a, b)
	b.kill(t)
	for _, answer := range []map[string]any{
		payload("ack", map[string]any{"handoff": map[string]any{"id": id}, "status": "received"}),
		payload("task:result", map[string]any{"handoff": map[string]any{"id": id}, "status": "failed", "error": "no sources"}),
	} {
		if got := post(t, scout, write(t, scout, scout.Envelope(handleOf(did), "", answer))); got.Status != http.StatusAccepted {
			t.Fatalf("%v is answered %+v", answer, got)
		}
	}
	b.start(t)
	agree(t, id, "offer accept fail", a, b)
}

// An external agent takes a task and rejects it, while the home of the handoff is away.
func TestExternalAgentRejectsWorkWithoutTheHomeOfTheHandoff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		offer, table string
		ends         wire.TaskState
		verbs        string
	}{
		"an offer to it": {"--to=did:web:a.test:a2a:researcher", "", wire.TaskStateRejected, "offer accept fail"},
		"an open offer":  {"--open", `claims = ["ocr"]`, wire.TaskStateFailed, "offer claim fail"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
			all := newNeighbours(t, "a.test", "b.test")
			a, b := all[0], all[1]
			a.settle(t, all, agentTable(agent, "offer_from = [\"any\"]\n"+test.table))
			a.start(t)
			b.start(t)
			key, _ := b.key(t, 1)
			id := b.must(t, "handoff", "offer", "--key-file", key, test.offer, "--caps", "ocr", "--title", "Read it")
			task := awaitTask(t, agent, 0)
			b.kill(t)
			verbs := strings.Fields(test.verbs)
			task.Say(wire.TaskStateWorking, "")
			a.deferred(t, verbs[1])
			task.Say(test.ends, "")
			a.deferred(t, verbs[2])
			b.start(t)
			agree(t, id, test.verbs, a, b)
		})
	}
}

// deferred waits until a step waits for the home of its handoff.
func (n neighbour) deferred(t *testing.T, verb string) {
	t.Helper()
	await(t, verb+" to wait for its home", func() bool {
		text, err := os.ReadFile(n.log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, fmt.Sprintf(`"verb":%q`, verb)) && strings.Contains(line, `"outcome":"deferred"`) {
				return true
			}
		}
		return false
	})
}

func taskWaits(t *testing.T, w *filesWorld) string {
	t.Helper()
	return awaitFile(t, w.tasks, ".json")
}

func voiceWaits(t *testing.T, w *filesWorld) string {
	t.Helper()
	return awaitFile(t, filepath.Join(w.voice, "handoff"), ".json")
}
