package client

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
)

// maxModes bounds the changes with a parameter in one MODE.
const maxModes = 6

func (s *server) onMode(_ context.Context, u *user, m ircmsg.Message) {
	if !strings.HasPrefix(m.Params[0], "#") {
		s.userMode(u, m)
		return
	}
	_, c := s.find(u, m.Params[0])
	if c == nil {
		return
	}
	if len(m.Params) == 1 {
		s.numeric(u, rplChannelModeIs, append([]string{c.name}, c.modeString(c.members[u] != nil)...)...)
		s.numeric(u, rplCreationTime, c.name, strconv.FormatInt(c.made.Unix(), 10))
		return
	}
	if asksForBans(m.Params[1:]) {
		s.banList(u, c)
		return
	}
	if c.members[u] == nil || !c.members[u].operator {
		s.reply(u, errNotOperator, c.name, "You're not channel operator")
		return
	}
	s.changeModes(u, c, m.Params[1], m.Params[2:])
}

// asksForBans reports whether a MODE asks for the bans and changes nothing.
func asksForBans(params []string) bool {
	return len(params) == 1 && strings.TrimLeft(params[0], "+") == "b"
}

func (s *server) banList(u *user, c *channel) {
	for _, b := range c.bans {
		s.numeric(u, rplBanList, c.name, b.mask, b.by, strconv.FormatInt(b.at.Unix(), 10))
	}
	s.reply(u, rplEndOfBanList, c.name, "End of channel ban list")
}

// change is one letter of a MODE, and what it was given.
type change struct {
	on     bool
	letter byte
	param  string
}

// parameter tells which letters take one: o, v, b and k each time, l where it is set.
func (ch change) parameter() bool {
	return strings.IndexByte("ovbk", ch.letter) >= 0 || ch.letter == 'l' && ch.on
}

// changes reads a MODE. What lacks its parameter, and what comes above the bound, is
// left out.
func changes(letters string, params []string) []change {
	var list []change
	on, used := true, 0
	for _, letter := range []byte(letters) {
		switch letter {
		case '+', '-':
			on = letter == '+'
			continue
		}
		ch := change{on: on, letter: letter}
		if ch.parameter() {
			if used >= len(params) || used >= maxModes {
				continue
			}
			ch.param = params[used]
			used++
		}
		list = append(list, ch)
	}
	return list
}

// changeModes changes what can be changed, and tells the channel what was.
func (s *server) changeModes(u *user, c *channel, letters string, params []string) {
	var done []change
	for _, ch := range changes(letters, params) {
		if s.changeMode(u, c, &ch) {
			done = append(done, ch)
		}
	}
	if len(done) == 0 {
		return
	}
	text, sign := "", byte(0)
	said := []string{c.name, ""}
	for _, ch := range done {
		if now := signOf(ch.on); now != sign {
			text, sign = text+string(now), now
		}
		text += string(ch.letter)
		if ch.param != "" {
			said = append(said, ch.param)
		}
	}
	said[1] = text
	s.spread(u.tells("MODE", said...), c.everyone)
}

func signOf(on bool) byte {
	if on {
		return '+'
	}
	return '-'
}

// changeMode makes one change, and reports whether it was one. It writes the parameter
// as all are told it.
func (s *server) changeMode(u *user, c *channel, ch *change) bool {
	switch ch.letter {
	case 'i', 'm', 'n', 's', 't':
		if c.modes[ch.letter] == ch.on {
			return false
		}
		if ch.on {
			c.modes[ch.letter] = true
		} else {
			delete(c.modes, ch.letter)
		}
		return true
	case 'o', 'v':
		return s.changeMember(u, c, ch)
	case 'b':
		return s.changeBan(u, c, ch)
	case 'k':
		return c.changeKey(ch)
	case 'l':
		return c.changeLimit(ch)
	}
	s.reply(u, errUnknownMode, string(rune(ch.letter)), "is unknown mode char to me")
	return false
}

func (s *server) changeMember(u *user, c *channel, ch *change) bool {
	who := s.nicks[fold(ch.param)]
	if who == nil || !who.welcome {
		s.reply(u, errNoSuchNick, clipParam(ch.param), "No such nick")
		return false
	}
	if c.members[who] == nil {
		s.reply(u, errNotInChannel, clipParam(ch.param), c.name, "They aren't on that channel")
		return false
	}
	ch.param = who.nick
	m := c.members[who]
	status := &m.voice
	if ch.letter == 'o' {
		status = &m.operator
		c.remember(who, ch.on)
	}
	changed := *status != ch.on
	*status = ch.on
	return changed
}

func (s *server) changeBan(u *user, c *channel, ch *change) bool {
	ch.param = fullMask(ch.param)
	at := slices.IndexFunc(c.bans, func(b ban) bool { return fold(b.mask) == fold(ch.param) })
	switch {
	case ch.on == (at >= 0), strings.ContainsAny(ch.param, " :,") && !strings.HasPrefix(ch.param, "did:"), len(ch.param) > maxMaskBytes:
		return false
	case !ch.on:
		c.bans = slices.Delete(c.bans, at, at+1)
	case len(c.bans) >= maxBans:
		s.reply(u, errBanListFull, c.name, ch.param, "Channel ban list is full")
		return false
	default:
		c.bans = append(c.bans, ban{mask: ch.param, by: u.nick, at: time.Now()})
	}
	return true
}

// maxMaskBytes bounds what a ban names: a mask, or a DID.
const maxMaskBytes = 256

func (c *channel) changeKey(ch *change) bool {
	switch {
	case ch.on && ch.param != "" && len(ch.param) <= maxKeyBytes && !strings.ContainsAny(ch.param, " ,:"):
		c.key = ch.param
	case !ch.on && c.key != "":
		c.key, ch.param = "", "*"
	default:
		return false
	}
	return true
}

func (c *channel) changeLimit(ch *change) bool {
	n, err := strconv.Atoi(ch.param)
	switch {
	case ch.on && err == nil && n > 0 && n <= 1<<20:
		c.limit = n
	case !ch.on && c.limit > 0:
		c.limit = 0
	default:
		return false
	}
	return true
}

// userMode reports and changes the modes of a client itself. The only one is i, which hides
// the client from clients that share no channel with it.
func (s *server) userMode(u *user, m ircmsg.Message) {
	switch {
	case s.nicks[fold(m.Params[0])] == nil:
		s.reply(u, errNoSuchNick, clipParam(m.Params[0]), "No such nick")
		return
	case s.nicks[fold(m.Params[0])] != u:
		s.reply(u, errNotYourMode, "Cannot change mode for other users")
		return
	case len(m.Params) == 1:
		s.numeric(u, rplUModeIs, u.modes())
		return
	}
	before, unknown := u.invisible, false
	for _, ch := range changes(m.Params[1], nil) {
		switch ch.letter {
		case 'i':
			u.invisible = ch.on
		default:
			unknown = true
		}
	}
	if unknown {
		s.reply(u, errUnknownUserMode, "Unknown MODE flag")
	}
	if u.invisible != before {
		s.send(u, u.tells("MODE", u.nick, string(signOf(u.invisible))+"i"))
	}
}

func (u *user) modes() string {
	if u.invisible {
		return "+i"
	}
	return "+"
}
