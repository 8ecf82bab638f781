package inspircd

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

var _ bridge.Relayer = (*Link)(nil)

// Relays implements [bridge.Relayer].
func (l *Link) Relays() []string { return l.relayed }

func (s *session) relayedIn(m ircmsg.Message) (here string, relayed bool) {
	venue, ok := translate.Channel(m.Params[0])
	here, ours := s.link.channels.In(venue)
	return here, ok && ours && slices.Contains(s.link.relayed, here)
}

// The network sends no text of users of this gateway.
func (s *session) onChat(ctx context.Context, m ircmsg.Message, from *user) bool {
	here, relayed := s.relayedIn(m)
	if !relayed {
		return false
	}
	if s.allow(ctx, m.Source, federation.Event{}) {
		s.enterChat(m, from, here, m.Params[1])
	}
	return true
}

func (s *session) onTags(ctx context.Context, m ircmsg.Message, from *user) {
	here, relayed := s.relayedIn(m)
	if !relayed {
		return
	}
	typing := irc.Typing(m.AllTags())
	switch {
	case irc.RefsIn(m.AllTags()).Reacts():
		if s.allow(ctx, m.Source, federation.Event{}) {
			s.enterChat(m, from, here, "")
		}
	case typing != "":
		_, messageID := m.GetTag("msgid")
		s.changedUser(from, bridge.PresenceChange{Typing: typing, Venue: here, Message: messageID})
	}
}

func (s *session) enterChat(m ircmsg.Message, from *user, here, text string) {
	s.enqueue(&inbound{user: m.Source, account: from.account, chat: &irc.Chat{
		From: from.signer, Venue: here, Command: m.Command, Text: text, Away: from.away, Line: s.reading, Refs: irc.RefsIn(m.AllTags()), Formatting: s.link.cfg.Formatting, History: s.link.cfg.History,
		Arrival: s.arrival(m, from),
	}})
}

// The author is determined as for private text.
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
		in.as = chat.From
		if in.as == "" && s.link.ports.Messages != nil {
			in.as = s.link.ports.Messages.Guest(s.link.cfg.Name, chat.Arrival.Name)
		}
		return federation.Judgement{}, irc.Relay(ctx, s.link.ports, chat)
	})
	return err
}

func (s *session) relayed(ctx context.Context, in *inbound, err error) {
	if u := s.net.users[in.user]; u != nil && err == nil && u.nick == in.chat.Arrival.Name {
		s.relayedAs(u, in.as)
	}
	switch {
	case errors.Is(err, irc.ErrNoMessageID):
		s.badInput(ctx, noMessageID, in.chat.Command)
	case in.chat.Command != "NOTICE":
		s.onTextResult(ctx, in, "", err)
	}
}

func (l *Link) chatRow(t federation.Text) *outbound {
	r := &outbound{
		from: t.Author, name: t.Arrival.Name, venue: l.channels.Out(t.Venue), msgid: t.ID.String(), event: t.ID, chat: &t, done: make(chan error, 1),
	}
	r.writeChat(l.cfg.Formatting)
	return r
}

func (r *outbound) writeChat(formatting bool) {
	if irc.IsReaction(*r.chat) {
		r.lines = []ircmsg.Message{ircmsg.MakeMessage(irc.TextTags(*r.chat, 0), "", "TAGMSG", "")}
		return
	}
	line := func(n int, command, text string) ircmsg.Message {
		m := ircmsg.MakeMessage(irc.TextTags(*r.chat, n), "", command, "", text)
		m.ForceTrailing()
		return m
	}
	command, text := irc.ChatLine(*r.chat, formatting)
	r.lines = []ircmsg.Message{line(0, command, text)}
	r.named = nil
	command, texts := irc.NamedChatLines(*r.chat, formatting)
	for n, text := range texts {
		r.named = append(r.named, line(n, command, text))
	}
}

var _ bridge.Messenger = (*Link)(nil)

func (s *session) onWords(m ircmsg.Message, from *user, to federation.DID) {
	s.enqueue(&inbound{user: m.Source, account: from.account, words: &irc.Words{
		From: from.signer, To: to, Text: m.Params[1], Line: s.reading, Refs: irc.RefsIn(m.AllTags()), Formatting: s.link.cfg.Formatting, History: s.link.cfg.History,
		Arrival: s.arrival(m, from),
	}})
}

