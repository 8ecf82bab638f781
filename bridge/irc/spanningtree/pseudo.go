package spanningtree

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"baton/bridge/irc"
	"baton/federation"
)

// maxPseudos bounds the pseudo-clients of one link: each is a user on their
// network, and some hundred bytes here. Beyond it the one that has been silent
// longest leaves.
const maxPseudos = 1024

// firstReturn and lastReturn bound the wait before a user that was thrown out
// comes back. It doubles with each time, so that no operator has to fight us.
const firstReturn = 5 * time.Second

const lastReturn = 5 * time.Minute

// pseudoIP is the address of users that have none. InspIRCd closes the link over
// one that it cannot parse.
const pseudoIP = "0.0.0.0"

// pseudo is one user that this gateway has on their network: itself, or somebody
// from elsewhere who speaks there. It outlives the connection, so that it comes
// back with the same id and the same age of its nick.
type pseudo struct {
	did    federation.DID
	name   string // what its nick is made of
	suffix string
	ident  string // unlike any other of ours: two users with one are taken for ghosts of each other
	real   string

	uuid   string
	nick   string
	nickTS int64 // unix seconds
	signon int64 // unix seconds

	here     bool            // introduced in this session
	channels map[string]bool // by venue: where it belongs, and whether it is there
	losses   int             // how often it was thrown out in this session
	spoke    time.Time
}

// roster is all pseudo-clients of one link.
type roster struct {
	cfg    Config
	home   federation.HomeID
	self   *pseudo // the gateway's own user
	agents map[federation.DID]*pseudo
	byUUID map[string]*pseudo
	minted int // UUIDs given out; none is used twice
}

func newRoster(cfg Config, home federation.HomeID, venues []string) *roster {
	r := &roster{cfg: cfg, home: home, agents: map[federation.DID]*pseudo{}, byUUID: map[string]*pseudo{}}
	r.self = &pseudo{
		did: home.DID(), name: cfg.Nick, ident: "baton",
		real: fmt.Sprintf("Baton, the federation gateway %s", home), channels: map[string]bool{},
	}
	for _, venue := range venues {
		r.self.channels[venue] = false
	}
	r.mint(r.self)
	return r
}

// mint gives a user a fresh UUID: six letters after our SID.
func (r *roster) mint(p *pseudo) {
	delete(r.byUUID, p.uuid)
	id := []byte(r.cfg.SID + "AAAAAA")
	for i, n := uuidBytes-1, r.minted; n > 0 && i >= sidBytes; i, n = i-1, n/26 {
		id[i] += byte(n % 26)
	}
	r.minted++
	p.uuid = string(id)
	r.byUUID[p.uuid] = p
}

// all returns the users in the order of their UUIDs, the gateway's own first.
func (r *roster) all() []*pseudo {
	users := []*pseudo{r.self}
	for _, uuid := range slices.Sorted(maps.Keys(r.byUUID)) {
		if p := r.byUUID[uuid]; p != r.self {
			users = append(users, p)
		}
	}
	return users
}

// add makes the pseudo-client of a DID.
func (r *roster) add(did federation.DID, name string) *pseudo {
	p := &pseudo{
		did: did, name: name, suffix: r.cfg.NickSuffix, ident: did.Hash(),
		real: fmt.Sprintf("%s via Baton %s", irc.Plain(name), r.home), channels: map[string]bool{},
	}
	r.agents[did] = p
	r.mint(p)
	return p
}

// quietest returns the pseudo-client that has been silent longest.
func (r *roster) quietest() *pseudo {
	return slices.MinFunc(slices.Collect(maps.Values(r.agents)), func(a, b *pseudo) int { return a.spoke.Compare(b.spoke) })
}

// remove ends a pseudo-client for good.
func (r *roster) remove(p *pseudo) {
	delete(r.agents, p.did)
	delete(r.byUUID, p.uuid)
}

// leave notes that nobody is on the network any more.
func (r *roster) leave() {
	for _, p := range r.byUUID {
		p.here, p.losses = false, 0
		p.leaveChannels()
	}
}

func (p *pseudo) leaveChannels() {
	for venue := range p.channels {
		p.channels[venue] = false
	}
}

