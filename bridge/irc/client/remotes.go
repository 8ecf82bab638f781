package client

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

// remotes are the users of other networks in the channels in which they spoke. They have no
// connection.
type remotes struct {
	users map[federation.DID]*user
	wants map[*user]string // preferred nick of a user under another nick
	moves irc.Moves
}

// Above the limit, the least recently active user leaves.
const maxRemotes = 4096

func (s *server) speaker(did federation.DID, name string) string {
	if did == s.link.ports.Home.DID() {
		return s.self()
	}
	for u := range s.accounts[did] {
		if u.welcome {
			return u.mask()
		}
	}
	return s.remote(did, name).mask()
}

func (s *server) remote(did federation.DID, name string) *user {
	now := time.Now()
	did, name = s.remotes.moves.Now(did, name)
	u := s.remotes.users[did]
	if u == nil {
		if len(s.remotes.users) >= maxRemotes {
			silent := slices.MinFunc(slices.Collect(maps.Values(s.remotes.users)), func(a, b *user) int { return a.spokeAt().Compare(b.spokeAt()) })
			s.removeRemote(silent, "silent for long")
		}
		u = newUser("", bridge.SubnetOf(""))
		u.remote, u.welcome, u.since = did, true, now
		u.ident, u.host, u.real = did.Hash()[:maxIdentBytes], s.name, irc.Cut(irc.Plain(name), maxRealBytes)
		s.remotes.users[did] = u
		s.nameRemote(u, name)
		s.notifyWatchers(u, true)
	}
	u.spoke = now
	return u
}

func (s *server) nameRemote(u *user, name string) {
	best, nick := "", ""
	for nick = range irc.Nicks(name, "", u.remote, maxNickBytes) {
		if best == "" {
			best = nick
		}
		if owner := s.nicks[fold(nick)]; (owner == nil || owner == u) && fold(nick) != fold(selfNick) {
			break
		}
	}
	if s.nicks[fold(u.nick)] == u {
		delete(s.nicks, fold(u.nick))
	}
	u.nick, s.nicks[fold(nick)] = nick, u
	if delete(s.remotes.wants, u); best != nick {
		s.remotes.wants[u] = best
	}
}

func (s *server) renameRemote(u *user, name string) {
	before := *u
	s.nameRemote(u, name)
	if u.nick == before.nick {
		return
	}
	s.spread(before.textMessage("NICK", u.nick), s.neighbours(u, false))
	s.notifyWatchers(&before, false)
	s.notifyWatchers(u, true)
}

func (s *server) release(nick string) {
	for u, want := range s.remotes.wants {
		if fold(want) == fold(nick) {
			s.renameRemote(u, want)
			return
		}
	}
}

func (s *server) yield(nick string, to *user) {
	u := s.nicks[fold(nick)]
	if u == nil || u.remote == "" {
		return
	}
	s.nicks[fold(nick)] = to
	s.renameRemote(u, nick)
}

func (s *server) seat(u *user, venue string, c *channel) {
	if c.members[u] != nil {
		return
	}
	c.members[u], u.channels[venue] = &member{}, c
	s.spread(u.newMessage("JOIN", c.name, u.accountName(), u.real).text(), having(capExtendedJoin, c.others(u)))
	s.spread(u.newMessage("JOIN", c.name), lacking(capExtendedJoin, c.others(u)))
	if u.away != "" {
		s.spread(u.textMessage("AWAY", u.away), having(capAwayNotify, c.others(u)))
	}
}

func (s *server) removeRemote(u *user, reason string) {
	s.spread(u.textMessage("QUIT", reason), s.neighbours(u, false))
	for venue, c := range u.channels {
		s.depart(u, venue, c)
	}
	delete(s.nicks, fold(u.nick))
	delete(s.remotes.users, u.remote)
	delete(s.remotes.wants, u)
	s.notifyWatchers(u, false)
}

var _ bridge.PresenceLink = (*Link)(nil)

// Follow implements [bridge.PresenceLink].
func (l *Link) Follow(_ context.Context, c bridge.PresenceChange) {
	if s := l.live.Load(); s != nil {
		s.ask(func() { s.follow(c) })
	}
}

func (s *server) follow(c bridge.PresenceChange) {
	u := s.remotes.users[c.DID]
	if c.Name != "" {
		s.remotes.moves.Add(c)
	}
	switch {
	case u == nil:
	case c.Gone:
		s.removeRemote(u, irc.LeftReason)
	case c.Name != "":
		if other := s.remotes.users[c.Now]; other != nil && other != u {
			s.removeRemote(other, irc.LeftReason)
		}
		delete(s.remotes.users, c.DID)
		u.remote, s.remotes.users[c.Now] = c.Now, u
		s.renameRemote(u, c.Name)
	case c.Typing != "":
		if ch := s.channels[c.Venue]; ch != nil && ch.members[u] != nil && slices.Contains(s.link.relayed, c.Venue) && ch.speaks(u) {
			m := u.newMessage("TAGMSG", ch.name)
			m.tags, m.msgid = map[string]string{irc.TypingTag: c.Typing}, federation.ChatID(c.Message).String()
			s.spread(m, having(capTags, ch.everyone))
		}
	default:
		s.setAway(u, c.Away)
	}
}

func (s *server) setAway(u *user, why string) {
	if why = irc.Cut(irc.Plain(why), maxAwayBytes); why == u.away {
		return
	}
	u.away = why
	notice := u.newMessage("AWAY")
	if why != "" {
		notice = u.textMessage("AWAY", why)
	}
	s.spread(notice, having(capAwayNotify, s.observers(u, false)))
}

func (s *server) remoteDIDs() []federation.DID { return slices.Collect(maps.Keys(s.remotes.users)) }

func (s *server) departRemote(did federation.DID) {
	if u := s.remotes.users[did]; u != nil {
		s.removeRemote(u, irc.LeftReason)
	}
}

func (s *server) local(nick string) *user {
	if u := s.nicks[fold(nick)]; u != nil && u.remote == "" {
		return u
	}
	return nil
}

func (s *server) remoteOf(nick string) federation.DID {
	if u := s.nicks[fold(nick)]; u != nil {
		return u.remote
	}
	return ""
}

func (s *server) changed(u *user, c bridge.PresenceChange) {
	s.announce(&u.relayed, c)
}

func (s *server) relayedAs(u *user) federation.DID {
	if u.account != "" {
		return u.account
	}
	return s.link.ports.Messages.Guest(s.link.Name(), u.nick)
}

func (s *server) renamed(u *user) {
	if u.relayed != "" {
		s.changed(u, bridge.PresenceChange{Name: u.nick, Now: s.relayedAs(u)})
	}
}
