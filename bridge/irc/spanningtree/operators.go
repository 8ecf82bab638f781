package spanningtree

import (
	"context"
	"strings"

	"github.com/ergochat/irc-go/ircmsg"

	"baton/translate"
)

// A network gives operator status to the user that makes a channel. A channel that is there
// because the gateway's users are in it would have no operator, and would keep its modes and
// bans for ever. The first user of the network in such a channel therefore is made its operator,
// and a channel that its last user left is made anew. In a channel of the network
// the gateway changes no status: its servers drop a mode with an age that is not theirs.

// fill notes the members of an FJOIN, each of which is "modes,uuid:membership".
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
		s.back("")
	}
	if s.linked && ch.ours && !operated && len(entered) > 0 {
		s.put(":%s FMODE %s %d +o %s", s.sid(), ch.name, ch.ts, entered[0])
	}
}

// onEnter notes a user of the network in a channel that is there.
func (s *session) onEnter(_ context.Context, m ircmsg.Message) error {
	venue, _ := translate.Channel(m.Params[0])
	if ch := s.net.channels[venue]; ch != nil {
		if ch.ts == 0 { // the peer has told nothing of it
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

// left notes that a user of the network is not in a channel any more.
func (s *session) left(venue, uuid string) {
	if ch := s.net.channels[venue]; ch != nil {
		delete(ch.members, uuid)
		s.remakeEmpty()
	}
}

// remakeEmpty makes each channel anew that its last user left: the users of ours
// leave it, which ends it, and come back in the same write. A permanent channel (+P) does not end.
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
