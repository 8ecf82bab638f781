//go:build interop

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// taskClient is the official Python client of A2A.
type taskClient struct {
	*driver
	t     *testing.T
	did   string
	agent string // the path of the endpoint that it talks to
}

// newTaskClient starts a client with the token of a caller.
func newTaskClient(t *testing.T, c *caller) *taskClient {
	t.Helper()
	python := filepath.Join(clients(t), "python", "bin", "python")
	return &taskClient{driver: drive(t, nil, python, "testdata/clients/tasks.py", c.url, c.token), t: t, did: string(c.did)}
}

// meet fetches the card of an endpoint, which gets the later requests.
func (c *taskClient) meet(path string) {
	c.t.Helper()
	c.agent = path
	c.is("the card", c.call(c.t, "connect", path, true), nil, "raised")
}

// offers sends a message, and returns its task.
func (c *taskClient) offers(text string, handoff map[string]any) string {
	c.t.Helper()
	sent := c.call(c.t, "send", c.agent, text, nil, handoff)
	id, _ := member(sent, "task", "id").(string)
	if id == "" {
		c.t.Fatalf("%s is answered %v\n%s", text, sent, c.err)
	}
	return id
}

func (c *taskClient) is(what string, answer, want any, path ...string) {
	c.t.Helper()
	if diff := cmp.Diff(want, member(answer, path...)); diff != "" {
		c.t.Errorf("%s (-want +got):\n%s\n%v", what, diff, answer)
	}
}

// ends follows a task from its acceptance to its end: one note of progress, and a result.
func (c *taskClient) ends(note, result string) {
	c.t.Helper()
	c.is("accepted", c.call(c.t, "more", c.agent), "TASK_STATE_WORKING", "statusUpdate", "status", "state")
	if note != "" {
		c.is("progress", c.call(c.t, "more", c.agent), note, "statusUpdate", "status", "message", "parts", "text")
	}
	c.is("the artifact", c.call(c.t, "more", c.agent), result, "artifactUpdate", "artifact", "parts", "text")
	c.is("the last event", c.call(c.t, "more", c.agent), "TASK_STATE_COMPLETED", "statusUpdate", "status", "state")
	c.is("the end of the stream", c.call(c.t, "more", c.agent), "over")
}

// A person on IRC and an agent of the registry do, decline and lose the tasks of a client of A2A.
func TestA2ATasksAreDoneOnIRCAndByRegistryAgents(t *testing.T) {
	t.Parallel()
	w := &world{house: newHouse(t), key: newPerson(t)}
	w.net = newNetwork(t, w.house, "lab", "1LA")
	w.configure(t, w.net.table, "[limits]\n"+anyAddress, "[[policy.rules]]\nverbs = [\"offer\"]\npeers = [\"a2a\"]\nrequire = \"nothing\"\n") // its clients are in no channel
	w.start(t)
	w.ready(t)
	w.alice = w.net.join(t, "alice", "message-tags")
	python := newTaskClient(t, logIn(t, w.url()))
	w.tasksOnIRC(t, python)
	w.tasksOfTheRegistry(t, python)
}

// tasksOnIRC has alice work for a client of A2A.
func (w *world) tasksOnIRC(t *testing.T, python *taskClient) {
	t.Helper()
	alice := logInWith(t, w.url(), w.key.key)
	alice.must(t, http.StatusOK, http.MethodPut, "agents/"+url.PathEscape(w.key.did), map[string]any{"caps": []string{"cite"}}, nil)
	sees := func(verb, id string) {
		t.Helper()
		next(t, w.alice, verb+" on IRC", func(m bridgetest.IRCMessage) bool {
			return m.Tags[vendor+"handoff-id"] == id && m.Tags[vendor+"handoff"] == verb
		})
	}
	does := func(verb, id, note string) {
		t.Helper()
		more := extras{}
		if note != "" {
			more["note"] = note
		}
		send(t, w.alice, rfcTags.step(w.key, channel, verb, id, more).tags)
	}
	for path, taking := range map[string]string{"/a2a/" + w.key.did: "accept", "": "claim"} {
		python.meet(path)
		id := python.offers("Cite three "+taking, map[string]any{"channel": channel})
		sees("offer", id)
		python.is("the first event", python.call(t, "subscribe", path, id), "TASK_STATE_SUBMITTED", "task", "status", "state")
		does(taking, id, "")
		does("progress", id, "one of three")
		does("complete", id, "here")
		python.ends("one of three", "here")
	}
	python.meet("/a2a/" + w.key.did)
	declined := python.offers("Cite four", map[string]any{"channel": channel})
	sees("offer", declined)
	python.call(t, "subscribe", python.agent, declined)
	does("decline", declined, "")
	python.is("declined", python.call(t, "more", python.agent), "TASK_STATE_REJECTED", "statusUpdate", "status", "state")
	canceled := python.offers("Cite five", map[string]any{"channel": channel})
	sees("offer", canceled)
	python.is("canceled", python.call(t, "cancel", python.agent, canceled), "TASK_STATE_CANCELED", "status", "state")
	sees("cancel", canceled)
}

