//go:build interop

package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// talkative is a gateway with one participant on each network that carries private text.
type talkative struct {
	*homeServer

	lab   *bridgetest.IRCd  // with alice, a guest
	freeq *bridgetest.Freeq // with finn and a DID of finn
	finn  *bridgetest.FreeqUser
	http  *caller // with a token
	scout *bridgetest.Agent
	seen  map[string]bool // messages that scout has read, by id
}

func newTalkative(t *testing.T, tables ...string) *talkative {
	t.Helper()
	return talkativeIn(t, newHouse(t), tables...)
}

// talkativeIn is newTalkative in a house with more files already.
func talkativeIn(t *testing.T, h *house, tables ...string) *talkative {
	t.Helper()
	b := &talkative{homeServer: &homeServer{house: h, irc: federationtest.FreeAddr(t)}, seen: map[string]bool{}}
	b.keep(t, "lab.send", "planted-lab-send")
	b.keep(t, "lab.recv", "planted-lab-send")
	lab, err := bridgetest.ListenIRCd(t.Context(), bridgetest.IRCdConfig{
		Name: "lab.irc.test", SID: "1LA", LinkName: "gw.test", SendPassword: "planted-lab-send", RecvPassword: "planted-lab-send",
		Users: []string{"alice"}, Channels: []string{channel},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lab.Close)
	b.lab = lab
	server, table := newFreeq(t, b.house, "fq", channel)
	b.freeq = server
	b.configure(t, append([]string{
		fmt.Sprintf("[irc.client]\nlisten = %q\nchannels = [%q]\n", b.irc, channel), linkTable("lab", "lab.irc.test", lab.Addr()), table,
	}, tables...)...)
	b.start(t)
	b.ready(t)
	if err := server.AwaitLink(patient(t)); err != nil {
		t.Fatal(err)
	}
	b.finn = server.Join("finn", didOf(seeded("finn")), seeded("finn"))
	b.http = logIn(t, b.url())
	b.scout = (&world{house: b.house}).register(t, "scout_7")
	return b
}

// send has scout write to a participant.
func (b *talkative) send(t *testing.T, to, text string, want int) map[string]any {
	t.Helper()
	status, answer, err := b.scout.Send(t.Context(), to, text, nil)
	if err != nil || status != want {
		t.Fatalf("scout writes to %s: %d %v, %v; want %d", to, status, answer, err, want)
	}
	return answer
}

// labReads waits for a line to alice's network.
func (b *talkative) labReads(t *testing.T, nick, text string) bridgetest.IRCMessage {
	t.Helper()
	m, err := b.lab.Next(patient(t), func(m bridgetest.IRCMessage) bool {
		return m.Command == "PRIVMSG" && m.Params[0] == b.lab.UUID(nick) && m.Params[1] == text
	})
	if err != nil {
		t.Fatalf("%s reads %q: %v", nick, text, err)
	}
	return m
}

// freeqReads waits for a line to a user of freeq.
func (b *talkative) freeqReads(t *testing.T, text string) map[string]any {
	t.Helper()
	m, err := b.freeq.AwaitLine(patient(t), text, func(m map[string]any) bool { return m["type"] == "privmsg" && m["text"] == text })
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// scoutReads waits for the message with a text in scout's inbox and returns its envelope.
func (b *talkative) scoutReads(t *testing.T, text string) map[string]any {
	t.Helper()
	var found map[string]any
	await(t, "scout to read "+text, func() bool {
		messages, _, err := b.scout.Inbox(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		found = nil
		n := 0
		for _, raw := range messages {
			var m map[string]any
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Fatal(err)
			}
			if m["body"] == text {
				found = m
				n++
				if err := b.scout.Verify(raw); err != nil {
					t.Fatalf("the signature of %s: %v", raw, err)
				}
			}
		}
		if n > 1 {
			t.Fatalf("%q is in the inbox %d times", text, n)
		}
		return found != nil
	})
	return found
}

// httpReads waits for the message with a text in the inbox of the REST caller.
func (b *talkative) httpReads(t *testing.T, text string) map[string]any {
	t.Helper()
	return b.http.hears(t, text)
}

// write has the REST caller write to a participant.
func (b *talkative) write(t *testing.T, to, text string, want int) {
	t.Helper()
	b.http.must(t, want, http.MethodPost, "messages", map[string]any{"to": to, "text": text}, nil)
}

// guest connects an IRC client without a DID.
func (b *talkative) guest(t *testing.T, nick string) *bridgetest.IRCClient {
	t.Helper()
	c, err := bridgetest.DialIRC(patient(t), b.irc, nick, "message-tags")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func clientReads(t *testing.T, c *bridgetest.IRCClient, text string) bridgetest.IRCMessage {
	t.Helper()
	m, err := c.Next(patient(t), func(m bridgetest.IRCMessage) bool { return m.Command == "PRIVMSG" && m.Params[1] == text })
	if err != nil {
		t.Fatalf("the client reads %q: %v", text, err)
	}
	return m
}

func nickOf(m bridgetest.IRCMessage) string {
	nick, _, _ := strings.Cut(m.Source, "!")
	return nick
}

func TestMessagesBetweenAnAgentAndEachNetwork(t *testing.T) {
	t.Parallel()
	b := newTalkative(t)
	zoe := b.guest(t, "zoe")

	// On InspIRCd alice has no DID.
	b.send(t, "alice@lab", "which of them?", http.StatusCreated)
	m := b.labReads(t, "alice", "which of them?")
	b.lab.Say("alice", "PRIVMSG "+m.Source+" :the second one")
	got := b.scoutReads(t, "the second one")
	b.send(t, got["from"].(string), "thanks", http.StatusCreated) // the handle leads back
	b.labReads(t, "alice", "thanks")
	if got["evidence"] == nil {
		t.Errorf("the message has no evidence: %v", got)
	}

	// On freeq finn has one.
	b.send(t, "finn@fq", "and you?", http.StatusCreated)
	line := b.freeqReads(t, "and you?")
	b.finn.Tell(line["from"].(string), "the third")
	got = b.scoutReads(t, "the third")
	b.send(t, got["from"].(string), "noted", http.StatusCreated)
	b.freeqReads(t, "noted")

	// The listener for clients.
	b.send(t, "zoe@client", "you too?", http.StatusCreated)
	reply := clientReads(t, zoe, "you too?")
	if err := zoe.Send(nil, "PRIVMSG", nickOf(reply), "\x01ACTION nods\x01"); err != nil {
		t.Fatal(err)
	}
	got = b.scoutReads(t, "/me nods")
	b.send(t, got["from"].(string), "good", http.StatusCreated)
	clientReads(t, zoe, "good")

	// REST, and one line to two participants.
	b.write(t, "zoe@client", "and me?", http.StatusCreated)
	other := clientReads(t, zoe, "and me?")
	if err := zoe.Send(nil, "PRIVMSG", nickOf(reply)+",absent,"+nickOf(other), "both of you"); err != nil {
		t.Fatal(err)
	}
	b.scoutReads(t, "both of you")
	b.httpReads(t, "both of you")
	b.write(t, "scout_7", "hello there", http.StatusCreated)
	b.send(t, b.asker(t, "hello there"), "hello back", http.StatusCreated) // which accepts the caller
	b.scoutReads(t, "hello there")
	b.httpReads(t, "hello back")
}

func TestMessagesBetweenARESTAgentAndPeople(t *testing.T) {
	t.Parallel()
	b := newTalkative(t)
	zoe := b.guest(t, "zoe")
	b.write(t, "alice@lab", "from rest", http.StatusCreated)
	m := b.labReads(t, "alice", "from rest")
	b.lab.Say("alice", "PRIVMSG "+m.Source+" :to rest")
	b.httpReads(t, "to rest")
	b.write(t, "finn@fq", "from rest to freeq", http.StatusCreated)
	line := b.freeqReads(t, "from rest to freeq")
	b.finn.Tell(line["from"].(string), "freeq to rest")
	b.httpReads(t, "freeq to rest")
	b.write(t, "zoe@client", "from rest to zoe", http.StatusCreated)
	reply := clientReads(t, zoe, "from rest to zoe")
	if err := zoe.Send(nil, "PRIVMSG", nickOf(reply), "zoe to rest"); err != nil {
		t.Fatal(err)
	}
	b.httpReads(t, "zoe to rest")
	b.write(t, "nobody_here@nowhere", "lost", http.StatusNotFound)
	b.write(t, "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp", "lost", http.StatusNotFound)
}

func TestMessagesWaitInOrderOverAKill(t *testing.T) {
	t.Parallel()
	b := newTalkative(t)
	const lines = 5
	for _, to := range []string{"bob@lab", "bob@fq", "bob@client"} {
		for n := range lines {
			b.send(t, to, fmt.Sprintf("line %d to %s", n, to), http.StatusAccepted)
		}
	}
	b.kill(t)
	b.start(t)
	b.ready(t)
	b.lab.Connect("bob")
	for n := range lines {
		b.labReads(t, "bob", fmt.Sprintf("line %d to bob@lab", n))
	}
	bob := b.guest(t, "bob")
	for n := range lines {
		clientReads(t, bob, fmt.Sprintf("line %d to bob@client", n))
	}
	if err := b.freeq.AwaitLink(patient(t)); err != nil {
		t.Fatal(err)
	}
	b.freeq.Join("bob", didOf(seeded("bob")), seeded("bob"))
	for n := range lines {
		b.freeqReads(t, fmt.Sprintf("line %d to bob@fq", n))
	}
}

func TestMessagesOfAStrangerAreBlockedOnEveryNetwork(t *testing.T) {
	t.Parallel()
	b := newTalkative(t)
	b.send(t, "alice@lab", "buy this", http.StatusCreated)
	first, err := b.lab.Next(patient(t), func(m bridgetest.IRCMessage) bool {
		return m.Command == "PRIVMSG" && m.Params[0] == b.lab.UUID("alice") && strings.Contains(m.Params[1], "allow scout_7") && strings.Contains(m.Params[1], "block scout_7")
	})
	if err != nil {
		t.Fatal(err)
	}
	b.labReads(t, "alice", "buy this")
	b.send(t, "alice@lab", "and this", http.StatusCreated)
	b.labReads(t, "alice", "and this")
	for _, m := range b.lab.Received() {
		if m.Command == "PRIVMSG" && strings.Contains(m.Params[1], "block scout_7") && m.Params[1] != first.Params[1] {
			t.Errorf("introduced again: %v", m)
		}
	}
	b.tellBaton(t, "block scout_7", "scout_7 can no longer write to you")
	b.send(t, "alice@lab", "once more", http.StatusForbidden)
	b.tellBaton(t, "allow scout_7", "scout_7 may write to you")
	b.send(t, "alice@lab", "finally", http.StatusCreated)
	b.labReads(t, "alice", "finally")
}

// tellBaton has alice write to the gateway's own user, and waits for the start of its answer.
func (b *talkative) tellBaton(t *testing.T, command, answer string) {
	t.Helper()
	b.lab.Say("alice", "PRIVMSG Baton :"+command)
	_, err := b.lab.Next(patient(t), func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && strings.HasPrefix(m.Params[1], answer)
	})
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
}

func TestMessagesToAnAgentNeedItsConsent(t *testing.T) {
	t.Parallel()
	b := newTalkative(t)
	b.lab.Say("alice", "PRIVMSG Baton :say scout_7 may I ask?")
	asker := b.asker(t, "may I ask?")
	if status, answer, err := b.scout.Consent(t.Context(), asker, "accept"); err != nil || status != http.StatusOK {
		t.Fatalf("accept: %d %v %v", status, answer, err)
	}
	b.scoutReads(t, "may I ask?")
	if status, answer, err := b.scout.Consent(t.Context(), asker, "block"); err != nil || status != http.StatusOK {
		t.Fatalf("block: %d %v %v", status, answer, err)
	}
	b.tellBaton(t, "say scout_7 hello?", "POLICY_DENIED")
}

// asker waits for the request of a sender whose message is held, and returns its handle.
func (b *talkative) asker(t *testing.T, text string) (handle string) {
	t.Helper()
	await(t, "the request", func() bool {
		messages, _, err := b.scout.Inbox(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range messages {
			var m struct {
				Body    string
				Payload struct {
					Type string
					Data struct{ Requester, Message string }
				}
			}
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Fatal(err)
			}
			if m.Body == text {
				t.Fatalf("%q was not held", text)
			}
			if m.Payload.Type == "system:handshake_request" && m.Payload.Data.Message == text {
				handle = m.Payload.Data.Requester
			}
		}
		return handle != ""
	})
	return handle
}

func TestMessagesOfAHandoffAreInNoPassport(t *testing.T) {
	t.Parallel()
	b := newTalkative(t)
	id := b.http.offer(t, map[string]any{"to": b.scout.DID, "title": "cite three sources"})
	b.http.must(t, http.StatusCreated, http.MethodPost, "messages", map[string]any{"to": "alice@lab", "text": "about the offer", "handoff": id}, nil)
	m := b.labReads(t, "alice", "about the offer")
	if ref := m.Tags["+freeq.at/ref"]; ref != id {
		t.Errorf("the line names %q, want %s", ref, id)
	}
	b.lab.Send("@+freeq.at/ref=" + id + " :" + b.lab.UUID("alice") + " PRIVMSG " + m.Source + " :my answer to it")
	b.httpReads(t, "my answer to it")
	shown := b.prints(t, "handoff", "show", id)
	for text, want := range map[string]bool{"about the offer": true, "my answer to it": false} { // alice is not a party
		if strings.Contains(shown, text) != want {
			t.Errorf("handoff show has %q: %v, want %v:\n%s", text, !want, want, shown)
		}
	}
	if passport := b.prints(t, "handoff", "export", id); strings.Contains(passport, "about the offer") || strings.Contains(passport, "my answer") {
		t.Errorf("the passport has a message:\n%s", passport)
	}
	if out := b.prints(t, "verify"); strings.Contains(out, "message") {
		t.Errorf("verify finds fault with a message: %s", out)
	}
}

func (h *house) prints(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.command(t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("baton %v: %v: %s", args, err, out)
	}
	return string(out)
}

func TestMessagesExpireUnread(t *testing.T) {
	t.Parallel()
	b := newTalkative(t, "[retention]\nmessages = \"1s\"\n")
	b.send(t, "bob@lab", "too late", http.StatusAccepted)
	await(t, "the notice", func() bool {
		messages, _, err := b.scout.Inbox(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range messages {
			if strings.Contains(string(raw), `"undeliverable"`) && strings.Contains(string(raw), `"expired"`) {
				return true
			}
		}
		return false
	})
	b.lab.Connect("bob")
	b.send(t, "alice@lab", "still here?", http.StatusCreated)
	b.labReads(t, "alice", "still here?")
	for _, m := range b.lab.Received() {
		if m.Command == "PRIVMSG" && m.Params[1] == "too late" {
			t.Errorf("shown after it expired: %v", m)
		}
	}
}
