package spanningtree

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

// Tell implements [bridge.Teller]: a NOTICE to the user that signed last as the DID,
// else to the one with the nick that did.
func (l *Link) Tell(ctx context.Context, ev federation.Event, refused *federation.RefusalError) error {
	_, err := l.tellLater(ctx, ev, func(s *session, user string) { s.tell(ctx, user, refused) })
	return err
}

// Notify implements [bridge.Notifier], in the words of a refusal.
func (l *Link) Notify(ctx context.Context, n federation.Notice) error {
	return irc.Notify(l.cfg.Name, n, func(reply irc.Reply) (bool, error) {
		return l.tellLater(ctx, n.Event, func(s *session, user string) { s.notice(ctx, user, reply.Text(), reply.Ref) })
	})
}

// tellLater has the session tell the signer of a step, and reports whether that is there.
func (l *Link) tellLater(ctx context.Context, ev federation.Event, tell func(s *session, user string)) (there bool, err error) {
	s := l.live.Load()
	if s == nil {
		return false, nil
	}
	signer, err := l.party(ctx, ev.Actor(), ev.Arrival.Name)
	if err != nil {
		return false, err
	}
	s.Post(ctx, func() {
		user := s.net.find(signer.did, signer.accounts, signer.nick)
		if there = user != ""; there {
			tell(s, user)
		}
	})
	return there, nil
}
