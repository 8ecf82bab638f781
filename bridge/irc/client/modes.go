package client

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
)

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
	if list := asksForList(m.Params[1:]); list != 0 {
		s.maskList(u, c, list)
		return
	}
	if c.members[u] == nil || !c.members[u].operator {
		s.reply(u, errNotOperator, c.name, "You're not channel operator")
		return
	}
	s.changeModes(u, c, m.Params[1], m.Params[2:])
}

// spec: isupport "EXCEPTS", "INVEX"
const maskLists = "beI"

func asksForList(params []string) byte {
	if letter := strings.TrimLeft(params[0], "+"); len(params) == 1 && len(letter) == 1 && strings.Contains(maskLists, letter) {
		return letter[0]
	}
	return 0
}

func (s *server) maskList(u *user, c *channel, list byte) {
	entry, end, name := rplBanList, rplEndOfBanList, "ban"
	switch list {
	case 'e':
		entry, end, name = rplExceptList, rplEndOfExceptList, "exception"
	case 'I':
		entry, end, name = rplInviteList, rplEndOfInviteList, "invite exception"
	}
	for _, b := range c.masks[list] {
		s.numeric(u, entry, c.name, b.mask, b.by, strconv.FormatInt(b.at.Unix(), 10))
	}
	s.reply(u, end, c.name, "End of channel "+name+" list")
}

type change struct {
	on     bool
	letter byte
	param  string
}

// The modes o, v, k and the lists always take a parameter, and l takes one if it is set.
func (ch change) parameter() bool {
	return strings.IndexByte("ovk"+maskLists, ch.letter) >= 0 || ch.letter == 'l' && ch.on
}

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
	s.spread(u.newMessage("MODE", said...), c.everyone)
}

func signOf(on bool) byte {
	if on {
		return '+'
	}
	return '-'
}

// changeMode reports whether the change had an effect. It sets the parameter to the announced form.
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
	case 'b', 'e', 'I':
		return s.changeMasks(u, c, ch)
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

func (s *server) changeMasks(u *user, c *channel, ch *change) bool {
	ch.param = fullMask(ch.param)
	list := c.masks[ch.letter]
	at := slices.IndexFunc(list, func(b ban) bool { return fold(b.mask) == fold(ch.param) })
	switch {
	case ch.on == (at >= 0), strings.ContainsAny(ch.param, " :,") && !strings.HasPrefix(ch.param, "did:"), len(ch.param) > maxMaskBytes:
		return false
	case !ch.on:
		c.masks[ch.letter] = slices.Delete(list, at, at+1)
	case len(c.masks['b'])+len(c.masks['e'])+len(c.masks['I']) >= maxBans:
		s.reply(u, errBanListFull, c.name, ch.param, "Channel list is full")
		return false
	default:
		c.masks[ch.letter] = append(list, ban{mask: ch.param, by: u.nick, at: time.Now()})
	}
	return true
}

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

// Mode i hides a client from clients without a common channel, and B marks a bot.
//
// spec: ircv3 bot-mode
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
	before, unknown := u.modes(), false
	for _, ch := range changes(m.Params[1], nil) {
		switch ch.letter {
		case 'i':
			u.invisible = ch.on
		case 'B':
			u.bot = ch.on
		default:
			unknown = true
		}
	}
	if unknown {
		s.reply(u, errUnknownUserMode, "Unknown MODE flag")
	}
	if after := u.modes(); after != before {
		var changed strings.Builder
		for _, letter := range "Bi" {
			if on := strings.ContainsRune(after, letter); on != strings.ContainsRune(before, letter) {
				changed.WriteString(string(signOf(on)) + string(letter))
			}
		}
		s.send(u, u.newMessage("MODE", u.nick, changed.String()))
	}
}

func (u *user) modes() string {
	modes := "+"
	if u.bot {
		modes += "B"
	}
	if u.invisible {
		modes += "i"
	}
	return modes
}
