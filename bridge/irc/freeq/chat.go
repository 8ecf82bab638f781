package freeq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

var _ bridge.Relayer = (*Link)(nil)

// The lines are separated by a backslash and an "n".
//
// spec: freeq-s2s "privmsg"
const multilineTag = "+freeq.at/multiline"

// A server relays no NOTICE.
const noticeMark = "[notice] "

// Relays implements [bridge.Relayer].
func (l *Link) Relays() []string { return l.relayed }

func (s *session) relayed(m *wireMessage) (here string, relayed bool) {
	venue, ok := translate.Channel(m.Target)
	here, ours := s.link.channels.In(venue)
	return here, ok && ours && slices.Contains(s.link.relayed, here)
}

func (s *session) onChat(ctx context.Context, m *wireMessage, here string) {
	command := "PRIVMSG"
	if m.Type == typeTagmsg {
		command = "TAGMSG"
	}
	if m.Text == "" && command == "PRIVMSG" || !s.allowChat(ctx, m) {
		return
	}
	line, err := json.Marshal(m)
	if err != nil {
		return // it was parsed from JSON
	}
	text := m.Text
	if _, multiline := m.Tags[multilineTag]; multiline {
		text = strings.ReplaceAll(text, `\n`, "\n")
	}
	chat := &irc.Chat{
		Venue: here, Command: command, Text: text, Line: string(line), Refs: refsIn(m.Tags), Formatting: s.link.cfg.Formatting, History: s.link.cfg.History,
		Arrival: federation.Arrival{Network: network, Link: s.link.cfg.Name, Name: m.From, MessageID: m.MsgID, Received: time.Now()},
	}
	if from := s.theirs.named(m.From); from != nil {
		chat.From = from.did
	}
	if from := s.theirs.named(m.From); from != nil && s.link.deps.Messages != nil {
		if from.as = from.did; from.as == "" {
			from.as = s.guest(from.nick)
		}
	}
	in := &inbound{chat: chat}
	in.ev.Handoff = federation.ChatOrder(s.link.cfg.Name, here) // lane
	s.Steps.Add(in)
}

func (s *session) allowChat(ctx context.Context, m *wireMessage) bool {
	now := time.Now()
	ok, tell := !s.Steps.Full() && s.rate(now), false
	if from := s.theirs.named(m.From); ok && from != nil {
		ok, tell = from.meter.Take(s.link.deps.Limits.Current().UserEventsPerMinute, now)
	}
	if ok {
		return true
	}
	s.link.deps.Metrics.Limited.WithLabelValues(network).Inc()
	s.log.LogAttrs(ctx, slog.LevelInfo, "line of a channel is not relayed", slog.String("channel", m.Target), slog.String("reason", "too many at once"))
	if tell {
		refused := federation.Refuse(federation.Event{}, federation.RateLimited, "")
		s.reply(m.From, []string{irc.Refusal(refused).Text()})
	}
	return false
}

func (s *session) relay(ctx context.Context, in *inbound) (note func()) {
	_, err := s.Submit(federation.Event{}, func(ctx context.Context) (federation.Judgement, error) {
		return federation.Judgement{}, irc.Relay(ctx, s.link.deps.Ports, *in.chat)
	})
	return func() {
		switch {
		case errors.Is(err, irc.ErrNoMessageID):
			s.badInput(ctx, noMessageID, typePrivmsg)
		case err != nil:
			s.refuse(ctx, in, err)
		}
		if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
			s.reply(in.chat.Arrival.Name, []string{irc.Refusal(refused).Text()})
		}
		s.turn(ctx)
	}
}

func (l *Link) chatRow(ctx context.Context, t federation.Text) (*outbound, error) {
	shown, err := l.signer(ctx, t.Author)
	return &outbound{step: t.ID, did: t.Author, shown: shown, name: t.Arrival.Name, venue: l.channels.Out(t.Venue), text: &t, done: make(chan error, 1)}, err
}

// The server drops text with a known ID, so retries show it once. A reaction may not appear in a
// log, so the answer to a later request proves it. A reaction has no account tag, because a server
// drops a reaction that its account did not sign.
func (s *session) deliverChat(r *outbound) {
	if irc.IsReaction(*r.text) {
		from := s.speaker(r.did, r.shown, r.name, r.venue)
		s.put(control, &wireMessage{Type: typeTagmsg, From: from.Nick, Target: r.venue, MsgID: r.step.String(), Tags: irc.TextTags(*r.text, 0)})
		s.probe(r)
		return
	}
	command, text := irc.ChatLine(*r.text, s.link.cfg.Formatting)
	if command == "NOTICE" {
		text = noticeMark + text
	}
	from := s.speaker(r.did, r.shown, r.name, r.venue)
	m := &wireMessage{
		Type: typePrivmsg, From: from.Nick, Target: r.venue, Text: text,
		Account: string(from.Shown), MsgID: r.step.String(), Tags: irc.TextRefs(*r.text),
	}
	s.queueProved(lines, &proof{id: m.MsgID, message: m, row: r}, "")
	if r.unproven == 0 {
		r.answer(nil)
	}
}

var _ bridge.Messenger = (*Link)(nil)

var errNoGuest = errors.New("no user has that nick")

