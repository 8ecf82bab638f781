package spanningtree

import (
	"context"
	"fmt"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
)

// onQuestion answers what a user of the network asks this server, with the numerics of a server
// that has little to tell.
//
// spec: rfc2812 §3.4
func (s *session) onQuestion(_ context.Context, m ircmsg.Message) error {
	if s.net.users[m.Source] == nil {
		return nil
	}
	name := string(s.link.ports.Home)
	tell := func(numeric, format string, args ...any) {
		s.put(":%s NUM %s %s %s %s", s.sid(), s.sid(), m.Source, numeric, fmt.Sprintf(format, args...))
	}
	switch m.Command {
	case "ADMIN":
		tell("256", "%s :Administrative info", name)
		tell("257", ":Baton at %s", s.link.ports.PublicURL)
		tell("258", ":a gateway for handoffs between networks")
		tell("259", ":the operator of %s", name)
	case "INFO":
		tell("371", ":Baton, a gateway for handoffs between networks")
		tell("374", ":End of /INFO list")
	case "MOTD":
		tell("422", ":There is no message of the day")
	case "STATS":
		query := clip(m.Params[0], 1)
		tell("219", "%s :End of /STATS report", query)
	case "VERSION":
		tell("351", "Baton %s :a gateway for handoffs between networks", name)
	case "TIME":
		tell("391", "%s :%s", name, time.Now().UTC().Format(time.RFC1123))
	}
	return nil
}
