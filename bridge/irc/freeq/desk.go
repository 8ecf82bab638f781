package freeq

import (
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"baton/bridge/irc"
	"baton/federation"
)

// visit is what a user says in words to the gateway's own user.
type visit struct {
	nick string
	did  federation.DID // as which it is logged in, as the server says
	said string
	line string // the message
}

// toSelf reports whether something is said to the gateway's own user.
func (s *session) toSelf(m *said) bool {
	self := s.link.roster.self.nick
	return self != "" && fold(m.Target) == fold(self)
}

// onVisit takes what is said to the gateway's own user in words. Who is not logged in is
// not answered: another gateway's own user is not either, and two of them would answer
// each other for ever.
func (s *session) onVisit(m *said) {
	from := s.theirs.named(m.From)
	if from == nil || from.did == "" || m.Text == "" || s.lanes.Full() {
		return
	}
	if ok, _ := from.meter.Take(s.link.deps.Limits().UserEventsPerMinute, time.Now()); !ok {
		s.link.deps.Metrics.Limited.WithLabelValues(network).Inc()
		return
	}
	line, err := json.Marshal(m)
	if err != nil {
		return // it came as JSON
	}
	s.lanes.Add(&inbound{visit: &visit{nick: from.nick, did: from.did, said: m.Text, line: string(line)}})
}

// answer does what a visitor said, and returns what it is told. It is called by a judge.
func (s *session) answer(v *visit) []string {
	ctx := s.submitting
	b, err := s.link.deps.Bound(ctx, s.link.cfg.Name, string(v.did))
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		s.log.LogAttrs(ctx, slog.LevelError, "account not looked up", slog.Any("err", err))
	}
	lines, err := s.link.desk.Answer(ctx, irc.Visitor{
		DID: b.DID, Vouch: b.Vouch, Nick: v.nick, Line: v.line, Network: network, Link: s.link.cfg.Name, Who: s.whose,
	}, v.said, time.Now())
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "visitor not served", slog.Any("err", err))
	}
	return lines
}

// whose returns the DID of somebody on this network by nick, "" for nobody.
func (s *session) whose(nick string) federation.DID {
	found := make(chan federation.DID, 1)
	s.todo <- func() { // the owner is there until all judges are done
		var did federation.DID
		if p := s.theirs.named(nick); p != nil {
			did = p.did
		} else if a := s.link.roster.named(nick); a != nil {
			did = a.did
		}
		found <- did
	}
	return <-found
}

// tellVisitor tells a visitor what became of what it said, if it is still there: by
// lines that no other user is shown, since the network relays no NOTICE.
func (s *session) tellVisitor(v *visit, answers []string) {
	user := s.theirs.named(v.nick)
	if user == nil || s.queue.size() > maxWaiting {
		return
	}
	for _, text := range answers {
		s.put(lines, &said{Type: typePrivmsg, From: s.speaker("", "", "").nick, Target: user.nick, Text: text, Tags: map[string]string{}})
	}
}