// A server relays every private message to every peer. The result is "" if the user is not ours.
func (s *session) addressed(m *wireMessage) federation.DID {
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

// An author without a shared channel counts as a guest.
func (s *session) onWords(m *wireMessage, to federation.DID) {
	if m.Text == "" || s.Steps.Full() {
		return
	}
	words := &irc.Words{To: to, Text: m.Text, Refs: refsIn(m.Tags), Formatting: s.link.cfg.Formatting, History: s.link.cfg.History, Arrival: federation.Arrival{
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
		return // it was parsed from JSON
	}
	words.Line = string(line)
	in := &inbound{words: words}
	in.ev.Handoff = federation.Conversation(words.From+federation.DID(fold(m.From)), to) // lane
	s.Steps.Add(in)
}

func (s *session) speak(ctx context.Context, in *inbound) (note func()) {
	waits := ""
	_, err := s.Submit(federation.Event{}, func(ctx context.Context) (federation.Judgement, error) {
		var err error
		waits, err = irc.Say(ctx, s.link.deps.Ports, *in.words, s.link.deps.Gateway.Name(ctx, in.words.To))
		return federation.Judgement{}, err
	})
	return func() {
		if waits != "" {
			s.reply(in.words.Arrival.Name, []string{waits})
		}
		if err != nil {
			s.refuse(ctx, in, err)
		}
		if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
			s.reply(in.words.Arrival.Name, []string{irc.Refusal(refused).Text()})
		}
		s.turn(ctx)
	}
}

func (l *Link) textRow(ctx context.Context, t federation.Text) (*outbound, error) {
	shown, err := l.signer(ctx, t.Author)
	r := &outbound{step: t.ID, did: t.Author, shown: shown, name: l.deps.Gateway.Name(ctx, t.Author), text: &t, to: t.To, done: make(chan error, 1)}
	if t.To == l.deps.Messages.Guest(l.cfg.Name, t.Arrival.Place.Venue) {
		r.to, r.guest = "", t.Arrival.Place.Venue
	}
	return r, err
}

// Clients do not fetch private history automatically, so text waits for its reader. Lines to a
// guest never appear in a log, so the answer to a later probe proves them.
func (s *session) deliverText(r *outbound) {
	if r.to != "" && s.misses(r) {
		return
	}
	var target string // nick of a guest; [session.aim] sets the target for a DID
	if r.guest != "" {
		guest := s.theirs.named(r.guest)
		if holder := r.text.Fields[federation.Holder]; holder != "" {
			guest = s.theirs.held(holder)
			if guest == nil {
				r.answer(r.text.Refuse(federation.InvalidTarget, irc.HolderLeft))
				return
			}
		}
		if guest == nil {
			r.answer(irc.Unavailable(s.link.cfg.Name, errNoGuest))
			return
		}
		target = guest.nick
	}
	from := s.speaker(r.did, r.shown, r.name, "")
	for i, text := range irc.TextLines(*r.text, r.name, s.self().Nick, s.link.cfg.Formatting) {
		id := textID(*r.text, i)
		m := &wireMessage{Type: typePrivmsg, From: from.Nick, Target: target, Text: text, Account: string(from.Shown), MsgID: id, Reader: string(r.to), Tags: irc.TextRefs(*r.text)}
		if r.guest != "" {
			s.put(control, m) // before the question
			continue
		}
		s.queueProved(lines, &proof{id: id, message: m, row: r}, "")
	}
	switch {
	case r.guest != "":
		s.probe(r)
	case r.unproven == 0:
		r.answer(nil)
	}
}

// Deliveries to more absent readers are only retried by a timer.
const maxMissed = 4096

func (s *session) misses(r *outbound) bool {
	if s.theirs.online(r.to) {
		return false
	}
	if len(s.missed) < maxMissed {
		s.missed[r.to] = true
	}
	r.answer(irc.Unavailable(s.link.cfg.Name, fmt.Errorf("%s is not logged in there", r.to)))
	return true
}

func (s *session) retryMissed() {
	for did := range s.missed {
		if s.theirs.online(did) {
			delete(s.missed, did)
			s.RetryTexts(s.link.deps.Messages, s.link.cfg.Name, did)
		}
	}
}

// The ID is deterministic, because a server drops a line with a known ID.
func textID(t federation.Text, line int) string {
	if line == 0 {
		return t.ID.String()
	}
	id := federation.Conversation(federation.DID(irc.TextID(t, line)), t.To)
	copy(id[:clockBytes], t.ID[:clockBytes])
	return id.String()
}

// Addressee implements [bridge.Messenger].
func (l *Link) Addressee(ctx context.Context, nick string) (federation.DID, error) {
	if !irc.ValidNick(nick) {
		return "", federation.ErrNotFound
	}
	var did federation.DID
	if s := l.live.Load(); s != nil {
		s.Post(ctx, func() {
			if p := s.theirs.named(nick); p != nil {
				did = p.did
			}
		})
	}
	return did, nil
}

// Here implements [bridge.Messenger].
func (l *Link) Here(ctx context.Context, to bridge.Recipient) (holder string, here bool) {
	if s := l.live.Load(); s != nil {
		s.Post(ctx, func() {
			guest := s.theirs.named(to.Place.Venue)
			if guest != nil && to.DID == l.deps.Messages.Guest(l.cfg.Name, to.Place.Venue) {
				holder = guest.holder()
			}
			here = holder != "" || s.theirs.dids[to.DID] != nil
		})
	}
	return holder, here
}
