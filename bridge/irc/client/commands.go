package client

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge"
)

type command struct {
	params int  // minimum number
	early  bool // allowed before registration
	run    func(s *server, ctx context.Context, u *user, m ircmsg.Message)
}

// An unsupported command is answered with 421.
//
// spec: rfc1459 §4, §5; rfc2812 §3; ircv3
func commands() map[string]command {
	return map[string]command{
		"CAP":          {1, true, (*server).onCap},
		"NICK":         {0, true, (*server).onNick},
		"USER":         {4, true, (*server).onUser},
		"PASS":         {1, true, (*server).onPass},
		"PING":         {1, true, (*server).onPing},
		"PONG":         {0, true, (*server).onPong},
		"QUIT":         {0, true, (*server).onQuit},
		"AUTHENTICATE": {1, true, (*server).onAuthenticate},
		"REGISTER":     {3, true, (*server).onRegister},
		"MSGSIG":       {1, false, (*server).onMsgsig},
		"SETNAME":      {1, false, (*server).onSetname},
		"JOIN":         {1, false, (*server).onJoin},
		"PART":         {1, false, (*server).onPart},
		"TOPIC":        {1, false, (*server).onTopic},
		"NAMES":        {0, false, (*server).onNames},
		"LIST":         {0, false, (*server).onList},
		"INVITE":       {2, false, (*server).onInvite},
		"KICK":         {2, false, (*server).onKick},
		"MODE":         {1, false, (*server).onMode},
		"BATCH":        {1, false, (*server).onBatch},
		"PRIVMSG":      {0, false, (*server).onTalk},
		"NOTICE":       {0, false, (*server).onTalk},
		"TAGMSG":       {0, false, (*server).onTalk},
		"WHO":          {0, false, (*server).onWho},
		"WHOIS":        {1, false, (*server).onWhois},
		"WHOWAS":       {0, false, (*server).onWhowas},
		"HELP":         {0, false, (*server).onHelp},
		"USERHOST":     {1, false, (*server).onUserhost},
		"ISON":         {1, false, (*server).onIson},
		"MONITOR":      {1, false, (*server).onMonitor},
		"MARKREAD":     {0, false, (*server).onMarkread},
		"CHATHISTORY":  {0, false, (*server).onHistory},
		"AWAY":         {0, false, (*server).onAway},
		"MOTD":         {0, false, (*server).onMOTD},
		"LUSERS":       {0, false, (*server).onLusers},
		"VERSION":      {0, false, (*server).onVersion},
		"TIME":         {0, false, (*server).onTime},
		"ADMIN":        {0, false, (*server).onAdmin},
		"INFO":         {0, false, (*server).onInfo},
		"STATS":        {0, false, (*server).onStats},
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// spec: ircv3 capability-negotiation
func (s *server) onCap(ctx context.Context, u *user, m ircmsg.Message) {
	var value string
	if len(m.Params) > 1 {
		value = m.Params[1]
	}
	switch strings.ToUpper(m.Params[0]) {
	case "LS":
		s.hold(u)
		if version, err := strconv.Atoi(value); err == nil && version > u.version {
			u.version = version
		}
		if u.version >= versionWithValues {
			u.caps |= capNotify
		}
		s.listCaps(u, "LS", s.link.listed(u.version, u.mechanisms()))
	case "LIST":
		s.listCaps(u, "LIST", u.caps.names())
	case "REQ":
		s.hold(u)
		answer := "NAK"
		if after, ok := u.caps.change(value, s.link.offers()); ok {
			u.caps, answer = after, "ACK"
		}
		s.send(u, textMessage(s.name, "CAP", u.named(), answer, value))
		s.startReplay(ctx, u)
	case "END":
		u.negotiating = false
		s.register(ctx, u)
	default:
		s.reply(u, errInvalidCap, orStar(m.Params[0]), "Invalid CAP command")
	}
}

func (s *server) hold(u *user) { u.negotiating = !u.welcome }

func (s *server) listCaps(u *user, sub string, names []string) {
	room := maxBodyBytes - len(":"+s.name+" CAP "+u.named()+" "+sub+" * :\r\n") // clients of an older version read one line
	for first := true; first || len(names) > 0; first = false {
		n, size := 0, 0
		for n < len(names) && size+len(names[n]) <= room {
			size += len(names[n]) + 1
			n++
		}
		line := strings.Join(names[:n], " ")
		if names = names[n:]; len(names) > 0 && u.version >= versionWithValues {
			s.send(u, textMessage(s.name, "CAP", u.named(), sub, "*", line))
			continue
		}
		s.send(u, textMessage(s.name, "CAP", u.named(), sub, line))
	}
}

// Clients log in with SASL instead of a password.
func (s *server) onPass(_ context.Context, u *user, _ ircmsg.Message) {
	if u.welcome {
		s.reply(u, errAlreadyIn, "You may not reregister")
	}
}

func (s *server) onPing(_ context.Context, u *user, m ircmsg.Message) {
	s.send(u, textMessage(s.name, "PONG", s.name, m.Params[0]))
}

func (s *server) onQuit(_ context.Context, u *user, m ircmsg.Message) {
	why := "Quit"
	if len(m.Params) > 0 && m.Params[0] != "" {
		why = "Quit: " + m.Params[0]
	}
	s.quit(u, why)
}

func (s *server) quit(u *user, why string) {
	if u.over {
		return
	}
	if !u.full && !u.handshaking {
		s.put(u, textMessage("", "ERROR", "Closing link: "+why), "")
	}
	if u.over {
		return
	}
	u.over = true
	if s.connected[u] {
		delete(s.connected, u)
		s.admission.leave(u)
	}
	if u.welcome {
		s.spread(u.textMessage("QUIT", why), s.neighbours(u, false))
	}
	s.forget(u)
	if len(s.accounts[u.account]) == 0 {
		s.changed(u, bridge.PresenceChange{Gone: true})
	}
	s.touch(u)
}

func (s *server) forget(u *user) {
	s.stopReplay(u)
	s.unproved(u)
	if u.unwatch != nil {
		u.unwatch()
	}
	for venue, c := range u.channels {
		s.depart(u, venue, c)
	}
	if u.nick != "" && s.nicks[fold(u.nick)] == u {
		delete(s.nicks, fold(u.nick))
		s.release(u.nick)
		if u.welcome {
			s.recordDeparted(u)
			s.notifyWatchers(u, false)
		}
	}
	delete(s.accounts[u.account], u)
	if len(s.accounts[u.account]) == 0 {
		delete(s.accounts, u.account)
	}
	for nick := range u.watching {
		s.unwatch(u, nick)
	}
}

func (s *server) neighbours(u *user, self bool) iter.Seq[*user] {
	return func(yield func(*user) bool) {
		seen := map[*user]bool{u: true}
		if self && !yield(u) {
			return
		}
		for _, c := range u.channels {
			for other := range c.members {
				if !seen[other] && !yield(other) {
					return
				}
				seen[other] = true
			}
		}
	}
}

// spec: ircv3 extended-monitor
func (s *server) observers(u *user, self bool) iter.Seq[*user] {
	return func(yield func(*user) bool) {
		seen := map[*user]bool{u: true}
		for other := range s.neighbours(u, self) {
			seen[other] = true
			if !yield(other) {
				return
			}
		}
		for other := range s.watchers[fold(u.nick)] {
			if !seen[other] && other.caps.has(capExtendedMonitor) && !yield(other) {
				return
			}
		}
	}
}

func having(c capability, of iter.Seq[*user]) iter.Seq[*user] {
	return func(yield func(*user) bool) {
		of(func(u *user) bool { return !u.caps.has(c) || yield(u) })
	}
}

func lacking(c capability, of iter.Seq[*user]) iter.Seq[*user] {
	return func(yield func(*user) bool) {
		of(func(u *user) bool { return u.caps.has(c) || yield(u) })
	}
}

func targets(list string) []string {
	all := strings.Split(list, ",")
	all = slices.DeleteFunc(all, func(t string) bool { return t == "" })
	return all[:min(len(all), maxTargets)]
}

const maxTargets = 10
