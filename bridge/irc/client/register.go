package client

import (
	"context"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"baton/bridge/irc"
	"baton/federation"
)

// Sizes of what clients are called.
const (
	maxNickBytes  = 30
	maxIdentBytes = 10
	maxRealBytes  = 150
)

// softwareName is what the server says it runs.
const softwareName = "baton"

// selfNick is the nick of the gateway's own user, which no client may take.
const selfNick = "Baton"

func (s *server) onNick(ctx context.Context, u *user, m ircmsg.Message) {
	if len(m.Params) == 0 || m.Params[0] == "" {
		s.reply(u, errNoNickGiven, "No nickname given")
		return
	}
	nick := m.Params[0]
	owner := s.nicks[fold(nick)]
	switch {
	case !irc.ValidNick(nick) || len(nick) > maxNickBytes:
		s.reply(u, errErroneousNick, clipParam(nick), "Erroneous nickname")
	case owner != nil && owner != u, fold(nick) == fold(selfNick):
		s.reply(u, errNickInUse, nick, "Nickname is already in use")
	case !u.welcome:
		s.rename(u, nick)
		s.register(ctx, u)
	case nick != u.nick:
		s.spread(u.says("NICK", nick), s.neighbours(u, true))
		changed := fold(nick) != fold(u.nick)
		if changed {
			s.tellWatchers(u, false)
		}
		s.rename(u, nick)
		if changed {
			s.tellWatchers(u, true)
		}
	}
}

// clipParam returns what a client sent as a parameter that is no text.
func clipParam(p string) string {
	if p == "" || strings.HasPrefix(p, ":") || strings.Contains(p, " ") {
		return "*"
	}
	return irc.Cut(p, maxChannelBytes)
}

// rename gives a client a nick.
func (s *server) rename(u *user, nick string) {
	if old := fold(u.nick); s.nicks[old] == u && old != fold(nick) {
		delete(s.nicks, old)
		s.remotes.release(old)
	}
	s.remotes.yield(nick)
	u.nick = nick
	s.nicks[fold(nick)] = u
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

// register welcomes a client that has said all it must.
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
	s.numeric(u, rplMyInfo, s.name, softwareName, "i", "biklmnostv", "bklov")
	s.isupport(u)
	s.lusers(u)
	s.motd(u)
	s.tellWatchers(u, true)
	s.startReplay(ctx, u)
	s.meet(ctx, u)
}

// isupport tells a client what it can rely on.
//
// spec: isupport
func (s *server) isupport(u *user) {
	for _, tokens := range [][]string{
		{
			"AWAYLEN=" + itoa(maxAwayBytes), "CASEMAPPING=ascii", "CHATHISTORY=" + itoa(s.link.atOnce(maxHistory)), "CHANLIMIT=#:" + itoa(maxChannels), "CHANMODES=b,k,l,imnst",
			"CHANNELLEN=" + itoa(maxChannelBytes), "CHANTYPES=#", "KICKLEN=" + itoa(maxTopicBytes), "MAXLIST=b:" + itoa(maxBans),
			"MODES=" + itoa(maxModes), "MONITOR=" + itoa(maxWatched), "NAMELEN=" + itoa(maxRealBytes), "NETWORK=" + s.link.cfg.Network,
		},
		{
			"MSGREFTYPES=timestamp,msgid", "NICKLEN=" + itoa(maxNickBytes), "PREFIX=(ov)@+", "SAFELIST", "TARGMAX=JOIN:,PART:,KICK:1,NAMES:1,WHOIS:1,PRIVMSG:" + itoa(maxTargets) + ",NOTICE:" + itoa(maxTargets) + ",TAGMSG:1",
			"TOPICLEN=" + itoa(maxTopicBytes), "USERLEN=" + itoa(maxIdentBytes), "UTF8ONLY", "WHOX",
		},
	} {
		s.reply(u, rplISupport, append(tokens, "are supported by this server")...)
	}
}

// onSetname changes a real name.
//
// spec: ircv3 setname
func (s *server) onSetname(_ context.Context, u *user, m ircmsg.Message) {
	name := irc.Plain(m.Params[0])
	if name == "" || len(name) > maxRealBytes {
		s.fail(u, "SETNAME", "INVALID_REALNAME", "", "Realname is not valid")
		return
	}
	u.real = name
	s.spread(u.says("SETNAME", name), having(capSetname, s.neighbours(u, true)))
}

// maxAwayBytes bounds the reason of an absence.
const maxAwayBytes = 200

// onAway notes that a user is away, or back.
//
// spec: ircv3 away-notify
func (s *server) onAway(_ context.Context, u *user, m ircmsg.Message) {
	why := ""
	if len(m.Params) > 0 {
		why = irc.Cut(clean(m.Params[0]), maxAwayBytes)
	}
	changed := why != u.away
	u.away = why
	notice := u.tells("AWAY")
	if why == "" {
		s.reply(u, rplUnAway, "You are no longer marked as being away")
	} else {
		s.reply(u, rplNowAway, "You have been marked as being away")
		notice = u.says("AWAY", why)
	}
	if changed {
		s.spread(notice, having(capAwayNotify, s.neighbours(u, false)))
	}
}
