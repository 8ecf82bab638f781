package inspircd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

func (s *session) isGuest(u *user) bool {
	return u.relayed != "" && u.relayed == s.link.ports.Messages.Guest(s.link.cfg.Name, u.nick)
}

func (s *session) relayedAs(u *user, did federation.DID) {
	if u.relayed != "" && u.relayed != did {
		s.changedUser(u, bridge.PresenceChange{Name: u.nick, Now: did})
	}
	u.relayed = did
}

func (s *session) changedUser(u *user, c bridge.PresenceChange) {
	s.announcer.Announce(s.Asking, &u.relayed, c)
}

var _ bridge.PresenceLink = (*Link)(nil)

// Follow implements [bridge.PresenceLink].
func (l *Link) Follow(ctx context.Context, c bridge.PresenceChange) {
	if s := l.live.Load(); s != nil {
		s.Post(ctx, func() { s.follow(c) })
	}
}

func (s *session) follow(c bridge.PresenceChange) {
	r := s.link.roster
	switch {
	case c.Gone:
		s.depart(c.DID)
	case c.Name != "":
		p, known := r.Move(c, func(p *pseudo) { s.quit(p, irc.LeftReason) })
		if !known {
			return
		}
		if p.given = false; !p.here {
			return
		}
		old := p.Nick
		s.net.forget(p.uuid, old) // its own nick is free to it
		if nick := s.freeNick(p); nick != old {
			s.rename(p, nick, time.Now().Unix())
			return
		}
		s.net.name(p.uuid, "", old)
	case c.Typing != "":
		s.showTyping(c)
	default:
		if p := r.Of(c.DID); p != nil {
			s.showAway(p, c.Away)
		}
	}
}

func (s *session) showAway(p *pseudo, why string) {
	if p.here && p.away != why {
		p.away = why
		s.put(":%s AWAY%s", p.uuid, awayParams(why))
	}
}

func (s *session) showTyping(c bridge.PresenceChange) {
	p, ch := s.link.roster.Of(c.DID), s.net.channels[s.link.channels.Out(c.Venue)]
	switch {
	case p == nil || ch == nil || !p.here || !p.In[ch.venue]:
	case !s.net.tagmsg || !slices.Contains(s.link.relayed, c.Venue) || s.speech(p, ch) != "":
	default:
		tags := map[string]string{irc.TypingTag: c.Typing, "msgid": federation.ChatID(c.Message).String()}
		_ = s.putMessage(ircmsg.MakeMessage(tags, p.uuid, "TAGMSG", ch.name)) // a state and a hash fit a line
	}
}

func awayParams(why string) string {
	if why == "" {
		return ""
	}
	return fmt.Sprintf(" %d :", time.Now().Unix()) + irc.Cut(irc.Plain(why), maxAwayBytes)
}

// InspIRCd has the same default.
const maxAwayBytes = 200
