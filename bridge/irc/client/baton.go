package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"baton/bridge/irc"
	"baton/federation"
)

// toSelf has the gateway answer what is said to it, in the client's turn.
func (s *server) toSelf(ctx context.Context, u *user, m message) {
	if m.command != "PRIVMSG" || u.work != nil {
		return
	}
	u.spoke = m.at
	v := irc.Visitor{
		DID: u.account, Nick: u.nick, User: u.ident, Network: network, Link: s.link.Name(),
		Line: strings.TrimRight(string(m.line(capTags|capTime, "", m.at)), "\r\n"),
		Who:  func(name string) federation.DID { return s.whose(name) },
		Room: func(view federation.View) (string, error) { return s.room(u, view) },
	}
	bound, answer := u.bound, u.answer
	u.answer = nil
	u.work = func() {
		lines := s.visit(ctx, v, bound, m.params[1])
		s.post(func() {
			u.work, u.answer = nil, answer
			for _, line := range lines {
				s.send(u, says(s.self(), "NOTICE", u.nick, line))
			}
			s.close(u)
		})
	}
}

// visit answers what a client said to the gateway. It is called by its reader.
func (s *server) visit(ctx context.Context, v irc.Visitor, bound, text string) []string {
	if v.DID != "" {
		b, err := s.link.ports.Bound(ctx, s.link.Name(), bound)
		if err != nil && !errors.Is(err, federation.ErrNotFound) {
			s.log.LogAttrs(ctx, slog.LevelError, "account not looked up", slog.Any("err", err))
		}
		v.Vouch = err == nil && b.Vouch && b.DID == v.DID
	}
	submitting, cancel := irc.Outlive(ctx)
	defer cancel()
	lines, err := s.link.desk.Answer(submitting, v, text, time.Now())
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "visitor not served", slog.Any("err", err))
	}
	return lines
}

// whose returns the DID of somebody by nick, "" for nobody. It may not be called by the
// owner.
func (s *server) whose(nick string) federation.DID {
	found := make(chan federation.DID, 1)
	if !s.post(func() { found <- s.addressee(nick) }) {
		return ""
	}
	return <-found
}

// room makes a fresh channel for the parties of a handoff, and invites those who are
// here: the way from a handoff to a conversation. It may not be called by the owner.
func (s *server) room(u *user, view federation.View) (string, error) {
	type made struct {
		name string
		err  error
	}
	answer := make(chan made, 1)
	if !s.post(func() {
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
		for guest := range s.accounts[did] {
			if guest != u {
				s.invite(tells(s.self(), "INVITE", guest.nick, name), guest, name, c)
			}
		}
	}
	return name, nil
}
