//go:build interop

package main_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// anyRate lets one DID take as many steps as a test needs.
const anyRate = "[limits]\ndid_events_per_minute = 0\n" + anyAddress

// offers makes a number of offers to a DID, each of which is filed.
func (s *homeServer) offers(t *testing.T, from *bridgetest.IRCClient, by person, to string, n int) []signed {
	t.Helper()
	var made []signed
	for i := range n {
		offer := rfcTags.offer(by, channel, extras{"to": to, "title": "Job " + strconv.Itoa(len(made)+i)})
		send(t, from, offer.tags)
		next(t, from, "the echo", hasEvent(offer))
		made = append(made, offer)
	}
	return made
}

// page reads as many steps as were offered, and returns their message ids.
func page(t *testing.T, client *bridgetest.IRCClient, offered []signed) []string {
	t.Helper()
	var ids []string
	for _, offer := range offered {
		m := next(t, client, "an offer", func(m bridgetest.IRCMessage) bool { return m.Command == "TAGMSG" })
		if m.Tags[vendor+"eventid"] != offer.event {
			t.Fatalf("%s came where %s was next", m.Tags[vendor+"eventid"], offer.event)
		}
		if err := sameTags(m, offer); err != nil {
			t.Error(err)
		}
		ids = append(ids, m.Tags["msgid"])
	}
	return ids
}

// nothing holds that no step is left for a client.
func nothing(t *testing.T, client *bridgetest.IRCClient) {
	t.Helper()
	settled(t, client)
	if steps := slices.DeleteFunc(client.Received(), func(m bridgetest.IRCMessage) bool { return m.Command != "TAGMSG" }); len(steps) != 0 {
		t.Errorf("%s is sent %d steps besides", client.Nick, len(steps))
	}
}

func isPing(m bridgetest.IRCMessage) bool { return m.Command == "PING" }

func TestReplayRepeatsAPageUntilItIsAcknowledged(t *testing.T) {
	t.Parallel()
	s := newHomeServer(t, anyRate)
	eliza, scholar := newPerson(t), newPerson(t)
	voice := s.login(t, "eliza", eliza, append(agentCaps(rfcTags), "echo-message")...)
	join(t, voice)
	offered := s.offers(t, voice, eliza, scholar.did, 60)

	muted := s.mute(t, "scholar", scholar)
	first := page(t, muted, offered[:50])
	next(t, muted, "the PING after the page", isPing)
	nothing(t, muted) // and no more without an answer
	s.kill(t)
	s.start(t)
	s.ready(t)

	agent := s.login(t, "scholar", scholar, agentCaps(rfcTags)...)
	again := page(t, agent, offered)
	if diff := cmp.Diff(first, again[:50]); diff != "" {
		t.Errorf("message ids (-first time +again):\n%s", diff)
	}
	s.read(t, "scholar", scholar)
	agent.Close()
	nothing(t, s.login(t, "scholar", scholar, agentCaps(rfcTags)...))
}

