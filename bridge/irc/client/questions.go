package client

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"baton/federation"
)

// asks reports whether a question to a server is for this one, and tells the client of any
// other that there is none. The parameter at that index names the server, or a user of it.
//
// spec: rfc2812 §3.4
func (s *server) asks(u *user, m ircmsg.Message, index int) bool {
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
	if s.asks(u, m, 0) {
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
	if s.asks(u, m, 1) {
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
	if s.asks(u, m, 0) {
		s.reply(u, rplVersion, softwareName, s.name, "a federation gateway")
		s.isupport(u)
	}
}

func (s *server) onTime(_ context.Context, u *user, m ircmsg.Message) {
	if s.asks(u, m, 0) {
		s.reply(u, rplTime, s.name, time.Now().UTC().Format(time.RFC1123))
	}
}

func (s *server) onAdmin(_ context.Context, u *user, m ircmsg.Message) {
	if !s.asks(u, m, 0) {
		return
	}
	s.reply(u, rplAdminMe, s.name, "Administrative info")
	s.reply(u, rplAdminLocation1, softwareName+" at "+s.link.ports.PublicURL)
	s.reply(u, rplAdminLocation2, "network "+s.link.cfg.Network)
	s.reply(u, rplAdminEmail, "the operator of "+s.name)
}

func (s *server) onInfo(_ context.Context, u *user, m ircmsg.Message) {
	if !s.asks(u, m, 0) {
		return
	}
	s.reply(u, rplInfo, softwareName+", a gateway for handoffs between networks")
	s.reply(u, rplEndOfInfo, "End of INFO list")
}

// onStats answers the one question about the server that is open to all clients: how long
// it has been up. Any other question has an empty answer.
func (s *server) onStats(_ context.Context, u *user, m ircmsg.Message) {
	if !s.asks(u, m, 1) {
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

// uptime writes a duration as STATS does.
//
// spec: rfc2812 §5.1
func uptime(d time.Duration) string {
	seconds := int(d / time.Second)
	return fmt.Sprintf("Server Up %d days %d:%02d:%02d", seconds/86400, seconds/3600%24, seconds/60%60, seconds%60)
}
