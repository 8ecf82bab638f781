//go:build interop

package main_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/files/directory"
	"github.com/baton-gateway/baton/translate/taskfile"
)

// propertyNetworks is the columns of the table of properties, as in bridge/files/README.md.
var propertyNetworks = []string{"voice", "hub", ".handoffs", "IRC", "freeq", "AIRC", "REST", "MCP", "A2A", "A2A agents", "MACP"}

// propertyRow is one of the five properties, and how each network with the verb is asked
// for it.
type propertyRow struct {
	name  string
	cells map[string]func(w *propertyWorld, t *testing.T)
}

// propertyWorld is a world with all networks.
type propertyWorld struct {
	*filesHouse

	lab     *filesWorld
	runtime *macpHouse
	freeq   *freeqProperties
	carol   person // a second user on IRC
	outside *caller
	host    *toolUser
	agent   *bridgetest.A2AAgent
}

func properties() []propertyRow {
	type cells = map[string]func(w *propertyWorld, t *testing.T)
	return []propertyRow{
		{"authentication", cells{
			"voice": (*propertyWorld).forgedFile, "hub": (*propertyWorld).forgedStart, ".handoffs": (*propertyWorld).untrustedRecord,
			"IRC": (*propertyWorld).forgedTags, "AIRC": (*propertyWorld).forgedMessage, "REST": (*propertyWorld).forgedToken,
			"freeq": (*propertyWorld).forgedAct, "MCP": (*propertyWorld).forgedTokenOfMCP, "A2A": (*propertyWorld).forgedTokenOfA2A,
			"MACP": (*propertyWorld).forgedEnvelope, "A2A agents": (*propertyWorld).forgedNotification,
		}},
		{"expiry", cells{
			"voice": (*propertyWorld).expiredFile, "hub": (*propertyWorld).expiredStart, ".handoffs": (*propertyWorld).expiredRecord,
			"IRC": (*propertyWorld).expiredTags, "AIRC": (*propertyWorld).expiredMessage, "REST": (*propertyWorld).expiredOffer,
			"freeq": (*propertyWorld).expiredAct, "MCP": (*propertyWorld).expiredTool, "A2A": (*propertyWorld).expiredTask,
			"MACP": (*propertyWorld).expiredSession, "A2A agents": (*propertyWorld).expiredAgentsTask,
		}},
		{"atomic transitions", cells{
			"voice": (*propertyWorld).fileTwice, "hub": (*propertyWorld).hubTwice, ".handoffs": (*propertyWorld).recordTwice,
			"IRC": (*propertyWorld).tagsTwice, "AIRC": (*propertyWorld).messageTwice, "REST": (*propertyWorld).requestTwice,
			"freeq": (*propertyWorld).actTwice, "MCP": (*propertyWorld).toolTwice, "A2A": (*propertyWorld).taskTwice,
			"MACP": (*propertyWorld).acceptTwice, "A2A agents": (*propertyWorld).agentsTaskTwice,
		}},
		{"targeted delivery", cells{
			"voice": (*propertyWorld).fileOfOthers, "hub": (*propertyWorld).hubOfOthers, ".handoffs": (*propertyWorld).recordOfOthers,
			"IRC": (*propertyWorld).tagsOfOthers, "AIRC": (*propertyWorld).messageOfOthers, "REST": (*propertyWorld).requestOfOthers,
			"freeq": (*propertyWorld).actOfOthers, "MCP": (*propertyWorld).toolOfOthers, "A2A": (*propertyWorld).taskOfOthers,
			"MACP": (*propertyWorld).acceptOfOthers, "A2A agents": (*propertyWorld).agentsTaskOfOthers,
		}},
		{"bootstrap separation", cells{"voice": (*propertyWorld).bootstrapOnce}},
	}
}

func TestFilesPropertiesHoldOnEachNetwork(t *testing.T) {
	t.Parallel()
	lab := newFilesWorld(t)
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, true)
	w := &propertyWorld{filesHouse: newFilesHouse(t, agentTable(agent, "")), agent: agent, lab: lab, carol: newPerson(t), runtime: newMACPHouse(t), freeq: newFreeqProperties(t)}
	w.runtime.start(t)
	w.runtime.ready(t)
	w.outside, w.host = logIn(t, w.url()), newToolUser(t, w.house)
	for _, row := range properties() {
		for _, network := range propertyNetworks {
			if cell := row.cells[network]; cell != nil {
				t.Run(row.name+" on "+network, func(t *testing.T) { cell(w, t) })
			}
		}
	}
}

