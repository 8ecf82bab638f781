package client

import (
	"context"

	"baton/bridge"
	"baton/bridge/irc"
	"baton/federation"
)

var (
	_ bridge.Teller   = (*Link)(nil)
	_ bridge.Notifier = (*Link)(nil)
)

// Tell implements [bridge.Teller]: the refusal as it would have been told at once, to
// all clients that are logged in as the signer.
func (l *Link) Tell(_ context.Context, ev federation.Event, refused *federation.RefusalError) error {
	l.tellAll(ev.Actor(), irc.Refusal(refused))
	return nil
}

// Notify implements [bridge.Notifier], in the words of a refusal.
func (l *Link) Notify(_ context.Context, n federation.Notice) error {
	return irc.Notify(l.Name(), n, func(reply irc.Reply) (bool, error) { return l.tellAll(n.Event.Actor(), reply), nil })
}

// tellAll tells all clients that are logged in as a DID, and reports whether there is one.
func (l *Link) tellAll(did federation.DID, reply irc.Reply) bool {
	s := l.live.Load()
	if s == nil {
		return false
	}
	there := make(chan bool, 1)
	return s.post(func() {
		for u := range s.accounts[did] {
			s.fail(u, "TAGMSG", reply.Code, reply.Subject, reply.Sentence)
		}
		there <- len(s.accounts[did]) > 0
	}) && <-there
}