// mute connects a client that answers no PING.
func (s *homeServer) mute(t *testing.T, nick string, p person) *bridgetest.IRCClient {
	t.Helper()
	client, err := bridgetest.LogInMutedIRC(t.Context(), s.irc, nick, p.prove, "sasl", "message-tags", "batch", "server-time", "freeq.at/handoff")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// unread returns how many steps a device has not read, some if it is not known.
func (s *homeServer) unread(t *testing.T, device string, p person) int {
	t.Helper()
	out, err := s.command(t, "inbox", "show", p.did, "--device", device).Output()
	if err != nil {
		return 1 // it has not read anything
	}
	var page struct{ Items []json.RawMessage }
	if err := json.Unmarshal(out, &page); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return len(page.Items)
}

// read waits until a device has read all there is.
func (s *homeServer) read(t *testing.T, device string, p person) {
	t.Helper()
	await(t, "the inbox to be read", func() bool {
		return s.unread(t, device, p) == 0
	})
}

func TestReplayAckNamesTheLastStep(t *testing.T) {
	t.Parallel()
	s := newHomeServer(t)
	eliza, scholar := newPerson(t), newPerson(t)
	voice := s.login(t, "eliza", eliza, append(agentCaps(rfcTags), "echo-message")...)
	join(t, voice)
	offered := s.offers(t, voice, eliza, scholar.did, 4)
	muted := s.mute(t, "scholar", scholar)
	ids := page(t, muted, offered)
	if err := muted.Send(map[string]string{vendor + "handoff-ack": ids[1]}, "TAGMSG", "Baton"); err != nil {
		t.Fatal(err)
	}
	settled(t, muted)
	await(t, "the first two to be read", func() bool {
		return s.unread(t, "scholar", scholar) == 2
	})
	muted.Close()
	agent := s.login(t, "scholar", scholar, agentCaps(rfcTags)...)
	page(t, agent, offered[2:])
	s.read(t, "scholar", scholar)
	nothing(t, agent)
}

func TestReplayTreatsSessionsAsDevices(t *testing.T) {
	t.Parallel()
	s := newHomeServer(t)
	eliza, scholar := newPerson(t), newPerson(t)
	voice := s.login(t, "eliza", eliza, append(agentCaps(rfcTags), "echo-message")...)
	join(t, voice)
	first := s.offers(t, voice, eliza, scholar.did, 1)
	laptop := s.login(t, "laptop", scholar, agentCaps(rfcTags)...)
	page(t, laptop, first)
	s.read(t, "laptop", scholar)
	phone := s.login(t, "phone", scholar, agentCaps(rfcTags)...)
	nothing(t, phone) // the phone is new, and those messages were read
	live := s.offers(t, voice, eliza, scholar.did, 2)
	page(t, laptop, live)
	page(t, phone, live)
	s.read(t, "laptop", scholar)
	s.read(t, "phone", scholar)
	phone.Close()
	missed := s.offers(t, voice, eliza, scholar.did, 1)
	page(t, laptop, missed)
	s.read(t, "laptop", scholar)
	phone = s.login(t, "phone", scholar, agentCaps(rfcTags)...)
	got := page(t, phone, missed[:1])
	if len(got) != 1 {
		t.Errorf("the phone is brought %d of what it missed", len(got))
	}
}

func TestReplayRendersTheOtherDialect(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			s := newHomeServer(t)
			eliza, scholar := newPerson(t), newPerson(t)
			voice := s.login(t, "eliza", eliza, append(agentCaps(d), "echo-message")...)
			join(t, voice)
			agent := s.login(t, "scholar", scholar, agentCaps(d.other())...)
			watcher := s.guest(t, "watcher", "message-tags", "freeq.at/"+string(d.other()))
			offer := d.offer(eliza, channel, extras{"to": scholar.did, "title": "Cite"})
			send(t, voice, offer.tags)
			for _, client := range []*bridgetest.IRCClient{agent, watcher} {
				m := d.other().await(t, client, "offer", offer.handoff)
				checkVouched(t, d.other(), m, channel)
			}
		})
	}
}

func TestRefusalHasTheLabelOfItsStep(t *testing.T) {
	t.Parallel()
	s := newHomeServer(t)
	eliza, other := newPerson(t), newPerson(t)
	voice := s.login(t, "eliza", eliza, agentCaps(rfcTags)...)
	join(t, voice)
	guest := s.guest(t, "guest", "message-tags", "labeled-response", "standard-replies", "batch")
	offer := func(p person, tweak func(tags map[string]string)) map[string]string {
		tags := rfcTags.offer(p, channel, extras{"title": "x"}).tags
		if tweak != nil {
			tweak(tags)
		}
		return tags
	}
	for name, tt := range map[string]struct {
		client *bridgetest.IRCClient
		tags   map[string]string
		code   string
	}{
		"a guest's":               {guest, offer(eliza, nil), "ACCOUNT_REQUIRED"},
		"another's":               {voice, offer(other, nil), "ACTOR_MISMATCH"},
		"one that nobody signed":  {voice, offer(eliza, func(tags map[string]string) { delete(tags, vendor+"sig") }), "NEED_SIGNATURE"},
		"one that was changed":    {voice, offer(eliza, func(tags map[string]string) { tags[vendor+"handoff-task"] = "y" }), "SIGNATURE_INVALID"},
		"one in two spellings":    {voice, offer(eliza, func(tags map[string]string) { tags["freeq.at/handoff-task"] = "y" }), "DUPLICATE_TAG"},
		"of what nobody offered":  {voice, rfcTags.step(eliza, channel, "accept", "01K9ZQ0000000000000000000H", nil).tags, "UNKNOWN_HANDOFF"},
		"to a channel without it": {voice, offer(eliza, nil), ""},
	} {
		target := channel
		tt.tags["label"] = "l-" + tt.code
		if tt.code == "" {
			target, tt.code = "#nowhere", "INVALID_TARGET"
		}
		if err := tt.client.Send(tt.tags, "TAGMSG", target); err != nil {
			t.Fatal(err)
		}
		label := tt.tags["label"]
		m := next(t, tt.client, name, func(m bridgetest.IRCMessage) bool { return m.Tags["label"] == label })
		id := tt.tags[vendor+"eventid"]
		if m.Command != "FAIL" || len(m.Params) != 4 || m.Params[0] != "TAGMSG" || m.Params[1] != tt.code || m.Params[2] != id {
			t.Errorf("%s is answered %s %q", name, m.Command, m.Params)
		}
	}
}