// speaker returns the user from which a DID's step comes, on the network and, where
// the venue is a channel, there.
func (s *session) speaker(did federation.DID, name, venue string) *pseudo {
	roster := s.link.roster
	p := roster.agents[did]
	if did == roster.self.did {
		p = roster.self
	}
	if p == nil {
		if len(roster.agents) >= maxPseudos {
			s.retire(roster.quietest())
		}
		p = roster.add(did, name)
	}
	p.spoke = time.Now()
	if s.net.channels[venue] != nil && !p.channels[venue] {
		p.channels[venue] = false
	}
	s.present(p)
	return p
}

// retire takes a pseudo-client off the network for good.
func (s *session) retire(p *pseudo) {
	if p.here {
		s.put(":%s QUIT :silent for long", p.uuid)
		s.net.forget(p.uuid, p.nick)
	}
	s.link.roster.remove(p)
}

// present brings a user onto the network and into its channels, where it is not.
func (s *session) present(p *pseudo) {
	if !p.here {
		s.introduce(p)
	}
	for _, venue := range slices.Sorted(maps.Keys(p.channels)) {
		if !p.channels[venue] {
			s.join(p, venue)
		}
	}
}

// introduce brings a user onto the network: under the nick that it had, with its
// age, if that is still free.
func (s *session) introduce(p *pseudo) {
	now := time.Now().Unix()
	if p.signon == 0 {
		p.signon = now
	}
	if p.nick == "" || len(p.nick) > s.net.nickBytes || s.net.owner(p.nick) != "" {
		p.nick, p.nickTS = s.freeNick(p), now
	}
	s.net.name(p.uuid, "", p.nick)
	host := clip(string(s.link.ports.Home), s.net.hostBytes)
	s.put(":%s UID %s %d %s %s %s %s %s %d +i :%s", s.sid(), p.uuid, p.nickTS, p.nick, host, host,
		clip(p.ident, s.net.identBytes), pseudoIP, p.signon, irc.Cut(p.real, s.net.realBytes))
	p.here = true
}

// clip shortens an ASCII name.
func clip(s string, maxBytes int) string { return s[:min(len(s), maxBytes)] }

// freeNick returns the first nick of a user that nobody has. Its UUID always is
// one.
func (s *session) freeNick(p *pseudo) string {
	for nick := range irc.Nicks(p.name, p.suffix, p.did, s.net.nickBytes) {
		if s.net.owner(nick) == "" {
			return nick
		}
	}
	return p.uuid
}

// yield gives a user of ours another nick, because somebody of theirs has it.
func (s *session) yield(p *pseudo) {
	old := p.nick
	p.nick, p.nickTS = s.freeNick(p), time.Now().Unix()
	s.net.name(p.uuid, old, p.nick)
	s.put(":%s NICK %s %d", p.uuid, p.nick, p.nickTS)
}

// join brings a user into a channel. Its age is the one that the peer told, or now
// for a new channel: a lower one would take the channel from those who have it.
//
// spec: InspIRCd spanning tree 1205, "FJOIN"
func (s *session) join(p *pseudo, venue string) {
	ch := s.net.channels[venue]
	if ch.ts == 0 {
		ch.ts = time.Now().Unix()
	}
	s.put(":%s FJOIN %s %d + :,%s:%d", s.sid(), ch.name, ch.ts, p.uuid, s.memberships)
	s.memberships++
	p.channels[venue] = true
}

// occupied reports whether a user of ours is in a channel.
func (s *session) occupied(venue string) bool {
	for _, p := range s.link.roster.byUUID {
		if p.channels[venue] {
			return true
		}
	}
	return false
}

// thrownOut makes a user come back after a while. It comes back at once when a
// step of its is to be delivered.
func (s *session) thrownOut(p *pseudo) {
	wait := min(firstReturn<<min(p.losses, 16), lastReturn)
	p.losses++
	time.AfterFunc(wait, func() {
		s.Post(s.Submitting, func() { s.comeBack(p) })
	})
}

// comeBack ends a wait. The user may have been retired in the meantime.
func (s *session) comeBack(p *pseudo) {
	if s.link.roster.byUUID[p.uuid] == p {
		s.present(p)
	}
}
