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

	"baton/bridge/bridgetest"
)

// homeServer is a gateway with a listener for IRC clients.
type homeServer struct {
	*house

	irc string // host:port
}

// newHomeServer makes a house with a listener and starts it.
func newHomeServer(t *testing.T, tables ...string) *homeServer {
	t.Helper()
	s := &homeServer{house: newHouse(t), irc: freeAddr(t)}
	s.configure(t, append([]string{fmt.Sprintf("[irc.client]\nlisten = %q\n", s.irc)}, tables...)...)
	s.start(t)
	s.ready(t)
	return s
}

// agentCaps are what an agent asks for.
func agentCaps(d ...dialect) []string {
	caps := []string{"sasl", "message-tags", "batch", "server-time", "account-tag", "labeled-response", "standard-replies"}
	for _, each := range d {
		caps = append(caps, "freeq.at/"+string(each))
	}
	return caps
}

// login connects somebody who proves a DID, as the published rules of SASL say.
func (s *homeServer) login(t *testing.T, nick string, p person, caps ...string) *bridgetest.IRCClient {
	t.Helper()
	prove := func(challenge string) (string, error) {
		document, err := base64.RawURLEncoding.DecodeString(challenge)
		if err != nil {
			return "", err
		}
		answer, err := json.Marshal(map[string]string{
			"did": p.did, "signature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(p.key, document)),
		})
		return base64.RawURLEncoding.EncodeToString(answer), err
	}
	client, err := bridgetest.LogInIRC(t.Context(), s.irc, nick, prove, caps...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// guest connects somebody who proves nothing, and joins the channel.
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

// sameTags returns why a message has not exactly the tags that were signed.
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

// The walkthrough of the RFC, word for word.
//
// spec: freeq-handoff-rfc "Lifecycle walkthrough"
func TestTheWalkthroughOfTheRFC(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			s := newHomeServer(t)
			eliza, scholar := newPerson(t), newPerson(t)
			voice := s.login(t, "eliza", eliza, append(agentCaps(d), "echo-message")...)
			join(t, voice)
			human := s.guest(t, "human")

			offer := d.offer(eliza, channel, extras{"to": scholar.did, "title": "Cite the 3 best sources on X"})
			send(t, voice, offer.tags)
			filed := next(t, voice, "the echo of the offer", hasEvent(offer))
			if err := sameTags(filed, offer); err != nil {
				t.Error(err)
			}
			next(t, human, "the line", isLine(offer.handoff, "eliza offers"))

			agent := s.login(t, "scholar", scholar, agentCaps(d)...)
			begin := next(t, agent, "the batch", isBatch)
			if len(begin.Params) != 2 || begin.Params[1] != "freeq.at/handoff" {
				t.Errorf("the batch begins %q", begin.Params)
			}
			replayed := next(t, agent, "the offer", hasEvent(offer))
			if err := sameTags(replayed, offer); err != nil {
				t.Error(err)
			}
			if replayed.Tags["msgid"] != filed.Tags["msgid"] || "+"+replayed.Tags["batch"] != begin.Params[0] {
				t.Errorf("replayed with %v", replayed.Tags)
			}

			accept := d.step(scholar, channel, "accept", offer.handoff, extras{"note": "on it"})
			complete := d.step(scholar, channel, "complete", offer.handoff, extras{"note": "https://gw.example/cap/def"})
			for _, answer := range []signed{accept, complete} {
				send(t, agent, answer.tags) // from outside of the channel
				if err := sameTags(next(t, voice, "the answer", hasEvent(answer)), answer); err != nil {
					t.Error(err)
				}
			}
			next(t, human, "the last line", isLine(offer.handoff, "scholar completes"))
			settled(t, voice)
			if n := len(slices.DeleteFunc(voice.Received(), func(m bridgetest.IRCMessage) bool {
				return m.Command != "TAGMSG" || m.Tags[d.name()] == "confirm" || m.Tags[vendor+"act-verb"] == "confirm"
			})); n != 0 {
				t.Errorf("%d steps came twice", n)
			}

			missed := d.offer(eliza, channel, extras{"to": scholar.did, "title": "No show", "deadline": due(past(time.Second))})
			send(t, voice, missed.tags)
			expired := next(t, voice, "the expiry", func(m bridgetest.IRCMessage) bool {
				return m.Command == "TAGMSG" && (m.Tags[vendor+"handoff"] == "expire" || m.Tags[vendor+"act-verb"] == "expire")
			})
			if expired.Nick != "Baton" {
				t.Errorf("it expires by %s", expired.Nick)
			}
		})
	}
}

// name is the tag that says that a message is a step.
func (d dialect) name() string { return vendor + string(d) }

func isBatch(m bridgetest.IRCMessage) bool {
	return m.Command == "BATCH" && strings.HasPrefix(m.Params[0], "+")
}

// settled waits until all that was sent to a client before has arrived.
func settled(t *testing.T, client *bridgetest.IRCClient) {
	t.Helper()
	if err := client.Send(nil, "PING", "settled"); err != nil {
		t.Fatal(err)
	}
	next(t, client, "a PONG", func(m bridgetest.IRCMessage) bool { return m.Command == "PONG" && slices.Contains(m.Params, "settled") })
}
