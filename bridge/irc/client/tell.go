package client

import (
	"context"

	"baton/bridge"
	"baton/bridge/irc"
	"baton/federation"
)

var _ bridge.Notifier = (*Link)(nil)

// Notify implements [bridge.Notifier] for messages, by a NOTICE to a client with the author's DID or
// nick. Clients read what became of steps from their inbox.
func (l *Link) Notify(_ context.Context, n federation.Notice) error {
	if !n.Event.IsMessage() {
		return nil
	}
	return irc.Notify(l.Name(), n, func(reply irc.Reply) (bool, error) {
		s := l.live.Load()
		if s == nil {
			return false, nil
		}
		there := make(chan bool, 1)
		posted := s.ask(func() {
			authors := s.authors(n.Event)
			for _, u := range authors {
				s.send(u, says(s.self(), "NOTICE", u.nick, reply.Text()))
			}
			there <- len(authors) > 0
		})
		return posted && <-there, nil
	})
}

// authors returns the clients of the author of a message.
func (s *server) authors(ev federation.Event) []*user {
	var all []*user
	for u := range s.accounts[ev.Actor()] {
		all = append(all, u)
	}
	u := s.nicks[fold(ev.Arrival.Name)]
	isGuest := ev.Actor() == s.link.ports.Messages.Guest(s.link.Name(), ev.Arrival.Name)
	if len(all) == 0 && u != nil && u.welcome && isGuest {
		all = append(all, u)
	}
	return all
}
