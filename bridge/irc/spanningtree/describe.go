package spanningtree

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"baton/bridge"
	"baton/translate"
)

// agreement is what both sides of a session know of each other once both bursts are
// over. It never changes.
type agreement struct {
	words map[string]string
	skew  time.Duration
}

// agree returns what a session that is linked came to.
func (s *session) agree() *agreement {
	t := s.net
	casemapping := "rfc1459"
	if t.ascii {
		casemapping = "ascii"
	}
	return &agreement{skew: s.skew, words: map[string]string{
		"protocol": strconv.Itoa(int(s.protocol)), "server": s.link.cfg.ServerName, "server_id": t.peer, "our_server_id": s.sid(),
		"authentication": s.authentication(), "tls": strconv.FormatBool(s.link.tls != nil), "tagmsg": strconv.FormatBool(t.tagmsg),
		"casemapping": casemapping, "nick_bytes": strconv.Itoa(t.nickBytes), "host_bytes": strconv.Itoa(t.hostBytes),
	}}
}

// authentication names how the passwords were proved.
func (s *session) authentication() string {
	if s.net.challenge != "" {
		return "challenge"
	}
	return "plaintext"
}

// Describe implements [bridge.Describer].
func (l *Link) Describe() bridge.Description {
	d := bridge.Description{Channels: l.Channels(), NotCarried: []string{
		"a step whose tags are longer than " + strconv.Itoa(translate.MaxTagBytes) + " bytes",
		"a step to an absent user: it waits",
	}}
	if s := l.live.Load(); s != nil {
		d.Negotiated, d.Skew = s.agreed.words, s.agreed.skew
		d.NotCarried = append(d.NotCarried, *s.notCarried.Load()...)
	}
	return d
}

// publish tells operators what the network keeps from being written, as of now.
func (s *session) publish() {
	var lost []string
	if !s.net.tagmsg {
		lost = append(lost, "tags: the other server has no message tags, so that each step is a readable line alone; load its ircv3_ctctags module")
	}
	ours := append(s.link.roster.All(), &pseudo{})
	for _, venue := range slices.Sorted(maps.Keys(s.net.channels)) {
		ch := s.net.channels[venue]
		for _, why := range s.bars(ch, ours) {
			lost = append(lost, "steps in "+ch.name+": "+string(why))
		}
	}
	s.notCarried.Store(&lost)
	s.changed = false
}

// bars returns each reason for which a user of ours that belongs in a channel may not enter it or
// may not speak there. The last of ours is a new one, which belongs in every channel.
func (s *session) bars(ch *channel, ours []*pseudo) []bar {
	var found []bar
	for _, p := range ours {
		there, belongs := p.In[ch.venue]
		if !belongs && p.uuid != "" {
			continue
		}
		why := bar("")
		if !there {
			why = s.entry(p, ch)
		}
		if why = cmp.Or(why, s.voice(p, ch)); why != "" {
			found = append(found, why)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
