//go:build interop

package main_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"testing"

	"github.com/ergochat/irc-go/ircevent"
	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// proves returns the answer to a challenge, both in base64url.
func proves(t *testing.T, p person, challenge string) string {
	t.Helper()
	document, err := base64.RawURLEncoding.DecodeString(challenge)
	if err != nil {
		t.Error(err)
	}
	answer, err := json.Marshal(map[string]string{
		"did": p.did, "signature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(p.key, document)),
	})
	if err != nil {
		t.Error(err)
	}
	return base64.RawURLEncoding.EncodeToString(answer)
}

// ircevent is a client library of others, unchanged.
func TestListenerReplaysTheInboxToIrceventOnce(t *testing.T) {
	t.Parallel()
	s := newHomeServer(t)
	eliza, scholar := newPerson(t), newPerson(t)
	voice := s.login(t, "eliza", eliza, append(agentCaps(rfcTags), "echo-message")...)
	join(t, voice)
	offered := s.offers(t, voice, eliza, scholar.did, 2)

	batches, lines := s.ircevent(t, scholar)
	batch := <-batches
	if len(batch.Items) != len(offered) || batch.Params[1] != "freeq.at/handoff" {
		t.Fatalf("a batch %q of %d", batch.Params, len(batch.Items))
	}
	for i, item := range batch.Items {
		if _, id := item.GetTag(vendor + "eventid"); id != offered[i].event {
			t.Errorf("%s came where %s was next", id, offered[i].event)
		}
	}
	s.read(t, "scholar", scholar)
	live := s.offers(t, voice, eliza, scholar.did, 1)[0]
	for line := range lines { // the others are from before it joined
		if isLine(live.handoff, "eliza offers")(line) {
			break
		}
	}
	s.read(t, "scholar", scholar)
	again, _ := s.ircevent(t, scholar)
	select {
	case batch := <-again:
		t.Errorf("%d steps come again", len(batch.Items))
	default:
	}
}

// ircevent connects the library as a DID, and returns the batches and the lines for
// people that it hears.
func (s *homeServer) ircevent(t *testing.T, p person) (<-chan *ircevent.Batch, <-chan bridgetest.IRCMessage) {
	t.Helper()
	batches, lines, joined := make(chan *ircevent.Batch, 100), make(chan bridgetest.IRCMessage, 100), make(chan struct{}, 1)
	c := &ircevent.Connection{
		Server: s.irc, Nick: "scholar", User: "scholar", RealName: "Scholar", Log: log.New(io.Discard, "", 0),
		RequestCaps: []string{"message-tags", "batch", "server-time", "labeled-response", "freeq.at/handoff"},
	}
	c.AddBatchCallback(func(b *ircevent.Batch) bool { batches <- b; return true })
	c.AddCallback("AUTHENTICATE", func(m ircmsg.Message) { _ = c.Send("AUTHENTICATE", proves(t, p, m.Params[0])) })
	c.AddCallback("903", func(ircmsg.Message) { _ = c.Join(channel) })
	c.AddCallback("366", func(ircmsg.Message) { joined <- struct{}{} })
	c.AddCallback("NOTICE", func(m ircmsg.Message) {
		lines <- bridgetest.IRCMessage{Tags: m.AllTags(), Nick: m.Nick(), Command: m.Command, Params: m.Params}
	})
	c.AddConnectCallback(func(ircmsg.Message) { _ = c.Send("AUTHENTICATE", "ATPROTO-CHALLENGE") })
	if err := c.Connect(); err != nil {
		t.Fatal(err)
	}
	go c.Loop()
	t.Cleanup(c.Quit)
	<-joined
	return batches, lines
}
