//go:build interop

package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// clientPatience bounds one call of a client: an interpreter starts in it.
const clientPatience = 30 * time.Second

// clients returns the folder into which .ci/run installs the clients of others.
func clients(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("BATON_CLIENTS")
	if dir == "" {
		t.Fatal("BATON_CLIENTS names no folder with the clients: run .ci/run install interop")
	}
	return dir
}

// driver is a client of others in its own process.
type driver struct {
	in  io.Writer
	out *bufio.Reader
	err *strings.Builder
}

// drive starts a client and ends it with the test.
func drive(t *testing.T, env []string, command ...string) *driver {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(append(os.Environ(), "HOME="+t.TempDir()), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	d := &driver{err: &strings.Builder{}}
	cmd.Stderr = d.err
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // killed
	})
	d.in, d.out = in, bufio.NewReader(out)
	return d
}

// call makes a client do something and returns the result.
func (d *driver) call(t *testing.T, what ...any) any {
	t.Helper()
	line, err := json.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.in.Write(append(line, '\n')); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, d.err)
	}
	type read struct {
		line string
		err  error
	}
	answered := make(chan read, 1)
	go func() {
		text, err := d.out.ReadString('\n')
		answered <- read{text, err}
	}()
	select {
	case got := <-answered:
		var answer any
		if got.err != nil || json.Unmarshal([]byte(got.line), &answer) != nil {
			t.Fatalf("%s is answered %q, %v\n%s", line, got.line, got.err, d.err)
		}
		return answer
	case <-time.After(clientPatience):
		t.Fatalf("%s is not answered", line)
		return nil
	}
}

// with returns the entry of a list whose member has a value.
func with(list any, name string, value any) any {
	entries, _ := list.([]any)
	for _, entry := range entries {
		if member(entry, name) == value {
			return entry
		}
	}
	return nil
}

// The clients come from their registries, in the versions that .ci/run pins.
func TestClientsOfOthersWorkUnchanged(t *testing.T) {
	t.Parallel()
	dir := clients(t)
	h := newHouse(t)
	h.start(t)
	python := drive(t, nil, filepath.Join(dir, "python", "bin", "python"), "testdata/clients/drive.py", h.url(), "py-agent")
	vibe := drive(t, []string{"VIBE_API_URL=" + h.url()}, "node", "testdata/clients/drive.js", filepath.Join(dir, "node", "node_modules", "slashvibe-mcp"))
	check := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}

	check("python registers", member(python.call(t, "register"), "handle"), "py_agent")
	check("python is there", member(python.call(t, "heartbeat"), "success"), true)
	check("vibe registers", member(vibe.call(t, "registerSession", "s1", "vibe_1", "testing"), "handle"), "vibe_1")
	vibe.call(t, "heartbeat", "vibe_1", "reviewing")
	check("python sees vibe", member(with(python.call(t, "who"), "username", "vibe_1"), "workingOn"), "reviewing")
	check("vibe sees python", member(with(vibe.call(t, "getActiveUsers"), "handle", "py_agent"), "status"), "active")

	check("first contact is held", member(python.call(t, "send", "@vibe_1", "hello"), "consent"), "pending")
	pending, _ := vibe.call(t, "getPendingConsents", "vibe_1").([]any)
	if len(pending) != 1 || pending[0] != "@py_agent" {
		t.Errorf("vibe is asked by %v", pending)
	}
	check("vibe accepts", member(vibe.call(t, "acceptConsent", "py_agent", "vibe_1"), "success"), true)
	check("what was held is there", member(vibe.call(t, "getThread", "vibe_1", "py_agent"), "body"), "hello")
	inbox := with(vibe.call(t, "getInbox", "vibe_1"), "handle", "py_agent")
	if inbox == nil {
		t.Errorf("the inbox of vibe is without python")
	}
	if sent, _ := member(vibe.call(t, "sendMessage", "vibe_1", "py_agent", "hello yourself", "dm"), "error").(string); sent != "" {
		t.Errorf("vibe answers: %s", sent)
	}
	check("python reads the answer", member(with(python.call(t, "poll"), "from", "vibe_1"), "text"), "hello yourself")
	if again, _ := python.call(t, "poll").([]any); len(again) != 0 {
		t.Errorf("python polls %v again", again)
	}

	offer := python.call(t, "send", "vibe_1", "Review the patch", "handoff")
	check("an offer", member(offer, "handoff", "state"), "offered")
	payload := map[string]any{"type": "ack", "data": map[string]any{"replyTo": member(offer, "id"), "status": "received"}}
	vibe.call(t, "sendMessage", "vibe_1", "py_agent", "on it", "dm", payload)
	answer := with(python.call(t, "poll"), "type", "ack")
	check("the offer is accepted", member(answer, "payload", "data", "replyTo"), member(offer, "id"))
	status, text := get(t, h.url()+"/api/presence")
	if status != http.StatusOK || !strings.Contains(text, "py_agent") {
		t.Errorf("anybody reads %d %s", status, text)
	}
	if code := h.stop(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
