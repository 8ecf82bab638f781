package client

import (
	"context"
	"strings"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge/irc"
)

const maxWatched = 100

// spec: ircv3 monitor
func (s *server) onMonitor(_ context.Context, u *user, m ircmsg.Message) {
	var nicks []string
	if len(m.Params) > 1 {
		nicks = strings.Split(m.Params[1], ",")
	}
	switch strings.ToUpper(m.Params[0]) {
	case "+":
		s.watch(u, nicks)
	case "-":
		for _, nick := range nicks {
			s.unwatch(u, fold(nick))
		}
	case "C":
		for nick := range u.watching {
			s.unwatch(u, nick)
		}
	case "L":
		s.lists(u, rplMonList, sorted(u.watching))
		s.reply(u, rplEndOfMonList, "End of MONITOR list")
	case "S":
		s.present(u, sorted(u.watching))
	}
}

func (s *server) watch(u *user, nicks []string) {
	var added []string
	for i, nick := range nicks {
		switch {
		case !irc.ValidNick(nick) || len(nick) > maxNickBytes || u.watching[fold(nick)]:
			continue
		case len(u.watching) >= maxWatched:
			s.reply(u, errMonitorListFull, itoa(maxWatched), strings.Join(nicks[i:min(len(nicks), i+maxTargets)], ","), "Monitor list is full.")
			s.present(u, added)
			return
		}
		u.watching[fold(nick)] = true
		if s.watchers[fold(nick)] == nil {
			s.watchers[fold(nick)] = map[*user]bool{}
		}
		s.watchers[fold(nick)][u] = true
		added = append(added, nick)
	}
	s.present(u, added)
}

func (s *server) unwatch(u *user, nick string) {
	delete(u.watching, nick)
	delete(s.watchers[nick], u)
	if len(s.watchers[nick]) == 0 {
		delete(s.watchers, nick)
	}
}

func (s *server) present(u *user, nicks []string) {
	var here, gone []string
	for _, nick := range nicks {
		if who := s.nicks[fold(nick)]; who != nil && who.welcome {
			here = append(here, who.mask())
		} else {
			gone = append(gone, nick)
		}
	}
	s.lists(u, rplMonOnline, here)
	s.lists(u, rplMonOffline, gone)
}

func (s *server) lists(u *user, numeric string, names []string) {
	line := ""
	for _, name := range names {
		if len(line)+len(name) > maxListBytes {
			s.reply(u, numeric, line)
			line = ""
		}
		line = strings.TrimPrefix(line+","+name, ",")
	}
	if line != "" {
		s.reply(u, numeric, line)
	}
}

func (s *server) notifyWatchers(u *user, here bool) {
	for watcher := range s.watchers[fold(u.nick)] {
		if here {
			s.reply(watcher, rplMonOnline, u.mask())
		} else {
			s.reply(watcher, rplMonOffline, u.nick)
		}
	}
}
