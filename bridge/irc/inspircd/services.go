package inspircd

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/translate"
)

// InspIRCd bounds the channels of a client in the same way.
const maxVisits = 20

// Operators send the SA commands, and their own server has checked their permission.
func (s *session) onEncap(ctx context.Context, m ircmsg.Message) error {
	if to := m.Params[0]; to != s.sid() && to != "*" && to != string(s.link.ports.Home) {
		return nil
	}
	inner := ircmsg.MakeMessage(nil, m.Source, strings.ToUpper(m.Params[1]), m.Params[2:]...)
	switch inner.Command {
	case "SVSNICK", "SVSJOIN", "SVSPART":
	case "SANICK", "SAJOIN", "SAPART":
		inner.Command = "SVS" + strings.TrimPrefix(inner.Command, "SA")
		if inner.Command == "SVSNICK" {
			inner.Params = append(inner.Params, "")
		}
	default:
		return nil
	}
	return s.dispatch(ctx, inner)
}

func (s *session) ordered(ctx context.Context, m ircmsg.Message) *pseudo {
	p := s.link.roster.byUUID[m.Params[0]]
	if p == nil {
		p = s.link.roster.byUUID[s.net.owner(m.Params[0])]
	}
	if p == nil || !p.here {
		return nil
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "order of the network", slog.String("command", m.Command),
		slog.String("nick", p.Nick), slog.String("to", m.Params[1]))
	return p
}

// As on InspIRCd, a taken or malformed nick leaves the user with its UUID. An order based on an
// earlier nick of the user is void.
func (s *session) onRename(ctx context.Context, m ircmsg.Message) error {
	p := s.ordered(ctx, m)
	if p == nil {
		return nil
	}
	age, ok := unixSeconds(m.Params[2])
	if !ok {
		age = time.Now().Unix()
	}
	if was, ok := param(m, 3); ok && was != p.nickTS {
		return nil
	}
	nick := m.Params[1]
	owner := s.net.owner(nick)
	if !irc.ValidNick(nick) || len(nick) > s.net.nickBytes || owner != "" && owner != p.uuid {
		nick = p.uuid
	}
	p.given = true
	s.rename(p, nick, age)
	return nil
}

func param(m ircmsg.Message, at int) (seconds int64, ok bool) {
	if len(m.Params) <= at {
		return 0, false
	}
	return unixSeconds(m.Params[at])
}

// onBring ignores the modes of the channels.
func (s *session) onBring(ctx context.Context, m ircmsg.Message) error {
	p := s.ordered(ctx, m)
	if p == nil {
		return nil
	}
	for name := range strings.SplitSeq(m.Params[1], ",") {
		s.forceJoin(p, name)
	}
	return nil
}

func (s *session) forceJoin(p *pseudo, name string) {
	venue, is := translate.Channel(name)
	ch := s.net.channels[venue]
	switch {
	case !is || p.In[venue] || p.visits[venue]:
	case ch != nil:
		s.join(p, ch)
	case len(name) <= s.net.chanBytes && len(p.visits) < maxVisits:
		p.visits[venue] = true
		s.put(":%s FJOIN %s %d + :,%s:%d", s.sid(), name, time.Now().Unix(), p.uuid, s.memberships)
		s.memberships++
	}
}

// The user stays out until services or an invitation bring it back, or until the end of the session.
func (s *session) onTakeOut(ctx context.Context, m ircmsg.Message) error {
	p := s.ordered(ctx, m)
	if p == nil {
		return nil
	}
	for name := range strings.SplitSeq(m.Params[1], ",") {
		venue, _ := translate.Channel(name)
		switch {
		case p.In[venue]:
			s.outside(p, venue)
			p.removed[venue] = true
		case p.visits[venue]:
			delete(p.visits, venue)
		default:
			continue
		}
		s.put(":%s PART %s :ordered by the network", p.uuid, name)
	}
	return nil
}