// The README has a cross for each network with a verb for a property.
func TestFilesPropertiesMatchTheReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "bridge", "files", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, row := range properties() {
		line := "| " + row.name + " |"
		for _, network := range propertyNetworks {
			line += map[bool]string{true: " yes |", false: " – |"}[row.cells[network] != nil]
		}
		want = append(want, line)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if slices.ContainsFunc(properties(), func(row propertyRow) bool { return strings.HasPrefix(line, "| "+row.name+" |") }) {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-run +README):\n%s", diff)
	}
}

// rejects drops a file and checks its code.
func (w *propertyWorld) rejects(t *testing.T, name string, content []byte, code string) {
	t.Helper()
	drop(t, filepath.Join(w.voice, "handoff", name), content)
	if got := w.reasonOf(t, name); got != code {
		t.Errorf("%s is rejected as %s, want %s", name, got, code)
	}
}

func (w *propertyWorld) forgedFile(t *testing.T) {
	t.Helper()
	w.rejects(t, "forged.json", voicePayload("a secret of mallory", "alice", "bob", "forged", time.Minute, nil), "bad-hmac")
}

func expiredTimes() map[string]any {
	return map[string]any{"initiated_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T00:01:00Z"}
}

func (w *propertyWorld) expiredFile(t *testing.T) {
	t.Helper()
	w.rejects(t, "expired.json", voicePayload(voiceSecret, "alice", "bob", "expired", time.Minute, expiredTimes()), "expired")
}

func (w *propertyWorld) fileTwice(t *testing.T) {
	t.Helper()
	content := voicePayload(voiceSecret, "alice", "bob", "twice", time.Minute, nil)
	drop(t, filepath.Join(w.voice, "handoff", "once.json"), content)
	awaitFile(t, filepath.Join(w.voice, "claimed"), ".json")
	w.rejects(t, "again.json", content, "replayed")
}

func (w *propertyWorld) fileOfOthers(t *testing.T) {
	t.Helper()
	path := filepath.Join(w.voice, "handoff", "others.json")
	content := voicePayload(voiceSecret, "bob", "alice", "others", time.Minute, nil)
	drop(t, path, content)
	w.rejects(t, "after.json", voicePayload("a secret of mallory", "alice", "bob", "after", time.Minute, nil), "bad-hmac") // the link has looked
	if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, content) {
		t.Errorf("the file of others is %s, %v", text, err)
	}
}

func (w *propertyWorld) bootstrapOnce(t *testing.T) {
	t.Helper()
	content := voicePayload(voiceSecret, "alice", "bob", "boot", time.Minute, map[string]any{"reason": "boot"})
	drop(t, filepath.Join(w.voice, "handoff", "boot.json"), content)
	var id, cursor string
	for id == "" {
		if step := w.next(t, &cursor).Step; step.Verb == "offer" && step.Title == "boot" {
			id = step.HandoffID
		}
	}
	folder := filepath.Join(w.dir, "state", "handoffs")
	if early := filesIn(t, folder); len(early) > 0 {
		t.Errorf("before the accept there is %v", early)
	}
	w.scholar.step(t, id, "accept", nil)
	name := awaitFile(t, folder, ".json")
	if err := os.Remove(filepath.Join(folder, name)); err != nil { // consumed
		t.Fatal(err)
	}
	w.kill(t)
	w.start(t)
	w.ready(t)
	w.scholar.step(t, id, "complete", nil)
	awaitFile(t, filepath.Join(w.voice, "archive"), ".json")
	if again := filesIn(t, folder); len(again) > 0 {
		t.Errorf("the bootstrap is written again: %v", again)
	}
}

// hubAnswers sends a request to the hub and checks the status.
func (w *propertyWorld) hubAnswers(t *testing.T, token, method, path string, body []byte, status int) {
	t.Helper()
	if got, answer := w.hub(t, token, method, path, body); got != status {
		t.Errorf("%s is answered %d %s, want %d", path, got, answer, status)
	}
}

