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

// errAbsent is why somebody is told later.
var errAbsent = errors.New("nobody is logged in as the signer")

// word is what a user of theirs is told.
type word struct {
	to   federation.DID
	text string
	ref  federation.HandoffID
	said chan<- bool // has room for whether the user was there
}

// Notify implements [bridge.Notifier]: a private line from the gateway's own user. The
// network has nothing for a refusal and relays no NOTICE; a line is what its users see. Of
// what was delivered the user is not told: it shows.
func (l *Link) Notify(ctx context.Context, n federation.Notice) error {
	if n.Kind == federation.NoticeDelivered {
		return nil
	}
	text := strings.ToUpper(string(n.Kind)) + " " + n.Event.ID.String() + " " + n.Sentence()
	if !l.pass(ctx, word{to: n.Event.Actor(), text: text, ref: n.Event.Handoff}) {
		return irc.Unavailable(l.cfg.Name, errAbsent)
	}
	return nil
}

// pass hands a word to the session, and reports whether its user was there.
func (l *Link) pass(ctx context.Context, w word) bool {
	s := l.live.Load()
	if s == nil {
		return false
	}
	said := make(chan bool, 1)
	w.said = said
	select {
	case s.words <- w:
		return <-said // at once
	case <-s.over:
	case <-ctx.Done():
	}
	return false
}

// tell says a word to a user, if it is there: to its nick, which its own client knows it
// by. A server shows it to nobody else.
func (s *session) tell(w word) {
	user := s.theirs.dids[w.to]
	if user == nil || s.queue.size() > maxWaiting {
		w.said <- false
		return
	}
	s.put(lines, &said{
		Type: typePrivmsg, From: s.speaker("", "", "").nick, Target: user.nick, Text: irc.Text(w.text),
		Tags: map[string]string{refTag: w.ref.String()},
	})
	w.said <- true
}
