package freeq

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"baton/bridge"
	"baton/bridge/irc"
	"baton/federation"
	"baton/translate"
)

var _ bridge.Relayer = (*Link)(nil)

// multilineTag marks a text with lines between which a backslash and an "n" stand.
//
// spec: freeq-s2s "privmsg"
const multilineTag = "+freeq.at/multiline"

// noticeMark begins text that was a notice elsewhere: a server relays no NOTICE.
const noticeMark = "[notice] "

// Relays implements [bridge.Relayer].
func (l *Link) Relays() []string { return l.relayed }

// relayed returns the channel of a text as this federation calls it, and whether the link
// relays that channel.
func (s *session) relayed(m *said) (here string, relayed bool) {
	venue, ok := translate.Channel(m.Target)
	here, ours := s.link.channels.In(venue)
	return here, ok && ours && m.Type == typePrivmsg && slices.Contains(s.link.relayed, here)
}

// onChat queues text in a channel.
func (s *session) onChat(ctx context.Context, m *said, here string) {
	if m.Text == "" || !s.allowChat(ctx, m) {
		return
	}
	line, err := json.Marshal(m)
	if err != nil {
		return // it came as JSON
	}
	text := m.Text
	if _, multiline := m.Tags[multilineTag]; multiline {
		text = strings.ReplaceAll(text, `\n`, "\n")
	}
	chat := &irc.Chat{
		Venue: here, Command: "PRIVMSG", Text: text, Line: string(line), Refs: refsIn(m.Tags),
		Arrival: federation.Arrival{Network: network, Link: s.link.cfg.Name, Name: m.From, MessageID: m.MsgID, Received: time.Now()},
	}
	if from := s.theirs.named(m.From); from != nil {
		chat.From = from.did
	}
	in := &inbound{chat: chat}
	in.ev.Handoff = federation.ChatOrder(s.link.cfg.Name, here) // the lane
	s.Steps.Add(in)
}

// allowChat counts a text against the rates of the link and of its author. It tells the author
// of the first text that is too much.
func (s *session) allowChat(ctx context.Context, m *said) bool {
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

// relay files text of a channel, and returns what the owner does with the result.
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

// chatRow makes the row of text in a channel.
func (l *Link) chatRow(ctx context.Context, ev federation.Event) (*row, error) {
	shown, err := l.signer(ctx, ev.Actor())
	return &row{step: ev.ID, did: ev.Actor(), shown: shown, name: ev.Arrival.Name, venue: l.channels.Out(ev.Venue), text: &ev, done: make(chan error, 1)}, err
}

// deliverChat queues a text in a channel. The server drops a text whose ID it has, so that each
// attempt shows it once.
func (s *session) deliverChat(r *row) {
	command, text := irc.ChatLine(*r.text)
	if command == "NOTICE" {
		text = irc.Text(noticeMark + text)
	}
	from := s.speaker(r.did, r.shown, r.name, r.venue)
	m := &said{
		Type: typePrivmsg, From: from.Nick, Target: r.venue, Text: text,
		Account: string(from.Shown), MsgID: r.step.String(), Tags: map[string]string{},
	}
	if r.text.ReplyTo != "" {
		m.Tags[irc.RefTag] = r.text.ReplyTo
	}
	s.queueProved(lines, &proof{id: m.MsgID, message: m, row: r}, "")
	if r.unproven == 0 {
		r.answer(nil) // all of it is there
	}
}
