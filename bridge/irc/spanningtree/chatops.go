package spanningtree

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"baton/bridge/irc"
	"baton/federation"
)

// maxRooms bounds the channels that the gateway's user has opened for handoffs and is
// still in: for one more it leaves the oldest, which lasts while another user is
// there.
const maxRooms = 64

// onText queues text in a channel that the link relays, a command that a user writes to the
// gateway's own user, or text that it writes to a pseudo-client. The last two run in the order of the user's steps.
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
	s.enter(&inbound{user: m.Source, command: &irc.Command{
		Text: m.Params[1], Line: s.reading, Network: network, Link: s.link.cfg.Name,
		Nick: from.nick, User: from.ident, Account: from.account,
		Lookup: func(nick string) federation.DID { return s.lookup(s.Submitting, nick) },
		Room:   func(view federation.View) (string, error) { return s.room(s.Submitting, m.Source, view) },
	}})
}

// lookup returns the DID of a user on this network by its nick, or "": that of a user of
// ours, else that of the account of a user of the network, else the one that it signed last as.
func (s *session) lookup(ctx context.Context, nick string) federation.DID {
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
	if b, err := irc.Bound(ctx, s.link.ports, s.link.cfg.Name, account); err == nil && b.DID != "" {
		return b.DID
	}
	return did
}

// room opens a channel on this network for a handoff, in which the gateway's user is,
// and invites the user with that UUID and all other parties that are here.
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

// here returns the users of the network that are parties.
func (s *session) here(parties []party) []string {
	var found []string
	for _, p := range parties {
		found = append(found, s.net.find(p.did, p.accounts, ""))
	}
	return found
}

// room is a channel that the gateway's user opened in this session.
type room struct {
	name string
	ts   int64 // when, unix seconds
}

// reply sends the reply to a command to its user, if it is still there.
func (s *session) reply(ctx context.Context, uuid string, text []string) {
	for _, line := range text {
		if s.net.users[uuid] != nil {
			s.notice(ctx, uuid, line, "")
		}
	}
}
