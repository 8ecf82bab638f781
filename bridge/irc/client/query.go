package client

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

func sorted[K cmp.Ordered, V any](of map[K]V) []K { return slices.Sorted(maps.Keys(of)) }

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

const maxWho = 2000

func channelOr(c *channel) string {
	if c == nil {
		return "*"
	}
	return c.name
}

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

// An invisible client is visible only to clients in one of its channels.
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

func (u *user) flags(c *channel, to *user) string {
	flags := "H"
	if u.away != "" {
		flags = "G"
	}
	if u.bot {
		flags += "B"
	}
	if c != nil && c.members[u] != nil {
		flags += c.members[u].prefix(to.caps.has(capMultiPrefix))
	}
	return flags
}

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

func (u *user) spokeAt() time.Time {
	if u.spoke.After(u.since) {
		return u.spoke
	}
	return u.since
}

func (s *server) onWhois(_ context.Context, u *user, m ircmsg.Message) {
	nick := m.Params[len(m.Params)-1] // after an optional server
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
	if who.remote != "" {
		s.reply(u, rplWhoisSpecial, who.nick, "is a user of another network, with the address "+string(who.remote))
	} else {
		s.reply(u, rplWhoisSpecial, who.nick, claimed(who.account))
	}
	if who.bot {
		s.reply(u, rplWhoisBot, who.nick, "is a bot on "+s.link.cfg.Network)
	}
	if who.secure {
		s.reply(u, rplWhoisSecure, who.nick, "is using a secure connection")
	}
	if who.away != "" {
		s.reply(u, rplAway, who.nick, who.away)
	}
	s.reply(u, rplWhoisIdle, who.nick, strconv.FormatInt(int64(time.Since(who.spokeAt()).Seconds()), 10), strconv.FormatInt(who.since.Unix(), 10), "seconds idle, signon time")
	s.reply(u, rplEndOfWhois, who.nick, "End of WHOIS list")
}

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

func (s *server) channelsOf(u, who *user) string {
	var in []string
	for _, venue := range sorted(who.channels) {
		if c := who.channels[venue]; c.seen(u) && (!who.invisible || c.members[u] != nil || u == who) {
			in = append(in, c.members[who].prefix(u.caps.has(capMultiPrefix))+c.name)
		}
	}
	return strings.Join(in, " ")
}

type departed struct {
	nick, ident, host, real string
	at                      time.Time
}

const maxDeparted = 512

// At the limit, recordDeparted replaces the oldest.
func (s *server) recordDeparted(u *user) {
	if len(s.departed) >= maxDeparted {
		s.departed = slices.Delete(s.departed, 0, 1)
	}
	s.departed = append(s.departed, departed{u.nick, u.ident, u.host, u.real, time.Now()})
}

// spec: rfc2812 §3.6.3
func (s *server) onWhowas(_ context.Context, u *user, m ircmsg.Message) {
	if len(m.Params) == 0 || m.Params[0] == "" {
		s.reply(u, errNoNickGiven, "No nickname given")
		return
	}
	nick, most := m.Params[0], maxDeparted
	if len(m.Params) > 1 {
		if n, err := strconv.Atoi(m.Params[1]); err == nil && n > 0 {
			most = n
		}
	}
	found := 0
	for _, d := range slices.Backward(s.departed) {
		if !federation.Glob(fold(nick), fold(d.nick)) || found == most {
			continue
		}
		found++
		s.reply(u, rplWhowasUser, d.nick, d.ident, d.host, "*", d.real)
		s.reply(u, rplWhoisServer, d.nick, s.name, d.at.UTC().Format(time.RFC1123))
	}
	if found == 0 {
		s.reply(u, errWasNoSuchNick, clipParam(nick), "There was no such nickname")
	}
	s.reply(u, rplEndOfWhowas, clipParam(nick), "End of WHOWAS")
}