const bobsToken, alicesToken = "the hub token of bob", "the hub token of alice"

func (w *propertyWorld) forgedStart(t *testing.T) {
	t.Helper()
	good := voicePayload(voiceSecret, "bob", "alice", "hub forged", time.Minute, nil)
	w.hubAnswers(t, "mallory", "POST", "start", good, http.StatusUnauthorized)
	w.hubAnswers(t, alicesToken, "POST", "start", good, http.StatusForbidden)
	w.hubAnswers(t, bobsToken, "POST", "start", voicePayload("a secret of mallory", "bob", "alice", "hub forged", time.Minute, nil), http.StatusUnprocessableEntity)
}

func (w *propertyWorld) expiredStart(t *testing.T) {
	t.Helper()
	w.hubAnswers(t, bobsToken, "POST", "start", voicePayload(voiceSecret, "bob", "alice", "hub expired", time.Minute, expiredTimes()), http.StatusUnprocessableEntity)
}

// hubHandoff starts a handoff to alice and waits for its file.
func (w *propertyWorld) hubHandoff(t *testing.T, id string) {
	t.Helper()
	w.hubAnswers(t, bobsToken, "POST", "start", voicePayload(voiceSecret, "bob", "alice", id, time.Minute, map[string]any{"handoff_id": id}), http.StatusCreated)
	await(t, "the file of "+id, func() bool {
		status, _ := w.hub(t, bobsToken, "POST", id+"/accept", nil)
		return status == http.StatusForbidden // it is there, and for alice
	})
}

func (w *propertyWorld) hubTwice(t *testing.T) {
	t.Helper()
	w.hubHandoff(t, "hub-twice")
	w.hubAnswers(t, alicesToken, "POST", "hub-twice/accept", nil, http.StatusOK)
	w.hubAnswers(t, alicesToken, "POST", "hub-twice/accept", nil, http.StatusConflict)
}

func (w *propertyWorld) hubOfOthers(t *testing.T) {
	t.Helper()
	w.hubHandoff(t, "hub-others")
	w.hubAnswers(t, bobsToken, "GET", "poll?agent=alice", nil, http.StatusForbidden)
	w.hubAnswers(t, bobsToken, "POST", "hub-others/reject", nil, http.StatusForbidden)
	w.hubAnswers(t, alicesToken, "POST", "hub-others/reject", nil, http.StatusOK)
}

func (w *propertyWorld) record(t *testing.T, id, from string) {
	t.Helper()
	drop(t, filepath.Join(w.tasks, id+".json"), fmt.Appendf(nil, `{"task_id":%q,"from_agent":%q,"to_agent":"scholar","status":"offered",
"description":%q,"created_at":"2026-11-23T10:00:00Z","updated_at":"2026-11-23T10:00:00Z"}`, id, from, id))
}

func (w *propertyWorld) untrustedRecord(t *testing.T) {
	t.Helper()
	w.record(t, "from-mallory", "mallory")
	await(t, "the record to be counted", func() bool {
		return w.counters(t)[`baton_bad_input_total{link="research",network="files",reason="untrusted"}`] == 1
	})
}

