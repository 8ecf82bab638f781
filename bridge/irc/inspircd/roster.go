package inspircd

import (
	"fmt"
	"time"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

// firstReturn and lastReturn bound the wait before a removed user returns. It doubles each time, to
// avoid a fight with an operator.
const firstReturn = 5 * time.Second

const lastReturn = 5 * time.Minute

// pseudoIP is the address of users without one. InspIRCd closes the link over an unparseable address.
const pseudoIP = "0.0.0.0"

// A pseudo returns to the network with the same ID and nick timestamp.
type pseudo struct {
	irc.PseudoClient

	suffix string
	ident  string // unique among our users; otherwise one could be mistaken for a ghost of another
	real   string

	uuid   string
	nickTS int64 // unix seconds
	signon int64 // unix seconds

	// memberships are current, or those at the end of the connection, by venue.
	memberships map[string]membership
	given       bool

	// State in this session.
	here    bool
	away    string // known to the network; may be empty
	losses  int
	removed map[string]bool
	visits  map[string]bool
}

// A membership outlives a split, as on any server.
type membership struct {
	age    int64 // of the channel, unix seconds
	status string
	id     int
}

type roster struct {
	*irc.Roster[*pseudo]

	cfg    Config
	home   federation.HomeID
	byUUID map[string]*pseudo
	minted int // issued UUIDs, never reused
}

func newRoster(cfg Config, home federation.HomeID, venues []string) *roster {
	self := newPseudo("baton", fmt.Sprintf("Baton, the federation gateway %s", home))
	self.DID, self.Name = home.DID(), cfg.Nick
	r := &roster{Roster: irc.NewRoster(self, venues), cfg: cfg, home: home, byUUID: map[string]*pseudo{}}
	r.mint(self)
	return r
}

// A UUID is our SID and six letters.
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

func (r *roster) leave() {
	r.LeaveChannels()
	for _, p := range r.byUUID {
		p.here, p.losses = false, 0
		clear(p.removed)
		clear(p.visits)
	}
}

func newPseudo(ident, realName string) *pseudo {
	return &pseudo{
		ident: ident, real: realName,
		memberships: map[string]membership{}, removed: map[string]bool{}, visits: map[string]bool{},
	}
}

// The user is also in the venue if that is a channel that it may join.
func (s *session) speaker(did federation.DID, name, venue string) *pseudo {
	r := s.link.roster
	did, name = r.Moved(did, name)
	p := r.Speaker(did, venue, func() *pseudo {
		added := newPseudo(did.Hash(), fmt.Sprintf("%s via Baton %s", irc.Plain(name), r.home))
		added.Name, added.suffix = name, r.cfg.NickSuffix
		r.mint(added)
		return added
	}, s.retire)
	s.present(p)
	return p
}

func (s *session) retire(p *pseudo) { s.quit(p, "silent for long") }

func (s *session) depart(did federation.DID) {
	s.link.roster.Remove(did, func(p *pseudo) { s.quit(p, irc.LeftReason) })
}

func (s *session) quit(p *pseudo, reason string) {
	if p.here {
		s.put(":%s QUIT :%s", p.uuid, reason)
		s.net.forget(p.uuid, p.Nick)
	}
	for _, ch := range s.net.channels {
		delete(ch.kept, p)
	}
	delete(s.link.roster.byUUID, p.uuid)
	delete(s.displaced, p)
}

func (s *session) present(p *pseudo) {
	if !p.here {
		s.introduce(p)
	}
	for _, venue := range p.Missing() {
		s.admit(p, s.net.channels[venue])
	}
}

// The user gets its previous nick and timestamp if that nick is still free.
func (s *session) introduce(p *pseudo) {
	now := time.Now().Unix()
	if p.signon == 0 {
		p.signon = now
	}
	if p.Nick == "" || len(p.Nick) > s.net.nickBytes || s.net.owner(p.Nick) != "" {
		p.Nick, p.nickTS, p.given = s.freeNick(p), now, false
	}
	s.net.name(p.uuid, "", p.Nick)
	s.displace(p)
	host := s.host()
	s.put(":%s UID %s %d %s %s %s %s %s %d +i :%s", s.sid(), p.uuid, p.nickTS, p.Nick, host, host,
		s.protocol.idents(clip(p.ident, s.net.identBytes)), pseudoIP, p.signon, irc.Cut(p.real, s.net.realBytes))
	p.here, p.away = true, ""
}

func clip(s string, maxBytes int) string { return s[:min(len(s), maxBytes)] }

func (s *session) freeNick(p *pseudo) string {
	for nick := range irc.Nicks(p.Name, p.suffix, p.DID, s.net.nickBytes) {
		if s.net.owner(nick) == "" {
			return nick
		}
	}
	return p.uuid
}

func (s *session) yield(p *pseudo) {
	p.given = false
	s.rename(p, s.freeNick(p), time.Now().Unix())
}

func (s *session) displace(p *pseudo) {
	if p.given || s.net.fold(p.Nick) == s.net.fold(p.best(s.net.nickBytes)) {
		delete(s.displaced, p)
		return
	}
	s.displaced[p] = true
}

func (s *session) reclaim() {
	for p := range s.displaced {
		if best := p.best(s.net.nickBytes); s.linked && p.here && best != "" && s.net.owner(best) == "" {
			s.rename(p, best, time.Now().Unix())
		}
	}
}

// The age is the nick's timestamp in Unix seconds.
func (s *session) rename(p *pseudo, nick string, age int64) {
	old := p.Nick
	p.Nick, p.nickTS = nick, age
	s.net.name(p.uuid, old, nick)
	s.displace(p)
	s.put(":%s NICK %s %d", p.uuid, nick, p.nickTS)
}

// best returns "" if no nick resembles the name.
func (p *pseudo) best(maxBytes int) string {
	for nick := range irc.Nicks(p.Name, p.suffix, p.DID, maxBytes) {
		return nick
	}
	return ""
}

// A lower age than the peer's would take the channel from its members. A user that returns from a
// split keeps its previous status.
//
// spec: InspIRCd spanning tree 1205, "FJOIN"
func (s *session) join(p *pseudo, ch *channel) {
	if ch.ts == 0 {
		ch.ts, ch.ours = time.Now().Unix(), true
	}
	held := p.memberships[ch.venue]
	if held.age != ch.ts {
		held = membership{age: ch.ts}
	}
	held.status = s.net.prefixes(held.status)
	held.id = s.memberships
	s.memberships++
	s.put(":%s FJOIN %s %d + :%s,%s:%d", s.sid(), ch.name, ch.ts, held.status, p.uuid, held.id)
	p.In[ch.venue], p.memberships[ch.venue] = true, held
	delete(p.removed, ch.venue)
	s.changed = true
}

func (s *session) outside(p *pseudo, venue string) {
	p.In[venue] = false
	delete(p.memberships, venue)
	s.changed = true
}

func (s *session) occupied(venue string) bool {
	for _, p := range s.link.roster.byUUID {
		if p.In[venue] {
			return true
		}
	}
	return false
}

// The user also rejoins at once for a delivery of one of its steps.
func (s *session) thrownOut(p *pseudo) {
	wait := min(firstReturn<<min(p.losses, 16), lastReturn)
	p.losses++
	time.AfterFunc(wait, func() {
		s.Post(s.Submitting, func() { s.comeBack(p) })
	})
}

func (s *session) comeBack(p *pseudo) {
	if s.link.roster.byUUID[p.uuid] == p {
		s.present(p)
	}
}
