package client

import (
	"context"
	"fmt"
	"strings"
	"time"

	"baton/bridge/irc"
	"baton/federation"
)

// toSelf has the client's reader run a command to the gateway's own user.
func (s *server) toSelf(ctx context.Context, u *user, m message) {
	if m.command != "PRIVMSG" || u.work != nil {
		return
	}
	u.spoke = m.at
	c := irc.Command{
		Text: m.params[1], Line: strings.TrimRight(string(m.line(capTags|capTime, "", m.at)), "\r\n"),
		Network: network, Link: s.link.Name(), Nick: u.nick, User: u.ident, DID: u.account,
		Lookup: s.lookup, Room: func(view federation.View) (string, error) { return s.room(u, view) },
	}
	if u.account != "" {
		c.Account = u.bound
	}
	answer := u.answer
	u.answer = nil
	u.work = func() {
		submitting, cancel := irc.Outlive(ctx)
		lines := s.link.chatops.Run(submitting, c, time.Now())
		cancel()
		s.post(func() {
			u.work, u.answer = nil, answer
			for _, line := range lines {
				s.send(u, says(s.self(), "NOTICE", u.nick, line))
			}
			s.close(u)
		})
	}
}

// lookup returns the DID of a user by its nick, or "". It may not be called by the owner.
func (s *server) lookup(nick string) federation.DID {
	found := make(chan federation.DID, 1)
	if !s.ask(func() { found <- s.addressee(nick) }) {
		return ""
	}
	return <-found
}

// room makes a new channel for the parties of a handoff, and invites the ones that are
// online. The owner must not call it.
func (s *server) room(u *user, view federation.View) (string, error) {
	type made struct {
		name string
		err  error
	}
	answer := make(chan made, 1)
	if !s.ask(func() {
		name, err := s.makeRoom(u, view)
		answer <- made{name, err}
	}) {
		return "", &federation.UnavailableError{What: "link " + s.link.Name(), Err: errNotListening}
	}
	m := <-answer
	return m.name, m.err
}

func (s *server) makeRoom(u *user, view federation.View) (string, error) {
	base := "#room-" + strings.ToLower(view.ID.Short())
	name := base
	for n := 2; s.channels[name] != nil; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	s.join(u, name, "")
	c := s.channels[name]
	if c == nil || c.members[u] == nil {
		return "", &federation.UnavailableError{What: "channel " + name, Err: errNotListening}
	}
	c.modes['i'] = true
	c.topic, c.topicBy, c.topicAt = irc.Text(view.Title), selfNick, time.Now()
	for _, did := range view.Others("") {
		if len(c.operators) < maxOperators {
			c.operators[did] = true // and may come in, whenever it is here
		}
		for party := range s.accounts[did] {
			if party != u {
				s.invite(tells(s.self(), "INVITE", party.nick, name), party, name, c)
			}
		}
	}
	return name, nil
}