func (w *propertyWorld) recordTwice(t *testing.T) {
	t.Helper()
	w.scholar.offer(t, map[string]any{"to": native("research", "reviewer"), "title": "twice"})
	tasks, id := directory.Tasks{Path: w.tasks}, w.recordOf(t, "twice").ID
	if _, err := tasks.Accept(id, "reviewer", time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := tasks.Accept(id, "reviewer", time.Now()); err == nil {
		t.Error("a record is accepted twice")
	}
}

func (w *propertyWorld) recordOfOthers(t *testing.T) {
	t.Helper()
	id := w.scholar.offer(t, map[string]any{"to": native("research", "reviewer"), "title": "others"})
	record := w.recordOf(t, "others")
	path := directory.Tasks{Path: w.tasks}.PathOf(record.ID)
	stolen := strings.NewReplacer(`"status": "offered"`, `"status": "accepted"`, `"to_agent": "reviewer"`, `"to_agent": "mallory"`).Replace(string(record.Raw))
	drop(t, path, []byte(stolen))
	await(t, "the theft to be counted", func() bool {
		return w.counters(t)[`baton_bad_input_total{link="research",network="files",reason="conflict"}`] == 1
	})
	if got := w.state(t, id); got != "offered" {
		t.Errorf("the handoff is %s", got)
	}
}

// A record has no expiry of its own: that of the handoff ends its work.
func (w *propertyWorld) expiredRecord(t *testing.T) {
	t.Helper()
	w.scholar.offer(t, map[string]any{
		"to": native("research", "reviewer"), "title": "expired", "deadline": past(4 * time.Second).UTC().Format(time.RFC3339),
	})
	var item directory.Task
	await(t, "the record to be rejected", func() bool {
		item = w.recordOf(t, "expired")
		return item.Status == taskfile.Rejected
	})
	if _, err := (directory.Tasks{Path: w.tasks}).Accept(item.ID, "reviewer", time.Now()); err == nil {
		t.Error("an expired record is accepted")
	}
}

// recordOf waits for the record with a description.
func (w *propertyWorld) recordOf(t *testing.T, description string) (found directory.Task) {
	t.Helper()
	await(t, "the record", func() bool {
		items, _, err := directory.Tasks{Path: w.tasks}.List()
		i := slices.IndexFunc(items, func(item directory.Task) bool { return item.Description == description })
		if err == nil && i >= 0 {
			found = items[i]
		}
		return found.ID != ""
	})
	return found
}

// ircOffer has carol offer something to alice.
func (w *propertyWorld) ircOffer(t *testing.T, more extras) signed {
	t.Helper()
	terms := extras{"to": w.lab.key.did, "title": "on IRC"}
	maps.Copy(terms, more)
	offer := rfcTags.offer(w.carol, channel, terms)
	send(t, w.lab.alice, offer.tags)
	return offer
}

func (w *propertyWorld) forgedTags(t *testing.T) {
	t.Helper()
	offer := rfcTags.offer(w.carol, channel, extras{"to": w.lab.key.did, "title": "on IRC"})
	offer.tags[vendor+"handoff-task"] = "something else"
	send(t, w.lab.alice, offer.tags)
	w.lab.refused(t, w.lab.alice, "SIGNATURE_INVALID", offer.event)
}

func (w *propertyWorld) expiredTags(t *testing.T) {
	t.Helper()
	offer := w.ircOffer(t, extras{"deadline": fmt.Sprint(time.Now().Add(-time.Hour).Unix())})
	late := rfcTags.step(w.lab.key, channel, "accept", offer.handoff, nil)
	send(t, w.lab.alice, late.tags)
	told := next(t, w.lab.alice, "a refusal", func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && m.Nick == "Baton" && strings.Contains(m.Params[1], " "+late.event+" ")
	})
	// The home may have ended the handoff before.
	if code, _, _ := strings.Cut(told.Params[1], " "); code != "DEADLINE_PASSED" && code != "TERMINAL_HANDOFF" {
		t.Errorf("a late accept is answered %s", told.Params[1])
	}
}

func (w *propertyWorld) tagsTwice(t *testing.T) {
	t.Helper()
	offer := w.ircOffer(t, nil)
	send(t, w.lab.alice, rfcTags.step(w.lab.key, channel, "accept", offer.handoff, nil).tags)
	again := rfcTags.step(w.lab.key, channel, "accept", offer.handoff, nil)
	send(t, w.lab.alice, again.tags)
	w.lab.refused(t, w.lab.alice, "ILLEGAL_STEP", again.event)
}

func (w *propertyWorld) tagsOfOthers(t *testing.T) {
	t.Helper()
	offer := w.ircOffer(t, nil)
	theft := rfcTags.step(w.carol, channel, "accept", offer.handoff, nil)
	send(t, w.lab.alice, theft.tags)
	w.lab.refused(t, w.lab.alice, "WRONG_SENDER", theft.event)
}

// request returns a request of the agent of the registry to a second one.
func (w *propertyWorld) request(t *testing.T, more map[string]any) (text []byte, second *mailbox) {
	t.Helper()
	second = w.lab.hire(t, fmt.Sprintf("second_%d", rand.IntN(1_000_000_000)))
	data := map[string]any{"description": "on AIRC"}
	maps.Copy(data, more)
	return write(t, w.lab.scout, w.lab.scout.Envelope(second.Handle, "", payload("task:request", data))), second
}

