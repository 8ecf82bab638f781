package freeq

import (
	"slices"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// spec: freeq-s2s "join"
const maxNickBytes = 64

// On this network a did:web belongs to a server, so the gateway's own user has no DID.
func newRoster(venues []string) *irc.Roster[*irc.PseudoClient] {
	return irc.NewRoster(&irc.PseudoClient{Name: "Baton"}, venues)
}

func (l *Link) named(nick string) *irc.PseudoClient {
	for _, p := range l.roster.All() {
		if fold(p.Nick) == fold(nick) {
			return p
		}
	}
	return nil
}

func (s *session) self() *irc.PseudoClient { return s.speaker("", "", "", "") }

// A user keeps its first DID, and is renamed if the gateway later receives its name.
func (s *session) speaker(did, shown federation.DID, name, venue string) *irc.PseudoClient {
	p := s.link.roster.Speaker(did, venue, func() *irc.PseudoClient { return &irc.PseudoClient{Name: name, Shown: shown} }, s.retire)
	if did != "" && p.Name != name && name != did.Short() {
		p.Name = name
		if p.Nick != "" {
			s.rename(p)
		}
	}
	s.present(p)
	return p
}

// A server distinguishes the users of its peers only by nick, so our users never get the nick of a
// user of the server.
func (s *session) present(p *irc.PseudoClient) {
	if p.Nick == "" || s.theirs.named(p.Nick) != nil {
		s.rename(p)
	}
	for _, venue := range p.Missing() {
		if s.made[venue] {
			s.join(p, venue)
		}
	}
}

// A server gives operator status to the first user of a channel only if that user creates it.
func (s *session) joinChannel(channel string) {
	venue, _ := translate.Channel(channel)
	if s.made[venue] || s.modes[venue] == nil {
		return
	}
	s.made[venue] = true
	for _, p := range s.link.roster.All() {
		s.present(p)
	}
}

// The user leaves and rejoins its channels, because a nick_change would reach the other user with
// that nick.
func (s *session) rename(p *irc.PseudoClient) {
	for venue, there := range p.In {
		if there {
			s.put(lines, &member{Type: typePart, Nick: p.Nick, Channel: venue})
			p.In[venue] = false
		}
	}
	did := p.DID
	if did == "" {
		did = s.link.deps.Home.DID()
	}
	for nick := range irc.Nicks(p.Name, s.link.cfg.NickSuffix, did, maxNickBytes) {
		if p.Nick = nick; s.theirs.named(nick) == nil && s.link.only(p) {
			return
		}
	}
}

func (l *Link) only(p *irc.PseudoClient) bool {
	return !slices.ContainsFunc(l.roster.All(), func(other *irc.PseudoClient) bool {
		return other != p && fold(other.Nick) == fold(p.Nick)
	})
}

// Only lines require membership.
func (s *session) join(p *irc.PseudoClient, venue string) {
	m := &member{Type: typeJoin, Nick: p.Nick, Channel: venue, ActorClass: "agent"}
	if p.Shown != "" {
		did := string(p.Shown)
		m.DID = &did
	}
	s.put(lines, m)
	p.In[venue] = true
}

func (s *session) retire(p *irc.PseudoClient) { s.quit(p, "silent for long") }

func (s *session) depart(did federation.DID) {
	s.link.roster.Remove(did, func(p *irc.PseudoClient) { s.quit(p, irc.LeftReason) })
}

func (s *session) quit(p *irc.PseudoClient, reason string) {
	s.put(lines, &member{Type: typeQuit, Nick: p.Nick, Reason: reason})
}

// The peer adopts the modes that it receives, so the state repeats the modes of the peer.
//
// spec: freeq-s2s "sync_response"
func (s *session) state() *syncResponse {
	m := &syncResponse{Type: typeSyncResponse, ServerID: s.link.id, Channels: []channelState{}}
	for _, venue := range s.link.channels.There() {
		channel := channelState{
			Name: venue, Nicks: []string{}, Members: []nickInfo{}, Ops: []string{},
			Bans: []any{}, Invites: []any{}, Exceptions: []any{},
		}
		known := s.modes[venue]
		if known == nil {
			continue
		}
		channel.TopicLocked, channel.InviteOnly, channel.NoExternal = known.TopicLocked, known.InviteOnly, known.NoExternal
		channel.Moderated, channel.Key = known.Moderated, known.Key
		for _, p := range s.link.roster.All() {
			if p.In[venue] {
				channel.Members = append(channel.Members, describe(p))
			}
		}
		if len(channel.Members) > 0 {
			m.Channels = append(m.Channels, channel)
		}
	}
	return m
}

func describe(p *irc.PseudoClient) nickInfo {
	class := "agent"
	described := nickInfo{Nick: p.Nick, ActorClass: &class}
	if p.Shown != "" {
		did := string(p.Shown)
		described.DID = &did
	}
	return described
}
