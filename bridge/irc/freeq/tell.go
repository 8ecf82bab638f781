package freeq

import (
	"context"

	"baton/bridge"
	"baton/bridge/irc"
	"baton/federation"
)

var _ bridge.Notifier = (*Link)(nil)

// Notify implements [bridge.Notifier] with a private line from the gateway's own user: the
// network relays no NOTICE.
func (l *Link) Notify(ctx context.Context, n federation.Notice) error {
	return irc.Notify(l.cfg.Name, n, func(reply irc.Reply) (told bool, err error) {
		if s := l.live.Load(); s != nil {
			s.Post(ctx, func() { told = s.tell(n.Event.Actor(), reply) })
		}
		return told, nil
	})
}

// tell writes a reply to the signer of a step, and reports whether the signer is there.
// The target is a nick, by which the user's client knows it.
func (s *session) tell(signer federation.DID, reply irc.Reply) bool {
	user := s.theirs.dids[signer]
	if user == nil || s.queue.size() > maxWaiting {
		return false
	}
	s.put(lines, &said{
		Type: typePrivmsg, From: s.self().Nick, Target: user.nick, Text: reply.Text(),
		Tags: map[string]string{irc.RefTag: reply.Ref},
	})
	return true
}
