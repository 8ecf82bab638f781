package client

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

// Tags without text are stored if they are useful later, such as a reaction.
func (s *server) keeps(m message) bool {
	_, typing := m.tags[irc.TypingTag]
	return s.link.cfg.History && (m.command != "TAGMSG" || !typing)
}

// The time is later than that of each earlier message, even if the message was delayed. A client
// that continues from any message therefore misses none.
func (c *channel) stamp(at time.Time) time.Time {
	if next := c.last.Truncate(timePrecision).Add(timePrecision); at.Before(next) {
		at = next
	}
	c.last = at
	return at
}

func lineOf(m message, place federation.ChannelRef, author, to federation.DID) federation.Line {
	l := federation.Line{
		Position: federation.Position{At: m.at}, ID: m.msgid, Place: place, Author: author, To: to,
		Command: m.command, Source: m.source, Account: m.account, Proved: m.did, Tags: m.tags,
	}
	if m.command != "TAGMSG" {
		l.Text = m.params[1]
	}
	return l
}

func (s *server) author(u *user) federation.DID {
	if u.account == "" && s.link.ports.Messages == nil {
		return ""
	}
	return s.relayedAs(u)
}

// Chat continues if the record cannot be written.
func (s *server) keep(ctx context.Context, l federation.Line) {
	if _, err := s.link.deps.Record.KeepLine(ctx, l); err != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "line not kept in the history", slog.Any("err", err))
	}
}

func (s *server) keepThen(ctx context.Context, u *user, l federation.Line, note func()) {
	s.wait(ctx, u, &later{do: func(ctx context.Context) { s.keep(ctx, l) }, note: note})
}

// keepPrivate files a line only if one of the clients has an account. Otherwise, the next user of a
// guest's nick could read the guest's messages.
func (s *server) keepPrivate(ctx context.Context, u, to *user, m message, note func()) {
	if !s.keeps(m) || u.account == "" && to.account == "" || u.work != nil && len(u.later) == 0 {
		note()
		return
	}
	author, other := s.author(u), s.author(to)
	s.keepThen(ctx, u, lineOf(m, federation.ChannelRef{Venue: federation.PrivateVenue(author, other)}, author, other), note)
}

func (s *server) keepTexts(ctx context.Context, steps []step) {
	for _, e := range steps {
		for _, l := range e.lines {
			s.keep(ctx, l)
		}
	}
}

func (s *server) loadStamps(ctx context.Context) error {
	if !s.link.cfg.History {
		return nil
	}
	for venue, c := range s.channels {
		last, err := s.link.deps.Record.Lines(ctx, federation.TimelineQuery{Place: s.bufferOf(venue, c).place, Newest: true}, 1)
		if err != nil {
			return err
		}
		for _, l := range last {
			c.last = l.Position.At
		}
	}
	return nil
}

func (s *server) renderLine(l federation.Line, target string) message {
	m := message{source: l.Source, account: l.Account, did: l.Proved, tags: l.Tags, msgid: l.ID, at: l.Position.At, command: l.Command, params: []string{target}}
	if l.Command != "TAGMSG" {
		m.params, m.trailing = append(m.params, l.Text), true
	}
	if strings.Contains(l.Text, "\n") {
		m.pieces, m.ref = inPieces(l.Text), s.reference()
	}
	return m
}

// replayOnJoin serves clients without CHATHISTORY.
func (s *server) replayOnJoin(ctx context.Context, u *user, venue string, c *channel) {
	if s.link.cfg.ReplayOnJoin == 0 || u.caps.has(capHistory) {
		return
	}
	b := s.bufferOf(venue, c)
	part := federation.TimelineQuery{Place: b.place, After: federation.Position{At: b.since}, Before: federation.Position{At: c.stamp(time.Now())}, Newest: true, TextOnly: true}
	var found []federation.Line
	s.wait(ctx, u, &later{
		do: func(ctx context.Context) {
			var err error
			if found, err = s.link.deps.Record.Lines(ctx, part, s.link.atOnce(s.link.cfg.ReplayOnJoin)); err != nil {
				s.log.LogAttrs(ctx, slog.LevelError, "history not read", slog.Any("err", err))
			}
		},
		note: func() {
			for _, l := range found {
				m := s.renderLine(l, c.name)
				if !u.caps.has(capTime) && m.command == "PRIVMSG" {
					m.params[1] = timed(m.params[1], m.at)
					if m.pieces != nil {
						m.pieces[0].text = timed(m.pieces[0].text, m.at)
					}
				}
				s.send(u, m)
			}
		},
	})
}

// timed serves clients without server-time.
func timed(text string, at time.Time) string {
	const action = "\x01ACTION "
	clock := "[" + at.UTC().Format(time.TimeOnly) + "] "
	if len(text) > len(action) && text[:len(action)] == action {
		return action + clock + text[len(action):]
	}
	return clock + text
}

func (s *server) chatLineOf(t federation.Text) (m message, place federation.ChannelRef, there bool) {
	c := s.channels[t.Venue]
	if c == nil {
		return m, place, false
	}
	m = newMessage(s.speaker(t.Author, t.Arrival.Name), "TAGMSG", c.name)
	if !irc.IsReaction(t) {
		command, text := irc.ChatLine(t, s.link.cfg.Formatting)
		m = textMessage(m.source, command, c.name, text)
	}
	m = s.byText(m, t)
	m.msgid, m.at = t.ID.String(), c.stamp(t.Arrival.Received)
	m.tags = irc.TextRefs(t)
	return m, s.bufferOf(t.Venue, c).place, true
}
