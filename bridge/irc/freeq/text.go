package freeq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"baton/bridge"
	"baton/bridge/irc"
	"baton/federation"
)

var _ bridge.Messenger = (*Link)(nil)

// errNoGuest is why text to a guest waits.
var errNoGuest = errors.New("no user has that nick")

// addressed returns the DID of our user that a message is for, "" for any other message: a server
// relays every private message to every peer.
func (s *session) addressed(m *said) federation.DID {
	if did, err := federation.ParseDID(m.Target); err == nil {
		for _, p := range s.link.roster.All() {
			if p.DID != "" && (p.DID == did || p.Shown == did) {
				return p.DID
			}
		}
		return ""
	}
	if p := s.link.named(m.Target); p != nil {
		return p.DID
	}
	return ""
}

// onWords queues private text to a user of ours. A user that no channel here has shown is a guest.
func (s *session) onWords(m *said, to federation.DID) {
	if m.Text == "" || s.Steps.Full() {
		return
	}
	words := &irc.Words{To: to, Text: m.Text, Refs: refsIn(m.Tags), Arrival: federation.Arrival{
		Network: network, Link: s.link.cfg.Name, Name: m.From, MessageID: m.MsgID, Received: time.Now(),
	}}
	if from := s.theirs.named(m.From); from != nil {
		if ok, _ := from.meter.Take(s.link.deps.Limits.Current().UserEventsPerMinute, time.Now()); !ok {
			s.link.deps.Metrics.Limited.WithLabelValues(network).Inc()
			return
		}
		words.From = from.did
	}
	line, err := json.Marshal(m)
	if err != nil {
		return // it came as JSON
	}
	words.Line = string(line)
	in := &inbound{words: words}
	in.ev.Handoff = federation.Conversation(words.From+federation.DID(fold(m.From)), to) // the lane
	s.Steps.Add(in)
}

// speak files private text, and returns what the owner does with the result.
func (s *session) speak(ctx context.Context, in *inbound) (note func()) {
	_, err := s.Submit(federation.Event{}, func(ctx context.Context) (federation.Judgement, error) {
		return federation.Judgement{}, irc.Say(ctx, s.link.deps.Ports, *in.words)
	})
	return func() {
		if err != nil {
			s.refuse(ctx, in, err)
		}
		if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
			s.reply(in.words.Arrival.Name, []string{irc.Refusal(refused).Text()})
		}
		s.turn(ctx)
	}
}

// textRow makes the row of private text.
func (l *Link) textRow(ctx context.Context, ev federation.Event) (*row, error) {
	shown, err := l.signer(ctx, ev.Actor())
	r := &row{step: ev.ID, did: ev.Actor(), shown: shown, name: l.deps.Gateway.Name(ctx, ev.Actor()), text: &ev, to: ev.To, done: make(chan error, 1)}
	if ev.To == l.deps.Messages.Guest(l.cfg.Name, ev.Arrival.Place.Venue) {
		r.to, r.guest = "", ev.Arrival.Place.Venue
	}
	return r, err
}

// deliverText queues the lines of private text once the reader is present, because clients do not
// fetch the history of private text unless asked to. Lines to a guest never appear in a log. Their
// proof is the answer to a probe sent after them.
func (s *session) deliverText(r *row) {
	if r.to != "" && s.misses(r) {
		return
	}
	var target string // of a guest: see [session.aim] for a reader with a DID
	if r.guest != "" {
		guest := s.theirs.named(r.guest)
		if guest == nil {
			r.answer(irc.Unavailable(s.link.cfg.Name, errNoGuest))
			return
		}
		target = guest.nick
	}
	from := s.speaker(r.did, r.shown, r.name, "")
	for i, text := range irc.TextLines(*r.text, r.name, s.self().Nick) {
		id := textID(*r.text, i)
		m := &said{Type: typePrivmsg, From: from.Nick, Target: target, Text: text, Account: string(from.Shown), MsgID: id, Reader: string(r.to), Tags: map[string]string{}}
		if r.text.ReplyTo != "" {
			m.Tags[irc.RefTag] = r.text.ReplyTo
		}
		if r.guest != "" {
			s.put(control, m) // before the question
			continue
		}
		s.queueProved(lines, &proof{id: id, message: m, row: r}, "")
	}
	switch {
	case r.guest != "":
		s.ask(question{row: r}, &catchupRequest{Since: farFuture, Limit: 1})
	case r.unproven == 0:
		r.answer(nil) // all of it is there
	}
}

// maxMissed bounds the absent readers that a session remembers. Deliveries to others are only
// retried by time.
const maxMissed = 4096

// misses reports whether the reader of a row is absent, and answers the row in that case.
func (s *session) misses(r *row) bool {
	if s.theirs.online(r.to) {
		return false
	}
	if len(s.missed) < maxMissed {
		s.missed[r.to] = true
	}
	r.answer(irc.Unavailable(s.link.cfg.Name, fmt.Errorf("%s is not logged in there", r.to)))
	return true
}

// meetAgain retries the deliveries whose readers returned.
func (s *session) meetAgain() {
	for did := range s.missed {
		if s.theirs.online(did) {
			delete(s.missed, did)
			s.back(did)
		}
	}
}

// back retries the pending deliveries to a DID; "" means all of the link.
func (s *session) back(did federation.DID) {
	if s.link.deps.Messages == nil {
		return
	}
	s.Running.Go(func() {
		_ = s.link.deps.Messages.Back(s.Asking, s.link.cfg.Name, did) // on an error they are retried by time
	})
}

// textID returns the message ID of a line of private text, the same one each time: a server drops
// a line whose ID it has.
func textID(ev federation.Event, line int) string {
	if line == 0 {
		return ev.ID.String()
	}
	id := federation.Conversation(federation.DID(irc.TextID(ev, line)), ev.To)
	copy(id[:clockBytes], ev.ID[:clockBytes])
	return id.String()
}

// Addressee implements [bridge.Messenger].
func (l *Link) Addressee(ctx context.Context, nick string) (federation.DID, bool) {
	if !irc.ValidNick(nick) {
		return "", false
	}
	var did federation.DID
	if s := l.live.Load(); s != nil {
		s.Post(ctx, func() {
			if p := s.theirs.named(nick); p != nil {
				did = p.did
			}
		})
	}
	return did, true
}

// Here implements [bridge.Messenger].
func (l *Link) Here(ctx context.Context, to bridge.Recipient) (here bool) {
	if s := l.live.Load(); s != nil {
		s.Post(ctx, func() {
			here = s.theirs.dids[to.DID] != nil || to.DID == l.deps.Messages.Guest(l.cfg.Name, to.Place.Venue) && s.theirs.named(to.Place.Venue) != nil
		})
	}
	return here
}
