package inspircd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

// To join one more channel, the gateway's user leaves the oldest. A channel exists while another user
// is in it.
const maxRooms = 64

// Commands and private text run in the order of the user's steps.
func (s *session) onText(ctx context.Context, m ircmsg.Message, from *user) {
	if len(m.Params) < 2 || m.Params[1] == "" || s.onChat(ctx, m, from) || m.Command != "PRIVMSG" {
		return
	}
	to := s.private(m.Params[0])
	if to == "" || !s.allow(ctx, m.Source, federation.Event{}) {
		return
	}
	if to != s.link.roster.Self.DID {
		s.onWords(m, from, to)
		return
	}
	s.enqueue(&inbound{user: m.Source, command: &irc.Command{
		Text: m.Params[1], Line: s.reading, Network: network, Link: s.link.cfg.Name,
		Nick: from.nick, User: from.ident, Account: from.account,
		Lookup: func(nick string) (federation.DID, error) { return s.lookup(s.Submitting, nick) },
		Room:   func(view federation.View) (string, error) { return s.room(s.Submitting, m.Source, view) },
	}})
}

// lookup returns the DID of one of our users, else that of the user's account, else that of its
// last step, else "".
func (s *session) lookup(ctx context.Context, nick string) (federation.DID, error) {
	var did federation.DID
	var account string
	s.Do(func() {
		if did = s.private(nick); did != "" {
			return
		}
		if u := s.net.users[s.net.owner(nick)]; u != nil {
			did, account = u.signer, u.account
		}
	})
	b, err := irc.Bound(ctx, s.link.ports, s.link.cfg.Name, account)
	return cmp.Or(b.DID, did), err
}

func (s *session) room(ctx context.Context, uuid string, view federation.View) (string, error) {
	var parties []party
	for _, did := range view.Others("") {
		p, err := s.link.party(ctx, did, "")
		if err != nil {
			return "", err
		}
		parties = append(parties, p)
	}
	name := "#room-" + strings.ToLower(view.ID.Short())
	var err error
	s.Do(func() { err = s.openRoom(name, uuid, parties) })
	return name, err
}

func (s *session) openRoom(name, uuid string, parties []party) error {
	if s.link.live.Load() != s {
		return irc.Disconnected(s.link.cfg.Name)
	}
	self := s.link.roster.Self
	s.present(self)
	at := slices.IndexFunc(s.rooms, func(r room) bool { return r.name == name })
	if at < 0 {
		if len(s.rooms) == maxRooms {
			s.put(":%s PART %s", self.uuid, s.rooms[0].name)
			s.rooms = s.rooms[1:]
		}
		at = len(s.rooms)
		s.rooms = append(s.rooms, room{name: name, ts: time.Now().Unix()})
		s.put(":%s FJOIN %s %d +is :,%s:%d", s.sid(), name, s.rooms[at].ts, self.uuid, s.memberships)
		s.memberships++
	}
	invited := map[string]bool{"": true}
	for _, uuid := range append([]string{uuid}, s.here(parties)...) {
		if !invited[uuid] {
			invited[uuid] = true
			s.put(":%s INVITE %s %s %d", self.uuid, uuid, name, s.rooms[at].ts)
		}
	}
	return nil
}

func (s *session) here(parties []party) []string {
	var found []string
	for _, p := range parties {
		found = append(found, s.net.find(p.did, p.accounts, ""))
	}
	return found
}

type room struct {
	name string
	ts   int64 // creation time, unix seconds
}

func (s *session) reply(ctx context.Context, uuid string, text []string) {
	for _, line := range text {
		if s.net.users[uuid] != nil {
			s.notice(ctx, uuid, line, "")
		}
	}
}

// spec: rfc2812 §3.4
func (s *session) onQuestion(_ context.Context, m ircmsg.Message) error {
	if s.net.users[m.Source] == nil {
		return nil
	}
	name := string(s.link.ports.Home)
	tell := func(numeric, format string, args ...any) {
		s.put(":%s NUM %s %s %s %s", s.sid(), s.sid(), m.Source, numeric, fmt.Sprintf(format, args...))
	}
	switch m.Command {
	case "ADMIN":
		tell("256", "%s :Administrative info", name)
		tell("257", ":Baton at %s", s.link.ports.PublicURL)
		tell("258", ":a gateway for handoffs between networks")
		tell("259", ":the operator of %s", name)
	case "INFO":
		tell("371", ":Baton, a gateway for handoffs between networks")
		tell("374", ":End of /INFO list")
	case "MOTD":
		tell("422", ":There is no message of the day")
	case "STATS":
		query := clip(m.Params[0], 1)
		tell("219", "%s :End of /STATS report", query)
	case "VERSION":
		tell("351", "Baton %s :a gateway for handoffs between networks", name)
	case "TIME":
		tell("391", "%s :%s", name, time.Now().UTC().Format(time.RFC1123))
	}
	return nil
}

func (s *session) refuse(ctx context.Context, user string, err error) {
	s.link.replies.LogRefusal(ctx, err)
	s.notify(ctx, user, err)
}

func (s *session) notify(ctx context.Context, user string, err error) {
	if reply, has := s.link.replies.To(ctx, err); has {
		s.notice(ctx, user, reply.Text(), reply.Ref)
	}
}

func (s *session) notice(ctx context.Context, user, text, ref string) {
	self := s.link.roster.Self
	s.present(self)
	if err := s.putMessage(noticeLine(self.uuid, user, text, ref)); err != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "notice not sent to user", slog.Any("err", err))
	}
}

// A FAIL, as for clients of a listener, would end a server link. The handoff reference may be empty.
func noticeLine(from, to, text, ref string) ircmsg.Message {
	line := ircmsg.MakeMessage(nil, from, "NOTICE", to, text)
	if ref != "" {
		line.SetTag(irc.RefTag, ref)
	}
	line.ForceTrailing()
	return line
}

var (
	_ bridge.RefusalNotifier = (*Link)(nil)
	_ bridge.Notifier        = (*Link)(nil)
)

// NotifyRefusal implements [bridge.RefusalNotifier] with a NOTICE to the user that last signed as the
// DID, else to the current user of its nick.
func (l *Link) NotifyRefusal(ctx context.Context, ev federation.Event, refused *federation.RefusalError) error {
	s := l.live.Load()
	if s == nil {
		return nil
	}
	signer, err := l.party(ctx, ev.Actor(), ev.Arrival.Name)
	if err != nil {
		return err
	}
	s.Post(ctx, func() {
		if user := s.net.find(signer.did, signer.accounts, signer.nick); user != "" {
			s.notify(ctx, user, refused)
		}
	})
	return nil
}

// Notify implements [bridge.Notifier], with the text of a refusal. It returns nil once the peer has
// read the NOTICE.
func (l *Link) Notify(ctx context.Context, n federation.Notice) error {
	reply, has := irc.NoticeReply(n)
	if !has {
		return nil
	}
	reader, err := l.party(ctx, n.Reader(), n.Row().Arrival.Name)
	if err != nil {
		return err
	}
	return l.pass(ctx, &outbound{
		from: l.ports.Home.DID(), to: []party{reader}, lines: []ircmsg.Message{noticeLine("", "", reply.Text(), reply.Ref)}, done: make(chan error, 1),
	})
}
