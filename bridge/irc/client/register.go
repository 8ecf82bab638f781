package client

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

const (
	maxNickBytes  = 30
	maxIdentBytes = 10
	maxRealBytes  = 150
)

const softwareName = "baton"

// selfNick is reserved for the gateway's own user.
const selfNick = "Baton"

func (s *server) onNick(ctx context.Context, u *user, m ircmsg.Message) {
	if len(m.Params) == 0 || m.Params[0] == "" {
		s.reply(u, errNoNickGiven, "No nickname given")
		return
	}
	nick := m.Params[0]
	owner := s.local(nick)
	switch {
	case !irc.ValidNick(nick) || len(nick) > maxNickBytes:
		s.reply(u, errErroneousNick, clipParam(nick), "Erroneous nickname")
	case owner != nil && owner != u, fold(nick) == fold(selfNick):
		s.reply(u, errNickInUse, nick, "Nickname is already in use")
	case !u.welcome:
		s.rename(u, nick)
		s.register(ctx, u)
	case nick != u.nick:
		s.spread(u.textMessage("NICK", nick), s.neighbours(u, true))
		changed := fold(nick) != fold(u.nick)
		if changed {
			s.recordDeparted(u)
			s.notifyWatchers(u, false)
		}
		s.rename(u, nick)
		if changed {
			s.notifyWatchers(u, true)
		}
		s.renamed(u)
	}
}

func clipParam(p string) string {
	if p == "" || strings.HasPrefix(p, ":") || strings.Contains(p, " ") {
		return "*"
	}
	return irc.Cut(p, maxChannelBytes)
}

func (s *server) rename(u *user, nick string) {
	old := u.nick
	if s.nicks[fold(old)] == u {
		delete(s.nicks, fold(old))
	}
	s.yield(nick, u)
	u.nick = nick
	s.nicks[fold(nick)] = u
	if fold(old) != fold(nick) {
		s.release(old)
	}
}

func (s *server) onUser(ctx context.Context, u *user, m ircmsg.Message) {
	if u.welcome || u.ident != "" {
		s.reply(u, errAlreadyIn, "You may not reregister")
		return
	}
	realName := irc.Cut(irc.Plain(m.Params[3]), maxRealBytes)
	if realName == "" {
		s.reply(u, errNeedMoreParams, m.Command, "Not enough parameters")
		return
	}
	ident := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return -1
	}, m.Params[0])
	if ident == "" {
		ident = "user"
	}
	u.ident = ident[:min(len(ident), maxIdentBytes)]
	u.real = realName
	s.register(ctx, u)
}

func (s *server) register(ctx context.Context, u *user) {
	if u.welcome || u.negotiating || u.nick == "" || u.ident == "" {
		return
	}
	if s.blocked(ctx, federation.Source{Network: network, Link: s.link.Name(), Name: u.nick, User: u.ident}) {
		s.quit(u, blockedByUs.sentence())
		return
	}
	u.welcome = true
	s.admission.strangers.Remove(u)
	s.most = max(s.most, len(s.connected)-s.admission.strangers.Len())
	s.reply(u, rplWelcome, "Welcome to the "+s.link.cfg.Network+" network, "+u.mask())
	s.reply(u, rplYourHost, "Your host is "+s.name+", running "+softwareName)
	s.reply(u, rplCreated, "This server was started "+s.started.UTC().Format(time.RFC1123))
	s.numeric(u, rplMyInfo, s.name, softwareName, "Bi", "Ibeiklmnostv", "Ibeklov")
	s.isupport(u)
	s.lusers(u)
	s.motd(u)
	s.notifyWatchers(u, true)
	s.startReplay(ctx, u)
	s.retryMissed(ctx, u)
}

// spec: isupport
func (s *server) isupport(u *user) {
	var history []string
	if s.link.cfg.History {
		history = []string{"CHATHISTORY=" + itoa(s.link.atOnce(maxHistory)), "MSGREFTYPES=timestamp,msgid"}
	}
	for _, tokens := range [][]string{
		append(history, []string{
			"AWAYLEN=" + itoa(maxAwayBytes), "CASEMAPPING=ascii", "CHANLIMIT=#:" + itoa(maxChannels), "CHANMODES=Ibe,k,l,imnst",
			"CHANNELLEN=" + itoa(maxChannelBytes), "CHANTYPES=#", "KICKLEN=" + itoa(maxTopicBytes), "MAXLIST=Ibe:" + itoa(maxBans),
			"MODES=" + itoa(maxModes), "MONITOR=" + itoa(maxWatched), "NAMELEN=" + itoa(maxRealBytes),
		}...),
		{
			"BOT=B", "EXCEPTS", "INVEX", "NETWORK=" + s.link.cfg.Network, "NICKLEN=" + itoa(maxNickBytes), "PREFIX=(ov)@+", "SAFELIST", "TARGMAX=JOIN:,PART:,KICK:1,NAMES:1,WHOIS:1,PRIVMSG:" + itoa(maxTargets) + ",NOTICE:" + itoa(maxTargets) + ",TAGMSG:1",
			"TOPICLEN=" + itoa(maxTopicBytes), "USERLEN=" + itoa(maxIdentBytes), "UTF8ONLY", "WHOX",
		},
	} {
		s.reply(u, rplISupport, append(tokens, "are supported by this server")...)
	}
}

// spec: ircv3 setname
func (s *server) onSetname(_ context.Context, u *user, m ircmsg.Message) {
	name := irc.Plain(m.Params[0])
	if name == "" || len(name) > maxRealBytes {
		s.fail(u, "SETNAME", "INVALID_REALNAME", "", "Realname is not valid")
		return
	}
	u.real = name
	s.spread(u.textMessage("SETNAME", name), having(capSetname, s.observers(u, true)))
}

