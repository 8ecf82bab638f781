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

// later is what a signer is told of a step that was taken from it before.
type later struct {
	signer  party
	refused *federation.RefusalError // nil for any other notice
	notice  answer
	done    chan bool // has room for whether the signer was there
}

// Tell implements [bridge.Teller]: a NOTICE to the user that signed last as the DID,
// else to the one with the nick that did.
func (l *Link) Tell(ctx context.Context, ev federation.Event, refused *federation.RefusalError) error {
	_, err := l.tellLater(ctx, ev, later{refused: refused})
	return err
}

// Notify implements [bridge.Notifier], in the words of a refusal. Of what was delivered
// the user is not told: it shows.
func (l *Link) Notify(ctx context.Context, n federation.Notice) error {
	if n.Kind == federation.NoticeDelivered {
		return nil
	}
	there, err := l.tellLater(ctx, n.Event, later{notice: answer{
		code: strings.ToUpper(string(n.Kind)), subject: n.Event.ID.String(), sentence: n.Sentence(), ref: n.Event.Handoff.String(),
	}})
	if err == nil && !there {
		err = l.unavailable(errAbsent)
	}
	return err
}

// tellLater hands what a signer is told to the session, and reports whether the signer
// was there.
func (l *Link) tellLater(ctx context.Context, ev federation.Event, what later) (there bool, err error) {
	s := l.live.Load()
	if s == nil {
		return false, nil
	}
	if what.signer, err = l.party(ctx, ev.Actor(), ev.Arrival.Name); err != nil {
		return false, err
	}
	what.done = make(chan bool, 1)
	select {
	case s.laters <- what:
		return <-what.done, nil // at once
	case <-s.over:
	case <-ctx.Done():
	}
	return false, nil
}

// tellSigner tells a user, if it is there.
func (s *session) tellSigner(ctx context.Context, what later) {
	user := s.net.find(what.signer.did, what.signer.accounts, what.signer.nick)
	what.done <- user != ""
	switch {
	case user == "":
	case what.refused != nil:
		s.tell(ctx, user, what.refused)
	default:
		s.say(ctx, user, what.notice)
	}
}
