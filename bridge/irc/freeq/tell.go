package freeq

import (
	"context"
	"errors"
	"strings"

	"baton/bridge"
	"baton/bridge/irc"
	"baton/federation"
)

var _ bridge.Notifier = (*Link)(nil)

// errAbsent is why a notice waits.
var errAbsent = errors.New("nobody is logged in as the signer")

// Notify implements [bridge.Notifier] with a private line from the gateway's own user: the
// network relays no NOTICE. A delivery shows by itself and needs none.
func (l *Link) Notify(ctx context.Context, n federation.Notice) error {
	s := l.live.Load()
	if n.Kind == federation.NoticeDelivered {
		return nil
	}
	told := false
	if s != nil {
		s.Post(ctx, func() { told = s.tell(n) })
	}
	if !told {
		return irc.Unavailable(l.cfg.Name, errAbsent)
	}
	return nil
}

// tell writes a notice to the signer of its step, and reports whether the signer is there.
// The target is a nick, by which the user's client knows it.
func (s *session) tell(n federation.Notice) bool {
	user := s.theirs.dids[n.Event.Actor()]
	if user == nil || s.queue.size() > maxWaiting {
		return false
	}
	text := strings.ToUpper(string(n.Kind)) + " " + n.Event.ID.String() + " " + n.Sentence()
	s.put(lines, &said{
		Type: typePrivmsg, From: s.speaker("", "", "").Nick, Target: user.nick, Text: irc.Text(text),
		Tags: map[string]string{refTag: n.Event.Handoff.String()},
	})
	return true
}
