package client

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"baton/bridge"
	"baton/federation"
)

// sorted returns the keys of a map in order.
func sorted[K cmp.Ordered, V any](of map[K]V) []K { return slices.Sorted(maps.Keys(of)) }

// onWho lists the members of a channel, or those whose nick a mask names.
//
// spec: rfc2812 §3.6.1; whox
func (s *server) onWho(_ context.Context, u *user, m ircmsg.Message) {
	mask, fields := "*", ""
	if len(m.Params) > 0 && m.Params[0] != "" {
		mask = m.Params[0]
	}
	if len(m.Params) > 1 {
		_, fields, _ = strings.Cut(m.Params[1], "%")
	}
	venue, _ := channelName(mask)
	found := 0
	for _, who := range s.whoOf(u, mask) {
		if found++; found > maxWho {
			break
		}
		c := s.channels[venue]
		if fields != "" {
			s.numeric(u, rplWhoSpcRpl, whox(s, who, c, u, fields)...)
			continue
		}
		s.reply(u, rplWhoReply, channelOr(c), who.ident, who.host, s.name, who.nick, who.flags(c, u), "0 "+who.real)
	}
	s.reply(u, rplEndOfWho, clipParam(mask), "End of WHO list")
}

// maxWho bounds one answer to WHO by mask or channel.
const maxWho = 2000

func channelOr(c *channel) string {
	if c == nil {
		return "*"
	}
	return c.name
}

// whoOf returns the users that a WHO asks for, by nick.
func (s *server) whoOf(u *user, mask string) []*user {
	var found []*user
	if strings.HasPrefix(mask, "#") {
		venue, _ := channelName(mask)
		if c := s.channels[venue]; c != nil && c.seen(u) {
			for who := range c.members {
				if !who.invisible || c.members[u] != nil {
					found = append(found, who)
				}
			}
		}
	} else {
		for nick, who := range s.nicks {
			exact := fold(mask) == nick
			if who.welcome && (exact || federation.Glob(fold(mask), nick) && u.sees(who)) {
				found = append(found, who)
			}
		}
	}
	slices.SortFunc(found, func(a, b *user) int { return strings.Compare(a.nick, b.nick) })
	return found
}

// sees reports whether a client is shown another one that it did not name: an invisible
// client is shown only to clients in one of its channels.
func (u *user) sees(who *user) bool {
	if !who.invisible || who == u {
		return true
	}
	for _, c := range who.channels {
		if c.members[u] != nil {
			return true
		}
	}
	return false
}

// flags returns the WHO flags of a user: here or gone, and its status in a channel.
func (u *user) flags(c *channel, to *user) string {
	flags := "H"
	if u.away != "" {
		flags = "G"
	}
	if c != nil && c.members[u] != nil {
		flags += c.members[u].prefix(to.caps.has(capMultiPrefix))
	}
	return flags
}

// whox returns the fields of a WHOX that a client asks for, in their order.
func whox(s *server, who *user, c *channel, to *user, asked string) []string {
	fields, token, _ := strings.Cut(asked, ",")
	account := "0"
	if who.account != "" {
		account = string(who.account)
	}
	values := map[rune]string{
		't': orStar(clipParam(token)), 'c': channelOr(c), 'u': who.ident, 'i': "255.255.255.255", 'h': who.host, 's': s.name,
		'n': who.nick, 'f': who.flags(c, to), 'd': "0", 'l': strconv.FormatInt(int64(time.Since(who.spokeAt()).Seconds()), 10), 'a': account, 'o': "0", 'r': who.real,
	}
	var row []string
	for _, field := range "tcuihsnfdlaor" {
		if strings.ContainsRune(fields, field) {
			row = append(row, values[field])
		}
	}
	return row
}

// spokeAt returns when a client last sent a message, else when it connected.
func (u *user) spokeAt() time.Time {
	if u.spoke.After(u.since) {
		return u.spoke
	}
	return u.since
}

func (s *server) onWhois(_ context.Context, u *user, m ircmsg.Message) {
	nick := m.Params[len(m.Params)-1] // after the server that is asked, where there is one
	who := s.nicks[fold(nick)]
	if who == nil || !who.welcome {
		s.reply(u, errNoSuchNick, clipParam(nick), "No such nick")
		s.reply(u, rplEndOfWhois, clipParam(nick), "End of WHOIS list")
		return
	}
	s.reply(u, rplWhoisUser, who.nick, who.ident, who.host, "*", who.real)
	if in := s.channelsOf(u, who); in != "" {
		s.reply(u, rplWhoisChannels, who.nick, in)
	}
	s.reply(u, rplWhoisServer, who.nick, s.name, s.link.cfg.Network)
	if who.account != "" {
		s.reply(u, rplWhoisAccount, who.nick, string(who.account), "is logged in as")
	}
	s.reply(u, rplWhoisSpecial, who.nick, claimed(who.account))
	if who.secure {
		s.reply(u, rplWhoisSecure, who.nick, "is using a secure connection")
	}
	if who.away != "" {
		s.reply(u, rplAway, who.nick, who.away)
	}
	s.reply(u, rplWhoisIdle, who.nick, strconv.FormatInt(int64(time.Since(who.spokeAt()).Seconds()), 10), strconv.FormatInt(who.since.Unix(), 10), "seconds idle, signon time")
	s.reply(u, rplEndOfWhois, who.nick, "End of WHOIS list")
}

// claimed describes the identity of a user as far as it is proved.
func claimed(account federation.DID) string {
	switch claim, _ := bridge.ClaimOfPerson(account, false, false, bridge.NoAccount); claim {
	case bridge.Anchored:
		return "has proved a DID whose owner can change its keys"
	case bridge.SelfIssued:
		return "has proved a key that it made itself"
	case bridge.Relayed, bridge.Guest, bridge.LookingUp, bridge.Unknown:
	}
	return "is a guest"
}

// channelsOf returns the channels of a user that a client may know of.
func (s *server) channelsOf(u, who *user) string {
	var in []string
	for _, venue := range sorted(who.channels) {
		if c := who.channels[venue]; c.seen(u) && (!who.invisible || c.members[u] != nil || u == who) {
			in = append(in, c.members[who].prefix(u.caps.has(capMultiPrefix))+c.name)
		}
	}
	return strings.Join(in, " ")
}

// onWhowas finds no user: the server forgets departed users.
func (s *server) onWhowas(_ context.Context, u *user, m ircmsg.Message) {
	s.reply(u, errWasNoSuchNick, clipParam(m.Params[0]), "There was no such nickname")
	s.reply(u, "369", clipParam(m.Params[0]), "End of WHOWAS")
}

func (s *server) onUserhost(_ context.Context, u *user, m ircmsg.Message) {
	var found []string
	for _, nick := range m.Params[:min(len(m.Params), maxTargets)] {
		if who := s.nicks[fold(nick)]; who != nil && who.welcome {
			sign := "+"
			if who.away != "" {
				sign = "-"
			}
			found = append(found, who.nick+"="+sign+who.ident+"@"+who.host)
		}
	}
	s.reply(u, rplUserHost, strings.Join(found, " "))
}

func (s *server) onIson(_ context.Context, u *user, m ircmsg.Message) {
	var found []string
	for nick := range strings.FieldsSeq(strings.Join(m.Params, " ")) {
		if who := s.nicks[fold(nick)]; who != nil && who.welcome {
			found = append(found, who.nick)
		}
	}
	s.reply(u, rplIsOn, strings.Join(found, " "))
}
