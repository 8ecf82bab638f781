package client

import (
	"context"
	"errors"
	"strings"

	"baton/bridge"
	"baton/federation"
)

var (
	_ bridge.Teller   = (*Link)(nil)
	_ bridge.Notifier = (*Link)(nil)
)

var errAbsent = errors.New("nobody is logged in as the signer")

// Tell implements [bridge.Teller]: the refusal as it would have been told at once, to
// all who are logged in as the signer.
func (l *Link) Tell(_ context.Context, ev federation.Event, refused *federation.RefusalError) error {
	a, _ := answerTo(refused)
	l.tellAll(ev.Actor(), a)
	return nil
}

// Notify implements [bridge.Notifier], in the words of a refusal. Of what was delivered
// nobody is told: it shows.
func (l *Link) Notify(_ context.Context, n federation.Notice) error {
	if n.Kind == federation.NoticeDelivered {
		return nil
	}
	a := answer{code: strings.ToUpper(string(n.Kind)), subject: n.Event.ID.String(), sentence: n.Sentence()}
	if !l.tellAll(n.Event.Actor(), a) {
		return l.unavailable(errAbsent)
	}
	return nil
}

// tellAll tells all who are logged in as a DID, and reports whether anybody is.
func (l *Link) tellAll(did federation.DID, a answer) bool {
	s := l.live.Load()
	if s == nil {
		return false
	}
	there := make(chan bool, 1)
	return s.post(func() {
		for u := range s.accounts[did] {
			s.fail(u, "TAGMSG", a.code, a.subject, a.sentence)
		}
		there <- len(s.accounts[did]) > 0
	}) && <-there
}
