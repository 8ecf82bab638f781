package client

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

func (s *server) toSelf(ctx context.Context, u *user, m message) {
	if m.command != "PRIVMSG" || u.work != nil {
		return
	}
	u.spoke = m.at
	c := irc.Command{
		Text: clean(m.params[1]), Line: strings.TrimRight(string(m.line(capTags|capTime, "", m.at)), "\r\n"),
		Network: network, Link: s.link.Name(), Nick: u.nick, User: u.ident, DID: u.account,
		Lookup: s.lookup, Room: func(view federation.View) (string, error) { return s.room(u, view) },
	}
	if u.account != "" {
		c.Account, c.Proved, c.Secret = u.bound, true, u.secret()
	}
	answer := u.answer
	u.answer = nil
	u.work = func() {
		submitting, cancel := irc.WithGrace(ctx)
		lines := s.link.chatops.Run(submitting, c, time.Now())
		cancel()
		s.post(func() {
			u.work, u.answer = nil, answer
			for _, line := range lines {
				s.send(u, textMessage(s.self(), "NOTICE", u.nick, line))
			}
			s.close(u)
		})
	}
}

// lookup returns "" for an unknown nick. The owner must not call it.
func (s *server) lookup(nick string) (federation.DID, error) {
	found := make(chan federation.DID, 1)
	if !s.ask(func() { found <- s.addressee(nick) }) {
		return "", nil
	}
	return <-found, nil
}

// The owner must not call room.
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
			c.operators[did] = true // may join too
		}
		for party := range s.accounts[did] {
			if party != u {
				s.invite(newMessage(s.self(), "INVITE", party.nick, name), party, name, c)
			}
		}
	}
	return name, nil
}

var _ bridge.Notifier = (*Link)(nil)

// Notify implements [bridge.Notifier] for messages. Clients read step outcomes from their inbox.
func (l *Link) Notify(ctx context.Context, n federation.Notice) error {
	reply, has := irc.NoticeReply(n)
	if n.Text == nil || !has {
		return nil
	}
	s := l.live.Load()
	if s == nil {
		return l.unavailable(errNotListening)
	}
	return s.show(ctx, func(shown chan<- error) { s.showNotice(n, reply, shown) })
}

func (s *server) showNotice(n federation.Notice, reply irc.Reply, shown chan<- error) {
	authors := s.authors(*n.Text)
	if len(authors) == 0 {
		shown <- s.link.unavailable(errAway)
		return
	}
	for _, u := range authors {
		s.put(u, textMessage(s.self(), "NOTICE", u.nick, reply.Text()), "")
	}
	s.prove(authors[0], "notice-"+string(n.Kind)+"-"+n.About().String(), shown)
}

func (s *server) authors(t federation.Text) []*user {
	var all []*user
	for u := range s.accounts[t.Author] {
		all = append(all, u)
	}
	u := s.local(t.Arrival.Name)
	isGuest := t.Author == s.link.ports.Messages.Guest(s.link.Name(), t.Arrival.Name)
	if len(all) == 0 && u != nil && u.welcome && isGuest {
		all = append(all, u)
	}
	return all
}

func (s *server) refuse(ctx context.Context, u *user, err error) {
	s.link.replies.LogRefusal(ctx, err)
	s.notify(ctx, u, err)
}

func (s *server) notify(ctx context.Context, u *user, err error) {
	if reply, has := s.link.replies.To(ctx, err); has {
		s.fail(u, "TAGMSG", reply.Code, reply.Subject, reply.Sentence)
	}
}
