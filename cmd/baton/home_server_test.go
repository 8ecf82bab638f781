//go:build interop

package main_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// homeServer is a gateway with a listener for IRC clients.
type homeServer struct {
	*house

	irc string // host:port
}

// newHomeServer makes a house with a listener and starts it.
func newHomeServer(t *testing.T, tables ...string) *homeServer {
	t.Helper()
	s := &homeServer{house: newHouse(t), irc: federationtest.FreeAddr(t)}
	s.configure(t, append([]string{fmt.Sprintf("[irc.client]\nlisten = %q\n", s.irc)}, tables...)...)
	s.start(t)
	s.ready(t)
	return s
}

func agentCaps(d ...dialect) []string {
	caps := []string{"sasl", "message-tags", "batch", "server-time", "account-tag", "labeled-response", "standard-replies"}
	for _, each := range d {
		caps = append(caps, "freeq.at/"+string(each))
	}
	return caps
}

// login connects a client that proves a DID, as the published rules of SASL say.
func (s *homeServer) login(t *testing.T, nick string, p person, caps ...string) *bridgetest.IRCClient {
	t.Helper()
	client, err := bridgetest.LogInIRC(t.Context(), s.irc, nick, p.prove, caps...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// prove returns the answer of a person to a challenge.
func (p person) prove(challenge string) (string, error) {
	document, err := base64.RawURLEncoding.DecodeString(challenge)
	if err != nil {
		return "", err
	}
	answer, err := json.Marshal(map[string]string{
		"did": p.did, "signature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(p.key, document)),
	})
	return base64.RawURLEncoding.EncodeToString(answer), err
}

// guest connects a client that proves nothing, and joins the channel.
func (s *homeServer) guest(t *testing.T, nick string, caps ...string) *bridgetest.IRCClient {
	t.Helper()
	client, err := bridgetest.DialIRC(t.Context(), s.irc, nick, caps...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	join(t, client)
	return client
}

func join(t *testing.T, client *bridgetest.IRCClient) {
	t.Helper()
	if err := client.Join(t.Context(), channel); err != nil {
		t.Fatal(err)
	}
}

// hasEvent tells a step by its event id.
func hasEvent(s signed) func(bridgetest.IRCMessage) bool {
	return func(m bridgetest.IRCMessage) bool {
		return m.Command == "TAGMSG" && m.Tags[vendor+"eventid"] == s.event
	}
}

// sameTags returns how the tags of a message differ from the signed ones.
func sameTags(m bridgetest.IRCMessage, s signed) error {
	for name, value := range s.tags {
		if m.Tags[name] != value {
			return fmt.Errorf("%s is %q, signed was %q", name, m.Tags[name], value)
		}
	}
	for name := range m.Tags {
		if _, signed := s.tags[name]; !signed && strings.HasPrefix(name, vendor) {
			return fmt.Errorf("%s was not signed", name)
		}
	}
	if m.Tags["msgid"] == "" || m.Tags["time"] == "" {
		return errors.New("msgid or time is missing")
	}
	return nil
}

// walkthrough is the scene of the RFC: eliza with her voice in the channel, a person that
// watches it, and scholar, which is away.
type walkthrough struct {
	*homeServer
	d              dialect
	eliza, scholar person
	voice, human   *bridgetest.IRCClient
}

// The walkthrough of the RFC, word for word, and in the other tags too.
//
// spec: freeq-handoff-rfc "Lifecycle walkthrough"
func TestListenerFollowsTheWalkthroughOfTheRFC(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			w := &walkthrough{homeServer: newHomeServer(t), d: d, eliza: newPerson(t), scholar: newPerson(t)}
			w.voice = w.login(t, "eliza", w.eliza, append(agentCaps(d), "echo-message")...)
			join(t, w.voice)
			w.human = w.guest(t, "human")

			offer, msgid := w.offer(t)
			agent := w.replayOnConnect(t, offer, msgid)
			w.step(t, agent, "accept", offer, extras{d.replyTo(): msgid})
			w.step(t, agent, "complete", offer, extras{d.context(): "https://irc.freeq.at/blob/cap/def"})
			settled(t, w.voice)
			if n := len(slices.DeleteFunc(w.voice.Received(), func(m bridgetest.IRCMessage) bool {
				return m.Command != "TAGMSG" || m.Tags[vendor+"act-verb"] == "confirm"
			})); n != 0 {
				t.Errorf("%d steps came twice", n)
			}
			w.noShow(t, agent)
		})
	}
}