// tasksOfTheRegistry has an agent of the registry work for a client of A2A.
func (w *world) tasksOfTheRegistry(t *testing.T, python *taskClient) {
	t.Helper()
	scout := w.hire(t, "scout_7")
	python.meet("/a2a/" + scout.DID)
	id := python.offers("Cite six", nil)
	python.is("the first event", python.call(t, "subscribe", python.agent, id), "TASK_STATE_SUBMITTED", "task", "status", "state")
	scout.next(t, "a handshake", func(m message) bool { return m.Payload.Type == "system:handshake_request" })
	consent(t, scout.Agent, handleOf(python.did))
	offer := scout.next(t, "the offer", isAbout("offer", id))
	for _, answer := range []map[string]any{
		payload("ack", map[string]any{"replyTo": offer.ID, "status": "received"}),
		payload("task:result", map[string]any{"requestId": offer.ID, "status": "completed", "result": map[string]any{"note": "three found"}}),
	} {
		if got := post(t, scout.Agent, write(t, scout.Agent, scout.Envelope(offer.From, "", answer))); got.Status != http.StatusCreated {
			t.Fatalf("%v is answered %+v", answer, got)
		}
	}
	python.ends("", "three found")
	canceled := python.offers("Cite seven", nil)
	scout.next(t, "the second offer", isAbout("offer", canceled))
	python.is("canceled", python.call(t, "cancel", python.agent, canceled), "TASK_STATE_CANCELED", "status", "state")
	scout.next(t, "its cancel", isAbout("cancel", canceled))
}

// takerProgram takes posts, and appends a line for each to a file: its token and its body.
const takerProgram = `
import http.server, json, sys
class Taker(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open(sys.argv[2], "a") as f:
            f.write(json.dumps({"token": self.headers["X-A2A-Notification-Token"], "body": body}) + "\n")
        self.send_response(204)
        self.end_headers()
    def log_message(self, *arguments):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Taker).serve_forever()
`

// taker is a receiver of push notifications in a process of its own.
type taker struct {
	t          *testing.T
	addr, file string
	kill       func()
}

func newTaker(t *testing.T) *taker {
	t.Helper()
	r := &taker{t: t, addr: federationtest.FreeAddr(t), file: filepath.Join(t.TempDir(), "got")}
	r.start()
	t.Cleanup(func() { r.kill() })
	return r
}

// start starts the process, and waits until it listens.
func (r *taker) start() {
	r.t.Helper()
	_, port, _ := net.SplitHostPort(r.addr)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	cmd := exec.CommandContext(ctx, "python3", "-c", takerProgram, port, r.file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.kill = func() {
		cancel()
		_ = cmd.Wait() // killed
	}
	await(r.t, "the receiver to listen", func() bool {
		conn, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", r.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// got returns a word for each post: the state of a task, the note of its progress or its result.
func (r *taker) got() (words []string) {
	r.t.Helper()
	text, _ := os.ReadFile(r.file) // none before the first post
	for line := range strings.Lines(string(text)) {
		var p struct {
			Token string
			Body  any
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil || p.Token != "t0ken" {
			r.t.Fatalf("posted %q, %v", line, err)
		}
		word, _ := member(p.Body, "statusUpdate", "status", "state").(string)
		for _, more := range [][]string{{"statusUpdate", "status", "message", "parts", "text"}, {"artifactUpdate", "artifact", "parts", "text"}} {
			if note, ok := member(p.Body, more...).(string); ok {
				word += " " + note
			}
		}
		words = append(words, strings.TrimSpace(strings.TrimPrefix(word, "TASK_STATE_")))
	}
	return words
}

// The process of a receiver is killed, and then the gateway. After both are back, the receiver has
// each event once, in order.
func TestA2APushesWaitForADeadReceiver(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[fetch]\nallow_private = true\n", "[limits]\n"+anyAddress)
	h.start(t)
	h.ready(t)
	worker, ada, receiver := logIn(t, h.url()), logIn(t, h.url()), newTaker(t)
	worker.must(t, http.StatusOK, http.MethodPut, "agents/"+url.PathEscape(string(worker.did)), map[string]any{"caps": []string{"cite"}}, nil)
	sent := ada.a2a(t, "/a2a/"+string(worker.did), "SendMessage", map[string]any{
		"message": map[string]any{"messageId": "m1", "role": "ROLE_USER", "parts": []any{map[string]any{"text": "Cite three"}}},
		"configuration": map[string]any{
			"returnImmediately":          true,
			"taskPushNotificationConfig": map[string]any{"url": "http://" + receiver.addr + "/", "token": "t0ken"},
		},
	})
	id, _ := member(sent, "task", "id").(string)
	awaits := func(want ...string) {
		t.Helper()
		await(t, "the posts", func() bool { return len(receiver.got()) >= len(want) })
		if diff := cmp.Diff(want, receiver.got()); diff != "" {
			t.Errorf("the posts (-want +got):\n%s", diff)
		}
	}
	worker.step(t, id, "accept", nil)
	awaits("WORKING")
	var hooks admin.Page[admin.Webhook]
	waiting := func(n int) {
		t.Helper()
		await(t, fmt.Sprintf("%d posts to wait", n), func() bool {
			h.asks(t, &hooks, "webhook", "list")
			return len(hooks.Items) == 1 && hooks.Items[0].Waiting == n
		})
	}
	waiting(0) // the receiver writes a post before it answers

	receiver.kill()
	worker.step(t, id, "progress", map[string]any{"note": "one of three"})
	waiting(1)
	h.kill(t)
	h.start(t)
	h.ready(t)
	worker.step(t, id, "complete", map[string]any{"note": "here"})
	receiver.start()
	var done admin.Acted
	h.asks(t, &done, "webhook", "redeliver", hooks.Items[0].ID, "--reason", "it is back")
	awaits("WORKING", "WORKING one of three", "here", "COMPLETED")
}
