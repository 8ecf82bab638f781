package spanningtree

import (
	"context"
	"strings"

	"baton/bridge"
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

// Notify implements [bridge.Notifier], in the words of a refusal. A delivery shows by
// itself and needs no notice.
func (l *Link) Notify(ctx context.Context, n federation.Notice) error {
	if n.Kind == federation.NoticeDelivered {
		return nil
	}
	there, err := l.tellLater(ctx, n.Event, func(s *session, user string) {
		s.say(ctx, user, answer{
			code: strings.ToUpper(string(n.Kind)), subject: n.Event.ID.String(), sentence: n.Sentence(), ref: n.Event.Handoff.String(),
		})
	})
	if err == nil && !there {
		err = l.unavailable(errAbsent)
	}
	return err
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