// context and replyTo are the tags of a context and of the answered step.
func (d dialect) context() string { return map[dialect]string{rfcTags: "context", actTags: "ctx"}[d] }

func (d dialect) replyTo() string {
	return map[dialect]string{rfcTags: "reply-to", actTags: "x-reply-to"}[d]
}

// offer is the first step: the server assigns a msgid, and the humans see a line.
func (w *walkthrough) offer(t *testing.T) (offer signed, msgid string) {
	t.Helper()
	offer = w.d.offer(w.eliza, channel, extras{
		"to": w.scholar.did, "title": "Cite the 3 best sources on X", w.d.context(): "https://irc.freeq.at/blob/cap/abc",
		"caps": "web-search", "deadline": due(time.Now().Add(time.Hour)),
	})
	send(t, w.voice, offer.tags)
	filed := next(t, w.voice, "the echo of the offer", hasEvent(offer))
	if err := sameTags(filed, offer); err != nil {
		t.Error(err)
	}
	next(t, w.human, "the line", isLine(offer.handoff, "eliza offers .*: Cite the 3 best sources on X"))
	return offer, filed.Tags["msgid"]
}

// replayOnConnect is the second: scholar logs in, and the offer is in a batch.
func (w *walkthrough) replayOnConnect(t *testing.T, offer signed, msgid string) *bridgetest.IRCClient {
	t.Helper()
	agent := w.login(t, "scholar", w.scholar, agentCaps(w.d)...)
	begin := next(t, agent, "the batch", isBatch)
	if len(begin.Params) != 2 || begin.Params[1] != "freeq.at/handoff" {
		t.Errorf("the batch begins %q", begin.Params)
	}
	replayed := next(t, agent, "the offer", hasEvent(offer))
	if err := sameTags(replayed, offer); err != nil {
		t.Error(err)
	}
	if replayed.Tags["msgid"] != msgid || "+"+replayed.Tags["batch"] != begin.Params[0] {
		t.Errorf("replayed with %v", replayed.Tags)
	}
	return agent
}

// step is the third and the fourth: scholar answers from outside of the channel, eliza
// has it as it was signed, and the humans see a line.
func (w *walkthrough) step(t *testing.T, agent *bridgetest.IRCClient, verb string, offer signed, more extras) {
	t.Helper()
	answer := w.d.step(w.scholar, channel, verb, offer.handoff, more)
	send(t, agent, answer.tags)
	if err := sameTags(next(t, w.voice, verb, hasEvent(answer)), answer); err != nil {
		t.Errorf("%s: %v", verb, err)
	}
	next(t, w.human, "the line of "+verb, isLine(offer.handoff, "scholar "+verb))
}

// noShow is the end of the RFC: an unanswered offer expires, once, eliza is told, and
// offers the same again.
func (w *walkthrough) noShow(t *testing.T, agent *bridgetest.IRCClient) {
	t.Helper()
	terms := extras{"to": w.scholar.did, "title": "No show", "deadline": due(past(time.Second))}
	missed := w.d.offer(w.eliza, channel, terms)
	send(t, w.voice, missed.tags)
	next(t, w.voice, "the echo", hasEvent(missed))
	if expired := w.d.await(t, w.voice, "expire", missed.handoff); expired.Nick != "Baton" {
		t.Errorf("it expires by %s", expired.Nick)
	}
	next(t, w.human, "the line", isLine(missed.handoff, ".*expire"))
	delete(terms, "deadline")
	terms["replaces"] = missed.handoff
	again := w.d.offer(w.eliza, channel, terms)
	send(t, w.voice, again.tags)
	next(t, agent, "the offer again", hasEvent(again))
	settled(t, w.voice)
	if slices.ContainsFunc(w.voice.Received(), w.d.names("expire", missed.handoff)) {
		t.Error("it expires twice")
	}
}

func isBatch(m bridgetest.IRCMessage) bool {
	return m.Command == "BATCH" && strings.HasPrefix(m.Params[0], "+")
}

// settled waits until all earlier messages to a client have arrived.
func settled(t *testing.T, client *bridgetest.IRCClient) {
	t.Helper()
	if err := client.Send(nil, "PING", "settled"); err != nil {
		t.Fatal(err)
	}
	next(t, client, "a PONG", func(m bridgetest.IRCMessage) bool { return m.Command == "PONG" && slices.Contains(m.Params, "settled") })
}
