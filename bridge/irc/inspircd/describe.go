package inspircd

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/translate"
)

// The result of the negotiation is known once both bursts are over, and never changes.
type agreement struct {
	words map[string]string
	skew  time.Duration
}

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

// The last of our users is a new one, which should be in every channel.
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

var _ bridge.Explainer = (*Link)(nil)

// Explain implements [bridge.Explainer] with the link block for the other server. It names the
// password files, but not the passwords.
func (l *Link) Explain() string {
	host, port := "<address of this gateway>", "7001" // a dialling link does not use the port
	if !l.dials() {
		if h, p, err := net.SplitHostPort(l.cfg.Listen); err == nil && h != "" {
			host, port = h, p
		} else if err == nil {
			port = p
		}
	}
	secure := ""
	if l.cfg.TLS {
		secure = "\n      sslprofile=\"<one with your certificate>\"\n      fingerprint=\"<SHA-256 of this gateway's certificate>\""
	}
	text := fmt.Sprintf(`%s, an InspIRCd, must have these modules and this block:

<module name="spanningtree">
<module name="sha256">
<module name="cap">
<module name="ircv3_ctctags">
<module name="ircv3_msgid">
<link name="%s"
      ipaddr="%s"
      port="%s"
      allowmask="<addresses of this gateway>"%s
      recvpass="<what %s holds>"
      sendpass="<what %s holds>">
`, l.cfg.ServerName, l.ports.Home, host, port, secure, l.cfg.SendPasswordFile, l.cfg.RecvPasswordFile)
	if l.dials() {
		text += fmt.Sprintf("\nand a port for servers at %s. No server there may have the id %s.\n", l.cfg.Address, l.cfg.SID)
	} else {
		text += fmt.Sprintf("<autoconnect server=\"%s\" period=\"10\">\n\nNo server there may have the id %s.\n", l.ports.Home, l.cfg.SID)
	}
	return text
}
