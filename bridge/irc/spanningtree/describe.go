package spanningtree

import (
	"strconv"
	"time"

	"baton/bridge"
	"baton/translate"
)

// agreement is what both sides of a session know of each other once both bursts are
// over. It never changes.
type agreement struct {
	words  map[string]string
	skew   time.Duration
	tagmsg bool
}

// agree returns what a session that is linked came to.
func (s *session) agree() *agreement {
	t := s.net
	casemapping := "rfc1459"
	if t.ascii {
		casemapping = "ascii"
	}
	return &agreement{skew: s.skew, tagmsg: t.tagmsg, words: map[string]string{
		"protocol": strconv.Itoa(protocol), "server": s.link.cfg.ServerName, "server_id": t.peer, "our_server_id": s.sid(),
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
		agreed := s.agreed
		d.Negotiated, d.Skew = agreed.words, agreed.skew
		if !agreed.tagmsg {
			d.NotCarried = append(d.NotCarried, "all steps: the other server has no message tags")
		}
	}
	return d
}