const maxAwayBytes = 200

// spec: ircv3 away-notify
func (s *server) onAway(_ context.Context, u *user, m ircmsg.Message) {
	why := ""
	if len(m.Params) > 0 {
		why = irc.Cut(clean(m.Params[0]), maxAwayBytes)
	}
	changed := why != u.away
	u.away = why
	notice := u.newMessage("AWAY")
	if why == "" {
		s.reply(u, rplUnAway, "You are no longer marked as being away")
	} else {
		s.reply(u, rplNowAway, "You have been marked as being away")
		notice = u.textMessage("AWAY", why)
	}
	if changed {
		s.spread(notice, having(capAwayNotify, s.observers(u, false)))
		s.changed(u, bridge.PresenceChange{Away: why})
	}
}

type capability uint32

// spec: ircv3 capability-negotiation; handofftag "The client's side"
const (
	capAccountNotify capability = 1 << iota
	capAccountTag
	capAwayNotify
	capBatch
	capNotify
	capChghost
	capHistory
	capPlayback
	capReadMarker
	capRegister
	capEcho
	capExtendedJoin
	capExtendedMonitor
	capAct
	capHandoff
	capMsgsig
	capInviteNotify
	capLabels
	capTags
	capMultiline
	capMultiPrefix
	capSASL
	capTime
	capSetname
	capReplies
	capUserhost
)

type offered struct {
	name  string
	bit   capability
	value string // "" for none
}

// capabilities omits the values that depend on the configuration. A client's chghost never changes
// here. The capability exists for clients that request it with others.
func capabilities() []offered {
	return []offered{
		{"account-notify", capAccountNotify, ""},
		{"account-tag", capAccountTag, ""},
		{"away-notify", capAwayNotify, ""},
		{"batch", capBatch, ""},
		{"cap-notify", capNotify, ""},
		{"chghost", capChghost, ""},
		{"draft/account-registration", capRegister, ""},
		{"draft/chathistory", capHistory, ""},
		{"draft/event-playback", capPlayback, ""},
		{"draft/multiline", capMultiline, "max-bytes=" + itoa(maxMultilineBytes) + ",max-lines=" + itoa(maxMultilineLines)},
		{"draft/read-marker", capReadMarker, ""},
		{"echo-message", capEcho, ""},
		{"extended-join", capExtendedJoin, ""},
		{"extended-monitor", capExtendedMonitor, ""},
		{"freeq.at/act", capAct, ""},
		{"freeq.at/handoff", capHandoff, ""},
		{"freeq.at/msgsig", capMsgsig, ""},
		{"invite-notify", capInviteNotify, ""},
		{"labeled-response", capLabels, ""},
		{"message-tags", capTags, ""},
		{"multi-prefix", capMultiPrefix, ""},
		{"sasl", capSASL, ""},
		{"server-time", capTime, ""},
		{"setname", capSetname, ""},
		{"standard-replies", capReplies, ""},
		{"userhost-in-names", capUserhost, ""},
	}
}

func (c capability) has(one capability) bool { return c&one != 0 }

func (c capability) names() []string {
	var names []string
	for _, o := range capabilities() {
		if c.has(o.bit) {
			names = append(names, o.name)
		}
	}
	return names
}

func (l *Link) offers() []offered {
	return slices.DeleteFunc(capabilities(), func(o offered) bool {
		return !l.cfg.History && o.bit&(capHistory|capPlayback) != 0 || !l.cfg.AccountRegistration && o.bit == capRegister
	})
}

func (l *Link) listed(version int, mechanisms []string) []string {
	var names []string
	for _, o := range l.offers() {
		if o.bit == capSASL {
			o.value = strings.Join(mechanisms, ",")
		}
		if o.bit == capHandoff {
			o.value = l.handoffLimits()
		}
		if o.value != "" && version >= versionWithValues {
			o.name += "=" + o.value
		}
		names = append(names, o.name)
	}
	return names
}

// The limits are the maximum inline context in bytes, and the maximum deadline in seconds from now.
func (l *Link) handoffLimits() string {
	value := "context=" + itoa(translate.MaxContextBytes)
	if limit := l.ports.Limits.Current().MaxDeadline; limit > 0 {
		value += ",deadline=" + itoa(int(limit/time.Second))
	}
	return value
}

// Capability values may change after a reload.
//
// spec: ircv3 capability-negotiation "cap-notify"
func (s *server) notifyChanges() {
	now := s.link.listed(versionWithValues, nil)
	changed := slices.DeleteFunc(slices.Clone(now), func(each string) bool { return slices.Contains(s.listed, each) })
	s.listed = now
	if len(changed) == 0 {
		return
	}
	for u := range s.connected {
		if u.caps.has(capNotify) {
			s.send(u, textMessage(s.name, "CAP", u.named(), "NEW", strings.Join(changed, " ")))
		}
	}
}

// Version 302 introduced capability values and unsolicited announcements of changes.
const versionWithValues = 302

// An unknown name rejects the whole request.
func (c capability) change(request string, offers []offered) (after capability, ok bool) {
	after = c
	for name := range strings.FieldsSeq(request) {
		name, off := strings.CutPrefix(name, "-")
		at := slices.IndexFunc(offers, func(o offered) bool { return o.name == name })
		switch {
		case at < 0:
			return c, false
		case off:
			after &^= offers[at].bit
		default:
			after |= offers[at].bit
		}
	}
	return after, true
}