// offered sends a request that the second agent reads.
func (w *propertyWorld) offered(t *testing.T) (second *mailbox, offer message) {
	t.Helper()
	text, second := w.request(t, nil)
	filed := post(t, w.lab.scout, text)
	if filed.Status != http.StatusCreated && filed.Status != http.StatusAccepted {
		t.Fatalf("the offer is answered %+v", filed)
	}
	consent(t, second.Agent, w.lab.scout.Handle)
	return second, second.next(t, "the offer", func(m message) bool { return m.Payload.Type == "task:request" })
}

func (w *propertyWorld) forgedMessage(t *testing.T) {
	t.Helper()
	text, _ := w.request(t, nil)
	if got := post(t, w.lab.scout, bytes.Replace(text, []byte("on AIRC"), []byte("on airc"), 1)); got.Status < 400 || got.Status >= 500 {
		t.Errorf("a forged message is answered %+v", got)
	}
}

func (w *propertyWorld) expiredMessage(t *testing.T) {
	t.Helper()
	late := payload("task:request", map[string]any{"description": "late", "deadline": time.Now().Add(-time.Hour).Unix()})
	got := post(t, w.lab.scout, write(t, w.lab.scout, w.lab.scout.Envelope(handleOf(w.carol.did), "", late)))
	if got.Status != http.StatusCreated {
		t.Fatalf("the offer is answered %+v", got)
	}
	w.lab.agent.next(t, "the expiry", isAbout("expire", got.Handoff.ID))
}

func (w *propertyWorld) messageTwice(t *testing.T) {
	t.Helper()
	second, offer := w.offered(t)
	ack := payload("ack", map[string]any{"replyTo": offer.ID, "status": "received"})
	for _, want := range []int{http.StatusCreated, http.StatusConflict} {
		if got := post(t, second.Agent, write(t, second.Agent, second.Envelope(offer.From, "", ack))); got.Status != want {
			t.Errorf("an accept is answered %+v, want %d", got, want)
		}
	}
}

func (w *propertyWorld) messageOfOthers(t *testing.T) {
	t.Helper()
	_, offer := w.offered(t)
	mallory := w.lab.hire(t, fmt.Sprintf("mallory_%d", rand.IntN(1_000_000_000)))
	theft := payload("ack", map[string]any{"replyTo": offer.ID, "status": "received", "handoff": map[string]any{"id": about(offer).ID, "event": "accept"}})
	if got := post(t, mallory.Agent, write(t, mallory.Agent, mallory.Envelope(offer.From, "", theft))); got.Error != "unknown_handoff" {
		t.Errorf("the accept of another agent is answered %+v", got)
	}
}

// refusedRequest sends a request below /api/v1 and checks that it is refused.
func refusedRequest(t *testing.T, c *caller, path string, body any) {
	t.Helper()
	response, err := http.DefaultClient.Do(c.request(t, http.MethodPost, path, body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode < 400 || response.StatusCode >= 500 {
		t.Errorf("%s is answered %d", path, response.StatusCode)
	}
}

func (w *propertyWorld) forgedToken(t *testing.T) {
	t.Helper()
	forged := *w.outside
	forged.token += "x"
	refusedRequest(t, &forged, "handoffs", map[string]any{"to": w.scholar.did, "title": "forged"})
}

func (w *propertyWorld) expiredOffer(t *testing.T) {
	t.Helper()
	id := w.scholar.offer(t, map[string]any{"to": w.outside.did, "title": "late", "deadline": "2026-01-01T00:00:00Z"})
	refusedRequest(t, w.outside, "handoffs/"+id+"/accept", nil)
}

func (w *propertyWorld) requestTwice(t *testing.T) {
	t.Helper()
	id := w.scholar.offer(t, map[string]any{"to": w.outside.did, "title": "twice"})
	w.outside.step(t, id, "accept", nil)
	refusedRequest(t, w.outside, "handoffs/"+id+"/accept", nil)
}

func (w *propertyWorld) requestOfOthers(t *testing.T) {
	t.Helper()
	id := w.scholar.offer(t, map[string]any{"to": native("research", "reviewer"), "title": "for the reviewer"})
	refusedRequest(t, w.outside, "handoffs/"+id+"/accept", nil)
}
