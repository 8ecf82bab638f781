package freeq

import (
	"maps"
	"slices"
	"time"

	"baton/bridge/irc"
	"baton/federation"
)

// maxAgents bounds the users that this gateway has on one server. Beyond it the one
// that has been silent longest leaves.
const maxAgents = 1024

// maxNickBytes bounds a nick of ours.
//
// spec: freeq-s2s "join"
const maxNickBytes = 64

// agent is a user that this gateway has on their server: somebody from elsewhere who
// speaks there, or the gateway itself. It outlives the connection.
type agent struct {
	did   federation.DID // as which its steps are signed there; empty of the gateway itself
	name  string         // what its nick is made of
	nick  string
	in    map[string]bool // by venue: where it belongs, and whether it is there
	spoke time.Time
}

// roster is all users of ours on one server. It is owned by the goroutine in Run.
type roster struct {
	suffix string
	self   *agent
	agents map[federation.DID]*agent
}

func newRoster(suffix string, venues []string) *roster {
	r := &roster{
		suffix: suffix, agents: map[federation.DID]*agent{},
		self: &agent{name: "Baton", in: map[string]bool{}},
	}
	for _, venue := range venues {
		r.self.in[venue] = false
	}
	return r
}

// all returns the users in the order of their DIDs, the gateway first.
func (r *roster) all() []*agent {
	users := []*agent{r.self}
	for _, did := range slices.Sorted(maps.Keys(r.agents)) {
		users = append(users, r.agents[did])
	}
	return users
}

// leave notes that nobody of ours is there any more.
func (r *roster) leave() {
	for _, a := range r.all() {
		for venue := range a.in {
			a.in[venue] = false
		}
	}
}

// named returns our user with a nick, or nil.
func (r *roster) named(nick string) *agent {
	for _, a := range r.all() {
		if fold(a.nick) == fold(nick) {
			return a
		}
	}
	return nil
}

// quietest returns the user that has been silent longest.
func (r *roster) quietest() *agent {
	return slices.MinFunc(slices.Collect(maps.Values(r.agents)), func(a, b *agent) int { return a.spoke.Compare(b.spoke) })
}

// speaker returns the user from which a step comes, in the channel where it is
// written.
func (s *session) speaker(did federation.DID, name, venue string) *agent {
	r := s.link.roster
	a := r.agents[did]
	if did == "" {
		a = r.self
	}
	if a == nil {
		if len(r.agents) >= maxAgents {
			s.retire(r.quietest())
		}
		a = &agent{did: did, name: name, in: map[string]bool{}}
		r.agents[did] = a
	}
	a.spoke = time.Now()
	if _, belongs := a.in[venue]; !belongs && slices.Contains(s.link.channels.There(), venue) {
		a.in[venue] = false
	}
	s.present(a)
	return a
}

// present brings a user into its channels, where it is not. A nick that somebody of
// theirs has is no nick for ours: a server keeps the users of others by nick alone.
func (s *session) present(a *agent) {
	if a.nick == "" || s.theirs.named(a.nick) != nil {
		s.rename(a)
	}
	for _, venue := range slices.Sorted(maps.Keys(a.in)) {
		if !a.in[venue] {
			s.join(a, venue)
		}
	}
}

// rename gives a user of ours the first nick that is free. It leaves its channels
// under the old one and comes back: a nick_change would reach whoever has that nick.
func (s *session) rename(a *agent) {
	for venue, there := range a.in {
		if there {
			s.put(lines, &member{Type: typePart, Nick: a.nick, Channel: venue})
			a.in[venue] = false
		}
	}
	did := a.did
	if did == "" {
		did = s.link.deps.Home.DID()
	}
	for nick := range irc.Nicks(a.name, s.link.roster.suffix, did, maxNickBytes) {
		if a.nick = nick; s.theirs.named(nick) == nil && s.link.roster.only(a) {
			return
		}
	}
}

// only reports whether no other user of ours has the nick of one.
func (r *roster) only(a *agent) bool {
	for _, each := range r.all() {
		if each != a && fold(each.nick) == fold(a.nick) {
			return false
		}
	}
	return true
}

// join brings a user into a channel, before what it says there: a step needs no
// member. The gateway itself has no DID there: a did:web is a server's on this network,
// and no user's.
func (s *session) join(a *agent, venue string) {
	m := &member{Type: typeJoin, Nick: a.nick, Channel: venue, ActorClass: "agent"}
	if a.did != "" {
		did := string(a.did)
		m.DID = &did
	}
	s.put(lines, m)
	a.in[venue] = true
}

// retire takes a user off their server for good.
func (s *session) retire(a *agent) {
	s.put(lines, &member{Type: typeQuit, Nick: a.nick, Reason: "silent for long"})
	delete(s.link.roster.agents, a.did)
}

// state is our sync_response: who of ours is where, with the modes that the peer told
// us, because it takes over what it is told.
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
		for _, a := range s.link.roster.all() {
			if a.in[venue] {
				channel.Members = append(channel.Members, a.describe())
			}
		}
		if len(channel.Members) > 0 {
			m.Channels = append(m.Channels, channel)
		}
	}
	return m
}

func (a *agent) describe() nickInfo {
	class := "agent"
	described := nickInfo{Nick: a.nick, ActorClass: &class}
	if a.did != "" {
		did := string(a.did)
		described.DID = &did
	}
	return described
}