// An invitation overrides each mode except +R.
func (s *session) onInvite(_ context.Context, m ircmsg.Message) error {
	p := s.link.roster.byUUID[m.Params[0]]
	venue, _ := translate.Channel(m.Params[1])
	ch := s.net.channels[venue]
	if p != nil && p.here && ch != nil && !p.In[venue] && !ch.rules.flags[regInviteMode] {
		s.join(p, ch)
	}
	return nil
}

// No server is behind this one, so a removal of this server ends the link.
func (s *session) onRemoteSplit(ctx context.Context, m ircmsg.Message) error {
	if name := m.Params[0]; name != string(s.link.ports.Home) && name != s.sid() {
		return nil
	}
	operator := m.Source
	if u := s.net.users[m.Source]; u != nil {
		operator = u.nick
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "taken off the network", slog.String("operator", operator))
	s.lastWord(":" + s.sid() + " SQUIT " + s.sid() + " :RSQUIT by " + operator)
	return s.lost(errors.New("an operator of the network sent RSQUIT"))
}

// A channel kept alive only by the gateway's users would have no operator, and would keep its modes
// and bans forever. The first user of the network in such a channel therefore becomes its operator.
// A channel that its last user left is recreated. In a channel that the network created, the gateway
// sets no modes of members: servers drop a mode with a newer timestamp than their own.

// Each member in the list has the form "modes,uuid:membership".
func (s *session) fill(ch *channel, list string) {
	var entered []string
	operated := len(ch.members) > 0
	for member := range strings.FieldsSeq(list) {
		modes, uuid, _ := strings.Cut(member, ",")
		uuid, _, _ = strings.Cut(uuid, ":")
		if s.net.users[uuid] != nil {
			operated = operated || strings.Contains(modes, "o")
			entered = append(entered, uuid)
			ch.members[uuid], ch.visited, ch.met = true, true, true
		}
	}
	if ch.awaited && len(entered) > 0 {
		ch.awaited = false
		s.RetryTexts(s.link.ports.Messages, s.link.cfg.Name, "")
	}
	if s.linked && ch.ours && !operated && len(entered) > 0 {
		s.put(":%s FMODE %s %d +o %s", s.sid(), ch.name, ch.ts, entered[0])
	}
}

func (s *session) onEnter(_ context.Context, m ircmsg.Message) error {
	venue, _ := translate.Channel(m.Params[0])
	if ch := s.net.channels[venue]; ch != nil {
		if ch.ts == 0 { // not described by the peer yet
			s.put(":%s RESYNC %s", s.sid(), m.Params[0])
			return nil
		}
		modes := ""
		if len(m.Params) > 3 {
			modes = m.Params[3]
		}
		s.fill(ch, modes+","+m.Source)
	}
	return nil
}

func (s *session) onPart(_ context.Context, m ircmsg.Message) error {
	venue, _ := translate.Channel(m.Params[0])
	s.left(venue, m.Source)
	return nil
}

func (s *session) left(venue, uuid string) {
	if ch := s.net.channels[venue]; ch != nil {
		delete(ch.members, uuid)
		s.remakeEmpty()
	}
}

// In a channel without users of the network, our users leave and rejoin in the same write. The
// channel ends with its last member, unless it is permanent (+P).
func (s *session) remakeEmpty() {
	for venue, ch := range s.net.channels {
		if ch.rules.limit > 0 { // there may be room now
			s.readmit(ch)
			s.changed = true
		}
		if !s.linked || !ch.visited || len(ch.members) > 0 || ch.rules.flags[permanentMode] {
			continue
		}
		ch.visited, ch.ts, ch.ours, ch.rules = false, 0, false, newRules()
		var there []*pseudo
		for _, p := range s.link.roster.All() {
			if p.In[venue] {
				there = append(there, p)
				s.put(":%s PART %s", p.uuid, ch.name)
			}
		}
		for _, p := range there {
			s.join(p, ch)
		}
		s.readmit(ch)
	}
}
