package spanningtree

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"baton/bridge"
	"baton/bridge/irc"
	"baton/federation"
	"baton/translate"
)

var _ bridge.Relayer = (*Link)(nil)

// Relays implements [bridge.Relayer].
func (l *Link) Relays() []string { return l.relayed }

// onChat queues text in a channel that the link relays, and reports whether the message is in
// such a channel. The network brings no text of users of this gateway.
func (s *session) onChat(ctx context.Context, m ircmsg.Message, from *user) bool {
	venue, ok := translate.Channel(m.Params[0])
	here, ours := s.link.channels.In(venue)
	if !ok || !ours || !slices.Contains(s.link.relayed, here) {
		return false
	}
	if m.Command == "TAGMSG" || !s.allow(ctx, m.Source, federation.Event{}) {
		return true
	}
	_, messageID := m.GetTag("msgid")
	s.enter(&inbound{user: m.Source, account: from.account, chat: &irc.Chat{
		From: from.signer, Venue: here, Command: m.Command, Text: m.Params[1], Line: s.reading, Refs: irc.RefsIn(m.AllTags()),
		Arrival: federation.Arrival{
			Network: network, Link: s.link.cfg.Name, Name: from.nick, User: from.ident, MessageID: messageID, Received: time.Now(),
		},
	}})
	return true
}

// relay files text of a channel. Its author is the same as that of private text.
func (s *session) relay(in *inbound) error {
	_, err := s.Submit(federation.Event{}, func(ctx context.Context) (federation.Judgement, error) {
		chat := *in.chat
		b, err := irc.Bound(ctx, s.link.ports, s.link.cfg.Name, in.account)
		if err != nil {
			return federation.Judgement{}, err
		}
		if b.DID != "" {
			chat.From = b.DID
		}
		return federation.Judgement{}, irc.Relay(ctx, s.link.ports, chat)
	})
	return err
}

// relayed tells a user why its text was refused. A notice gets no answer.
func (s *session) relayed(ctx context.Context, in *inbound, err error) {
	switch {
	case errors.Is(err, irc.ErrNoMessageID):
		s.badInput(ctx, noMessageID, in.chat.Command)
	case in.chat.Command != "NOTICE":
		s.heardOut(ctx, in, err)
	}
}

// chatRow makes the row of text in a channel.
func (l *Link) chatRow(ev federation.Event) *row {
	r := &row{
		from: ev.Actor(), name: ev.Arrival.Name, venue: l.channels.Out(ev.Venue), msgid: ev.ID.String(), event: ev.ID, done: make(chan error, 1),
	}
	line := func(command, text string) []ircmsg.Message {
		m := ircmsg.MakeMessage(irc.TextTags(ev, 0), "", command, "", text)
		m.ForceTrailing()
		return []ircmsg.Message{m}
	}
	r.lines, r.named = line(irc.ChatLine(ev)), line(irc.NamedChatLine(ev))
	return r
}
