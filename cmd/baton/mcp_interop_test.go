//go:build interop

package main_test

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// agentHost is an agent host with the official client for Python, which acts as a new DID.
type agentHost struct {
	*driver
	t   *testing.T
	did string
}

// newAgentHost starts a host that speaks over HTTP or to a command, in a mode of the client.
func newAgentHost(t *testing.T, h *house, kind, mode string) *agentHost {
	t.Helper()
	p := newPerson(t)
	seed := hex.EncodeToString(p.key.Seed())
	python := filepath.Join(clients(t), "mcp", "bin", "python")
	command := []string{python, "testdata/clients/agenthost.py", kind, mode, h.url() + "/mcp", seed}
	if kind == "stdio" {
		file := filepath.Join(t.TempDir(), "seed")
		if err := os.WriteFile(file, []byte(seed+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		baton, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		command = append(command[:4], baton, "mcp", "--config", h.config, "--key-file", file)
	}
	return &agentHost{drive(t, nil, command...), t, p.did}
}

// tool calls a tool, which must not refuse, and returns its structured content.
func (h *agentHost) tool(name string, arguments map[string]any) any {
	h.t.Helper()
	got := h.call(h.t, name, arguments)
	if member(got, "error") != false {
		h.t.Fatalf("%s is answered %v", name, got)
	}
	return member(got, "result")
}

// awaits waits for a step of a handoff.
func (h *agentHost) awaits(handoff, verb string) {
	h.t.Helper()
	for range 10 {
		got := h.call(h.t, "wait", map[string]any{"seconds": 10})
		result := member(got, "result")
		items, _ := member(result, "items").([]any)
		for _, item := range items {
			h.tool("inbox_ack", map[string]any{"cursor": member(item, "cursor")})
			if member(item, "step", "handoff_id") == handoff && member(item, "step", "verb") == verb {
				return
			}
		}
	}
	h.t.Fatalf("%s of %s never arrives", verb, handoff)
}

// offers has the host offer work, and returns the handoff.
func (h *agentHost) offers(arguments map[string]any) string {
	h.t.Helper()
	id, _ := member(h.tool("handoff_offer", arguments), "id").(string)
	return id
}

func (h *agentHost) works(id string) {
	h.t.Helper()
	h.awaits(id, "offer")
	for _, step := range []string{"handoff_accept", "handoff_progress", "handoff_complete"} {
		h.tool(step, map[string]any{"id": id, "note": "three found", "idempotency_key": step + id})
	}
	if got := member(h.tool("handoff_get", map[string]any{"id": id}), "state"); got != "completed" {
		h.t.Errorf("the handoff is %v", got)
	}
}

// sees makes the host wait for the end of its offer.
func (h *agentHost) sees(id string) {
	h.t.Helper()
	h.awaits(id, "complete")
	var shown struct{ State string }
	text, _ := h.call(h.t, "read", "handoff://"+id).(string)
	if err := json.Unmarshal([]byte(text), &shown); err != nil || shown.State != "completed" {
		h.t.Errorf("the resource is %q, %v", text, err)
	}
}

// Each host works with a person on IRC, an agent of the AIRC registry and an agent over plain HTTP,
// each way.
func TestMCPHostsWorkWithEveryNetwork(t *testing.T) {
	t.Parallel()
	w := &world{house: newHouse(t), key: newPerson(t)}
	w.net = newNetwork(t, w.house, "lab", "1LA")
	w.configure(t, w.net.table, "[limits]\n"+anyAddress, "[[policy.rules]]\nverbs = [\"offer\"]\npeers = [\"mcp\"]\nrequire = \"nothing\"\n")
	w.start(t)
	w.ready(t)
	w.alice = w.net.join(t, "alice", "message-tags")
	for _, kind := range []string{"http", "stdio"} {
		for mode, version := range map[string]string{"2026-07-28": "2026-07-28", "legacy": "2025-11-25"} {
			h := newAgentHost(t, w.house, kind, mode)
			if got := member(h.call(t, "about"), "version"); got != version {
				t.Fatalf("%s %s: the revision is %v", kind, mode, got)
			}
			if tools, _ := h.call(t, "tools").([]any); len(tools) != 18 {
				t.Errorf("%s %s: the tools are %v", kind, mode, tools)
			}
			w.hostAndIRC(t, h)
			w.hostAndREST(t, h)
			w.hostAndAIRC(t, h, "scout_"+kind+"_"+mode[:4])
		}
	}
}

// hostAndIRC has a host and a person on IRC work for each other.
func (w *world) hostAndIRC(t *testing.T, h *agentHost) {
	t.Helper()
	tags, id := w.key.offer(channel, h.did, map[string]string{"handoff-task": title})
	send(t, w.alice, tags)
	h.works(id)
	carries := func(verb, id string) func(bridgetest.IRCMessage) bool {
		return func(m bridgetest.IRCMessage) bool {
			return m.Tags[vendor+"handoff-id"] == id && m.Tags[vendor+"handoff"] == verb
		}
	}
	next(t, w.alice, "the end", carries("complete", id))
	back := h.offers(map[string]any{"to": w.key.did, "title": "Review it", "channel": channel})
	next(t, w.alice, "the offer", carries("offer", back))
	for _, verb := range []string{"accept", "complete"} {
		send(t, w.alice, w.key.step(channel, verb, back))
	}
	h.sees(back)
}

// hostAndREST has a host and an agent over plain HTTP work for each other.
func (w *world) hostAndREST(t *testing.T, h *agentHost) {
	t.Helper()
	scholar := logIn(t, w.url())
	h.works(scholar.offer(t, map[string]any{"to": h.did, "title": title}))
	back := h.offers(map[string]any{"to": scholar.did, "title": "Review it", "context": map[string]any{"draft": 2}})
	for _, verb := range []string{"accept", "complete"} {
		scholar.step(t, back, verb, nil)
	}
	h.sees(back)
}

// hostAndAIRC has a host and an agent of the registry work for each other.
func (w *world) hostAndAIRC(t *testing.T, h *agentHost, handle string) {
	t.Helper()
	scout := w.hire(t, handle)
	id := h.offers(map[string]any{"to": scout.DID, "title": title})
	scout.next(t, "a handshake", func(m message) bool { return m.Payload.Type == "system:handshake_request" })
	consent(t, scout.Agent, handleOf(h.did))
	offer := scout.next(t, "the offer", isAbout("offer", id))
	for _, answer := range []map[string]any{
		payload("ack", map[string]any{"replyTo": offer.ID, "status": "received"}),
		payload("task:result", map[string]any{"requestId": offer.ID, "status": "completed", "result": map[string]any{"note": "three found"}}),
	} {
		if got := post(t, scout.Agent, write(t, scout.Agent, scout.Envelope(offer.From, "", answer))); got.Status != http.StatusCreated {
			t.Fatalf("%v is answered %+v", answer, got)
		}
	}
	h.sees(id)
	request := scout.Envelope(handleOf(h.did), "Review it", payload("task:request", map[string]any{"description": "Review it"}))
	filed := post(t, scout.Agent, write(t, scout.Agent, request))
	if filed.Status != http.StatusCreated {
		t.Fatalf("the offer is answered %+v", filed)
	}
	h.works(filed.Handoff.ID)
}
