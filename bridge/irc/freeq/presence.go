package freeq

import (
	"context"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

func (s *session) changed(p *person, c bridge.PresenceChange) {
	s.announcer.Announce(s.Asking, &p.as, c)
}

func (s *session) departing(nick string, leave func()) {
	p := s.theirs.named(nick)
	if leave(); p != nil && s.theirs.named(nick) == nil {
		s.changed(p, bridge.PresenceChange{Gone: true})
	}
}

func (s *session) renamed(p *person, old string) {
	if p == nil || p.as == "" || p.nick == old {
		return
	}
	now := p.as
	if now == s.guest(old) {
		now = s.guest(p.nick)
	}
	s.changed(p, bridge.PresenceChange{Name: p.nick, Now: now})
}

func (s *session) guest(nick string) federation.DID {
	return s.link.deps.Messages.Guest(s.link.cfg.Name, nick)
}

var _ bridge.PresenceLink = (*Link)(nil)

// Follow implements [bridge.PresenceLink]. A server knows the presence of its peers' users only in
// channels.
func (l *Link) Follow(ctx context.Context, c bridge.PresenceChange) {
	if s := l.live.Load(); s != nil {
		s.Post(ctx, func() { s.follow(c) })
	}
}

// A server keeps the DID of a user. A user with another DID therefore leaves, and returns with its
// next line.
func (s *session) follow(c bridge.PresenceChange) {
	r := s.link.roster
	switch {
	case c.Gone:
		s.depart(c.DID)
	case c.Name != "" && c.Now != c.DID:
		s.depart(c.DID)
	case c.Name != "":
		p, known := r.Move(c, s.retire)
		if known && p.Nick != "" {
			s.rename(p)
			s.present(p)
		}
	}
}
