package freeq

import (
	"encoding/json"
	"time"

	"baton/bridge/irc"
	"baton/federation"
)

// toSelf reports whether a message is addressed to the gateway's own user.
func (s *session) toSelf(m *said) bool {
	self := s.link.roster.Self.Nick
	return self != "" && fold(m.Target) == fold(self)
}

// onCommand queues a command to the gateway's own user. A user that is not logged in gets
// no reply: neither is the own user of another gateway, and two of them would answer each
// other for ever.
func (s *session) onCommand(m *said) {
	from := s.theirs.named(m.From)
	if from == nil || from.did == "" || m.Text == "" || s.Steps.Full() {
		return
	}
	if ok, _ := from.meter.Take(s.link.deps.Limits.Current().UserEventsPerMinute, time.Now()); !ok {
		s.link.deps.Metrics.Limited.WithLabelValues(network).Inc()
		return
	}
	line, err := json.Marshal(m)
	if err != nil {
		return // it came as JSON
	}
	s.Steps.Add(&inbound{command: &irc.Command{
		Text: m.Text, Line: string(line), Network: network, Link: s.link.cfg.Name,
		Nick: from.nick, Account: string(from.did), DID: from.did, Lookup: s.lookup,
	}})
}

// lookup returns the DID of a user on this network by its nick, or "". It is called by a
// judge.
func (s *session) lookup(nick string) (did federation.DID) {
	s.Do(func() {
		if p := s.theirs.named(nick); p != nil {
			did = p.did
		} else if p := s.link.named(nick); p != nil {
			did = p.DID
		}
	})
	return did
}

// reply sends the reply to a command to its user, if it is still there. The network
// relays no NOTICE: the lines are private messages.
func (s *session) reply(to string, text []string) {
	user := s.theirs.named(to)
	if user == nil || s.queue.size() > maxWaiting {
		return
	}
	for _, text := range text {
		s.put(lines, &said{Type: typePrivmsg, From: s.self().Nick, Target: user.nick, Text: text, Tags: map[string]string{}})
	}
}
