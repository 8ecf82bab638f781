//go:build interop

package main_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// labTold waits for a notice of the gateway to alice.
func (b *talkative) labTold(t *testing.T, part string) {
	t.Helper()
	_, err := b.lab.Next(patient(t), func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && m.Params[0] == b.lab.UUID("alice") && strings.Contains(m.Params[1], part)
	})
	if err != nil {
		t.Fatalf("alice is not told %q: %v", part, err)
	}
}

func TestWaitingMessageNoticeReachesItsSender(t *testing.T) {
	t.Parallel()
	b := newTalkative(t)
	zoe := b.guest(t, "zoe")
	const next, same = "the next user with that nick will read it", "your message waits for"
	b.finn.Tell("Baton-gw", "say zoe@client hello zoe") // so that the listener knows finn by its nick
	clientReads(t, zoe, "hello zoe")

	b.lab.Say("alice", "PRIVMSG Baton :say bob@client are you there?")
	b.labTold(t, "bob@client is not connected and has no account: your message waits, and "+next)
	for command, want := range map[string]string{"say bob@lab hello": next, "say finn@fq hello": "is on its way"} {
		if err := zoe.Send(nil, "PRIVMSG", "Baton", command); err != nil {
			t.Fatal(err)
		}
		if _, err := zoe.Next(patient(t), func(m bridgetest.IRCMessage) bool {
			return m.Command == "NOTICE" && strings.Contains(m.Params[1], want)
		}); err != nil {
			t.Fatalf("after %q zoe is not told %q: %v", command, want, err)
		}
	}
	b.freeq.Say(b.freeq.Event(map[string]any{"type": "quit", "nick": "finn", "reason": "bye"}))
	await(t, "finn to be away", func() bool {
		if err := zoe.Send(nil, "PRIVMSG", "finn", "are you there?"); err != nil {
			t.Fatal(err)
		}
		if err := zoe.Send(nil, "PING", "after it"); err != nil {
			t.Fatal(err)
		}
		m, err := zoe.Next(patient(t), func(m bridgetest.IRCMessage) bool { return m.Command == "301" || m.Command == "PONG" })
		return err == nil && m.Command == "301" && m.Params[1] == "finn" && strings.Contains(m.Params[2], same)
	})
	var unknown struct{ Code string }
	b.http.must(t, http.StatusNotFound, http.MethodPost, "messages", map[string]any{"to": "bob@lab", "text": "are you there?"}, &unknown)
	if unknown.Code != "unknown-name" { // spec: agent-faces §4, a nick neither online nor on record
		t.Errorf("over HTTP the code is %s", unknown.Code)
	}
	var sent struct{ Status, Note string }
	b.http.must(t, http.StatusCreated, http.MethodPost, "messages", map[string]any{"to": "alice@lab", "text": "hello"}, &sent)
	b.labReads(t, "alice", "hello") // she is on record now
	b.lab.Quit("alice")
	await(t, "alice to be away", func() bool {
		response, err := http.DefaultClient.Do(b.http.request(t, http.MethodPost, "messages", map[string]any{"to": "alice@lab", "text": "are you there?"}))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(&sent); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode == http.StatusAccepted
	})
	if sent.Status != "held" || !strings.Contains(sent.Note, "the next user with that nick") {
		t.Errorf("over HTTP the answer is %+v", sent)
	}
	if answer := b.send(t, "bob@lab", "are you there?", http.StatusAccepted); !strings.Contains(answer["message"].(string), "the next user with that nick") {
		t.Errorf("over AIRC the answer is %v", answer)
	}
}

// Report: matrix-org/matrix-appservice-irc#692, whose senders do not learn that the recipient left.
func TestMessageIsNotReadByTheNextUserOfTheNick(t *testing.T) {
	t.Parallel()
	b := newTalkative(t)
	b.lab.HoldPongs(true) // the delivery to alice is not proved before she leaves
	b.write(t, "alice@lab", "for alice", http.StatusCreated)
	b.labReads(t, "alice", "for alice")
	b.lab.Quit("alice")
	b.lab.Connect("alice")                     // another person
	b.tellBaton(t, "help", "I carry handoffs") // the gateway knows that person now
	b.lab.HoldPongs(false)
	b.write(t, "alice@lab", "for the other one", http.StatusCreated)
	b.labReads(t, "alice", "for the other one")
	for _, m := range b.lab.Received() {
		if m.Command == "PRIVMSG" && m.Params[0] == b.lab.UUID("alice") && m.Params[1] == "for alice" {
			t.Errorf("the next user of the nick reads %v", m)
		}
	}
}
