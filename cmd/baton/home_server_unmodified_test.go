//go:build interop

package main_test

import (
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// framework starts a client of irc-framework that proves a DID, or none without a key, and
// joins the channel.
func (s *homeServer) framework(t *testing.T, nick string, p *person) *driver {
	t.Helper()
	host, port, err := net.SplitHostPort(s.irc)
	if err != nil {
		t.Fatal(err)
	}
	command := []string{"node", "testdata/clients/irc.js", filepath.Join(clients(t), "node", "node_modules", "irc-framework"), host, port, nick}
	if p != nil {
		command = append(command, hex.EncodeToString(p.key.Seed()))
	}
	d := drive(t, nil, command...)
	if got := d.call(t, "connect"); got != nick {
		t.Fatalf("it is called %v, want %s", got, nick)
	}
	return d
}

// read returns the message ids and the event ids of the next batch that a client hears.
func (d *driver) read(t *testing.T) (messages, events []string) {
	t.Helper()
	steps, _ := d.call(t, "next", "batch").([]any)
	for _, step := range steps {
		id, _ := member(step, "tags", "msgid").(string)
		event, _ := member(step, "tags", vendor+"eventid").(string)
		messages, events = append(messages, id), append(events, event)
	}
	return messages, events
}

// irc-framework is the base of many web clients.
func TestListenerReplaysTheInboxToIRCFramework(t *testing.T) {
	t.Parallel()
	s := newHomeServer(t)
	eliza, scholar := newPerson(t), newPerson(t)
	voice := s.login(t, "eliza", eliza, append(agentCaps(rfcTags), "echo-message")...)
	join(t, voice)
	var offered []string
	for _, offer := range s.offers(t, voice, eliza, scholar.did, 3) {
		offered = append(offered, offer.event)
	}

	first := s.framework(t, "scholar", &scholar)
	first.call(t, "deafen")
	if got := first.call(t, "prove", scholar.did); got != "903" {
		t.Fatalf("the login is answered %v", got)
	}
	ids, events := first.read(t)
	if diff := cmp.Diff(offered, events); diff != "" {
		t.Errorf("replayed (-offered +got):\n%s", diff)
	}
	s.kill(t) // between the page and its answer
	first.call(t, "next", "closed")
	s.start(t)
	s.ready(t)

	again := s.framework(t, "scholar", &scholar)
	again.call(t, "deafen")
	again.call(t, "prove", scholar.did)
	repeated, _ := again.read(t)
	if diff := cmp.Diff(ids, repeated); diff != "" {
		t.Errorf("message ids (-first time +again):\n%s", diff)
	}
	again.call(t, "ack", ids[len(ids)-1])
	s.read(t, "scholar", scholar)

	third := s.framework(t, "scholar2", &scholar)
	third.call(t, "prove", scholar.did)
	third.call(t, "join", channel) // by then it would have got the waiting messages
	if n := third.call(t, "left", "batch"); n != 0.0 {
		t.Errorf("%v pages come again", n)
	}
}

func TestListenerServesIRCFramework(t *testing.T) {
	t.Parallel()
	s := newHomeServer(t)
	eliza := newPerson(t)
	voice := s.login(t, "eliza", eliza, append(agentCaps(rfcTags), "echo-message")...)
	join(t, voice)
	human := s.framework(t, "human", nil)
	if diff := cmp.Diff([]any{"eliza", "human"}, human.call(t, "join", channel)); diff != "" {
		t.Errorf("in the channel (-want +got):\n%s", diff)
	}
	human.call(t, "say", channel, "hello")
	next(t, voice, "what was said", utters("human", "hello"))
	if err := voice.Send(nil, "PRIVMSG", channel, "hello human"); err != nil {
		t.Fatal(err)
	}
	if got := human.call(t, "next", "message"); member(got, "nick") != "eliza" || member(got, "text") != "hello human" {
		t.Errorf("it hears %v", got)
	}
	s.offers(t, voice, eliza, "did:plc:ewvi7nxzyoun6zhxrhs64oiz", 1)
	if line, _ := human.call(t, "next", "notice").(string); !strings.Contains(line, "] eliza offers ") {
		t.Errorf("it is shown %q", line)
	}
}

// utters matches a text of a nick in the channel.
func utters(nick, text string) func(bridgetest.IRCMessage) bool {
	return func(m bridgetest.IRCMessage) bool {
		return m.Command == "PRIVMSG" && m.Nick == nick && m.Params[0] == channel && m.Params[1] == text
	}
}

// weechat is a terminal client, without a terminal: it reads commands from a pipe,
// and writes its output to files.
type weechat struct {
	dir  string
	pipe string
}

func (s *homeServer) weechat(t *testing.T, nick string) *weechat {
	t.Helper()
	dir := t.TempDir()
	w := &weechat{dir: dir, pipe: filepath.Join(dir, "pipe")}
	cmd := exec.CommandContext(t.Context(), "weechat-headless", "--dir", dir,
		"--run-command", "/set fifo.file.path "+w.pipe, "--run-command", "/fifo enable", "--run-command", "/set logger.file.flush_delay 0",
		"--run-command", fmt.Sprintf("/server add here %s -notls -nicks=%s -autojoin=%s", strings.Replace(s.irc, ":", "/", 1), nick, channel),
		"--run-command", "/connect here")
	cmd.Env = append(os.Environ(), "HOME="+dir, "LANG=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	return w
}

// types enters a line in the channel.
func (w *weechat) types(t *testing.T, line string) {
	t.Helper()
	pipe, err := os.OpenFile(w.pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if _, err := fmt.Fprintf(pipe, "irc.here.%s *%s\n", channel, line); err != nil {
		t.Fatal(err)
	}
}

// shows waits until the channel shows a text.
func (w *weechat) shows(t *testing.T, text string) {
	t.Helper()
	await(t, "WeeChat to show "+text, func() bool {
		log, err := os.ReadFile(filepath.Join(w.dir, "logs", "irc.here."+channel+".weechatlog"))
		return err == nil && strings.Contains(string(log), text)
	})
}

func TestListenerServesWeeChat(t *testing.T) {
	t.Parallel()
	s := newHomeServer(t)
	eliza := newPerson(t)
	voice := s.login(t, "eliza", eliza, append(agentCaps(rfcTags), "echo-message")...)
	join(t, voice)
	human := s.weechat(t, "human")
	human.shows(t, "has joined")
	human.types(t, "hello")
	next(t, voice, "what was said", utters("human", "hello"))
	if err := voice.Send(nil, "PRIVMSG", channel, "hello human"); err != nil {
		t.Fatal(err)
	}
	human.shows(t, "hello human")
	offer := s.offers(t, voice, eliza, "did:plc:ewvi7nxzyoun6zhxrhs64oiz", 1)[0]
	human.shows(t, "[handoff …"+offer.handoff[len(offer.handoff)-6:]+"] eliza offers ")
	send(t, voice, rfcTags.step(eliza, channel, "cancel", offer.handoff, nil).tags)
	human.shows(t, "] eliza cancels")
	human.types(t, "/part")
	next(t, voice, "its PART", func(m bridgetest.IRCMessage) bool { return m.Command == "PART" && m.Nick == "human" })
}