// The sender is the DID of its account, else its last signing DID, else the gateway's DID for its
// nick.
func (s *session) speak(in *inbound) (waits string, err error) {
	_, err = s.Submit(federation.Event{}, func(ctx context.Context) (federation.Judgement, error) {
		words := *in.words
		b, err := irc.Bound(ctx, s.link.ports, s.link.cfg.Name, in.account)
		if err != nil {
			return federation.Judgement{}, err
		}
		if b.DID != "" {
			words.From = b.DID
		}
		waits, err = irc.Say(ctx, s.link.ports, words, s.link.ports.Gateway.Name(ctx, words.To))
		return federation.Judgement{}, err
	})
	return waits, err
}

func (s *session) onTextResult(ctx context.Context, in *inbound, waits string, err error) {
	switch {
	case s.net.users[in.user] == nil:
	case err != nil:
		s.notify(ctx, in.user, err)
	case waits != "":
		s.notice(ctx, in.user, waits, "")
	}
}

func (l *Link) textRow(ctx context.Context, t federation.Text) (*outbound, error) {
	to, err := l.reader(ctx, bridge.Recipient{DID: t.To, Place: t.Arrival.Place})
	if err == nil {
		t, err = irc.Answering(ctx, l.ports, l.cfg.Name, t)
	}
	if err != nil {
		return nil, err
	}
	to.holder = t.Fields[federation.Holder]
	name := l.ports.Gateway.Name(ctx, t.Author)
	r := &outbound{from: t.Author, name: name, to: []party{to}, msgid: t.ID.String(), event: t.ID, done: make(chan error, 1)}
	for i, text := range irc.TextLines(t, name, l.cfg.Nick, l.cfg.Formatting) {
		line := ircmsg.MakeMessage(irc.TextTags(t, i), "", "PRIVMSG", "", text)
		line.ForceTrailing()
		r.lines = append(r.lines, line)
	}
	return r, nil
}

// reader finds the recipient by the holder of a nick, or by a user known to be the DID. Any user
// can take a nick, so the nick of a DID is not enough.
func (l *Link) reader(ctx context.Context, to bridge.Recipient) (party, error) {
	if to.DID == l.ports.Messages.Guest(l.cfg.Name, to.Place.Venue) {
		return party{did: to.DID, nick: to.Place.Venue}, nil
	}
	return l.party(ctx, to.DID, "")
}

// Prefixes of a holder key.
const (
	ofAccount    = "account "
	ofConnection = "connection "
)

// A holder includes the time of the connection, because a server reuses its UUIDs after a restart.
func (t *tree) holder(uuid string) string {
	u := t.users[uuid]
	if u.account != "" {
		return ofAccount + u.account
	}
	return ofConnection + uuid + " " + u.signon
}

func (t *tree) held(holder string) string {
	if account, ok := strings.CutPrefix(holder, ofAccount); ok {
		return t.accounts[account]
	}
	uuid, _, _ := strings.Cut(strings.TrimPrefix(holder, ofConnection), " ")
	if u := t.users[uuid]; u == nil || ofConnection+uuid+" "+u.signon != holder {
		return ""
	}
	return uuid
}

// Deliveries to more absent recipients are only retried by a timer.
const maxMissed = 4096

func (s *session) miss(p party) {
	if len(s.missed) < maxMissed {
		s.missed[p.did] = p
	}
}

func (s *session) retryMissed() {
	for did, p := range s.missed {
		if s.find(p) != "" {
			delete(s.missed, did)
			s.RetryTexts(s.link.ports.Messages, s.link.cfg.Name, did)
		}
	}
}

// Addressee implements [bridge.Messenger].
func (l *Link) Addressee(ctx context.Context, nick string) (federation.DID, error) {
	if !irc.ValidNick(nick) {
		return "", federation.ErrNotFound
	}
	s := l.live.Load()
	if s == nil {
		return "", nil
	}
	var did federation.DID
	var account string
	s.Post(ctx, func() {
		if u := s.net.users[s.net.owner(nick)]; u != nil {
			did, account = u.signer, u.account
		}
	})
	b, err := irc.Bound(ctx, l.ports, l.cfg.Name, account)
	return cmp.Or(b.DID, did), err
}

// Here implements [bridge.Messenger].
func (l *Link) Here(ctx context.Context, to bridge.Recipient) (holder string, here bool) {
	s := l.live.Load()
	if s == nil {
		return "", false
	}
	p, err := l.reader(ctx, to)
	if err != nil {
		return "", false
	}
	s.Post(ctx, func() {
		uuid := s.net.find(p.did, p.accounts, p.nick)
		if here = uuid != ""; here && p.nick != "" {
			holder = s.net.holder(uuid)
		}
	})
	return holder, here
}