func (s *server) onHelp(_ context.Context, u *user, m ircmsg.Message) {
	topic := "*"
	if len(m.Params) > 0 && m.Params[0] != "" {
		topic = clipParam(strings.ToUpper(m.Params[0]))
	}
	if _, known := s.table[topic]; topic != "*" && !known {
		s.reply(u, errHelpNotFound, topic, "There is no help about that")
		return
	}
	s.reply(u, rplHelpStart, topic, "Help of "+s.name)
	if topic == "*" {
		line := ""
		for _, name := range sorted(s.table) {
			if len(line)+len(name) > maxListBytes {
				s.reply(u, rplHelp, topic, line)
				line = ""
			}
			line = strings.TrimPrefix(line+" "+name, " ")
		}
		s.reply(u, rplHelp, topic, line)
	} else {
		s.reply(u, rplHelp, topic, topic+" takes at least "+itoa(s.table[topic].params)+" parameters")
	}
	s.reply(u, rplEndOfHelp, topic, "To work with handoffs, say: /msg "+selfNick+" help")
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

// The parameter at the index is the name of the server or of one of its users.
//
// spec: rfc2812 §3.4
func (s *server) checkServer(u *user, m ircmsg.Message, index int) bool {
	if len(m.Params) <= index || m.Params[index] == "" {
		return true
	}
	target := m.Params[index]
	if federation.Glob(fold(target), fold(s.name)) || s.nicks[fold(target)] != nil {
		return true
	}
	s.reply(u, errNoSuchServer, clipParam(target), "No such server")
	return false
}

func (s *server) onMOTD(_ context.Context, u *user, m ircmsg.Message) {
	if s.checkServer(u, m, 0) {
		s.motd(u)
	}
}

func (s *server) motd(u *user) {
	s.reply(u, rplMOTDStart, "- "+s.name+" message of the day -")
	s.reply(u, rplMOTD, "- This is Baton, a gateway for handoffs between networks.")
	s.reply(u, rplMOTD, "- Its channels: "+strings.Join(s.link.channels, " "))
	s.reply(u, rplEndOfMOTD, "End of MOTD command")
}

func (s *server) onLusers(_ context.Context, u *user, m ircmsg.Message) {
	if s.checkServer(u, m, 1) {
		s.lusers(u)
	}
}

func (s *server) lusers(u *user) {
	strangers := s.admission.strangers.Len()
	registered := len(s.connected) - strangers
	s.reply(u, rplLUserClient, "There are "+itoa(registered)+" users and 0 invisible on 1 servers")
	if strangers > 0 {
		s.reply(u, rplLUserUnknown, itoa(strangers), "unregistered connections")
	}
	s.reply(u, rplLUserChannels, itoa(len(s.channels)), "channels formed")
	s.reply(u, rplLUserMe, "I have "+itoa(registered)+" clients and 0 servers")
	now, most := itoa(registered), itoa(s.most)
	s.reply(u, rplLocalUsers, now, most, "Current local users "+now+", max "+most)
	s.reply(u, rplGlobalUsers, now, most, "Current global users "+now+", max "+most)
}

func (s *server) onVersion(_ context.Context, u *user, m ircmsg.Message) {
	if s.checkServer(u, m, 0) {
		s.reply(u, rplVersion, softwareName, s.name, "a federation gateway")
		s.isupport(u)
	}
}

func (s *server) onTime(_ context.Context, u *user, m ircmsg.Message) {
	if s.checkServer(u, m, 0) {
		s.reply(u, rplTime, s.name, time.Now().UTC().Format(time.RFC1123))
	}
}

func (s *server) onAdmin(_ context.Context, u *user, m ircmsg.Message) {
	if !s.checkServer(u, m, 0) {
		return
	}
	s.reply(u, rplAdminMe, s.name, "Administrative info")
	s.reply(u, rplAdminLocation1, softwareName+" at "+s.link.ports.PublicURL)
	s.reply(u, rplAdminLocation2, "network "+s.link.cfg.Network)
	s.reply(u, rplAdminEmail, "the operator of "+s.name)
}

func (s *server) onInfo(_ context.Context, u *user, m ircmsg.Message) {
	if !s.checkServer(u, m, 0) {
		return
	}
	s.reply(u, rplInfo, softwareName+", a gateway for handoffs between networks")
	s.reply(u, rplEndOfInfo, "End of INFO list")
}

// All clients may query only the uptime. Any other query has an empty answer.
func (s *server) onStats(_ context.Context, u *user, m ircmsg.Message) {
	if !s.checkServer(u, m, 1) {
		return
	}
	query := "*"
	if len(m.Params) > 0 {
		query = clipParam(m.Params[0])
	}
	if query == "u" {
		s.reply(u, rplStatsUptime, uptime(time.Since(s.started)))
	}
	s.reply(u, rplEndOfStats, query, "End of STATS report")
}

// spec: rfc2812 §5.1
func uptime(d time.Duration) string {
	seconds := int(d / time.Second)
	return fmt.Sprintf("Server Up %d days %d:%02d:%02d", seconds/86400, seconds/3600%24, seconds/60%60, seconds%60)
}

// spec: rfc1459 §6; rfc2812 §5; ircv3 monitor, sasl-3.1, setname, whox
const (
	rplWelcome         = "001"
	rplYourHost        = "002"
	rplCreated         = "003"
	rplMyInfo          = "004"
	rplISupport        = "005"
	rplEndOfStats      = "219"
	rplUModeIs         = "221"
	rplStatsUptime     = "242"
	rplLUserClient     = "251"
	rplLUserUnknown    = "253"
	rplLUserChannels   = "254"
	rplLUserMe         = "255"
	rplAdminMe         = "256"
	rplAdminLocation1  = "257"
	rplAdminLocation2  = "258"
	rplAdminEmail      = "259"
	rplLocalUsers      = "265"
	rplGlobalUsers     = "266"
	rplAway            = "301"
	rplUserHost        = "302"
	rplIsOn            = "303"
	rplUnAway          = "305"
	rplNowAway         = "306"
	rplWhoisUser       = "311"
	rplWhowasUser      = "314"
	rplWhoisServer     = "312"
	rplEndOfWho        = "315"
	rplWhoisIdle       = "317"
	rplEndOfWhois      = "318"
	rplEndOfWhowas     = "369"
	rplWhoisChannels   = "319"
	rplWhoisSpecial    = "320"
	rplList            = "322"
	rplListEnd         = "323"
	rplChannelModeIs   = "324"
	rplCreationTime    = "329"
	rplWhoisAccount    = "330"
	rplNoTopic         = "331"
	rplTopic           = "332"
	rplTopicTime       = "333"
	rplWhoisBot        = "335"
	rplInviting        = "341"
	rplInviteList      = "346"
	rplEndOfInviteList = "347"
	rplExceptList      = "348"
	rplEndOfExceptList = "349"
	rplVersion         = "351"
	rplWhoReply        = "352"
	rplNamReply        = "353"
	rplWhoSpcRpl       = "354"
	rplEndOfNames      = "366"
	rplBanList         = "367"
	rplEndOfBanList    = "368"
	rplInfo            = "371"
	rplMOTD            = "372"
	rplEndOfInfo       = "374"
	rplMOTDStart       = "375"
	rplEndOfMOTD       = "376"
	rplTime            = "391"
	rplWhoisSecure     = "671"
	rplHelpStart       = "704"
	rplHelp            = "705"
	rplEndOfHelp       = "706"
	rplMonOnline       = "730"
	rplMonOffline      = "731"
	rplMonList         = "732"
	rplEndOfMonList    = "733"

	errNoSuchNick      = "401"
	errNoSuchServer    = "402"
	errNoSuchChannel   = "403"
	errCannotSend      = "404"
	errTooManyChannels = "405"
	errWasNoSuchNick   = "406"
	errInvalidCap      = "410"
	errNoRecipient     = "411"
	errNoText          = "412"
	errInputTooLong    = "417"
	errUnknownCommand  = "421"
	errNoNickGiven     = "431"
	errErroneousNick   = "432"
	errNickInUse       = "433"
	errNotInChannel    = "441"
	errNotOnChannel    = "442"
	errUserOnChannel   = "443"
	errNotRegistered   = "451"
	errNeedMoreParams  = "461"
	errAlreadyIn       = "462"
	errChannelIsFull   = "471"
	errUnknownMode     = "472"
	errInviteOnly      = "473"
	errBanned          = "474"
	errBadKey          = "475"
	errBanListFull     = "478"
	errNotOperator     = "482"
	errUnknownUserMode = "501"
	errNotYourMode     = "502"
	errHelpNotFound    = "524"
	errMonitorListFull = "734"
)
