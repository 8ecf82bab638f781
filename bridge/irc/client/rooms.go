package client

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge/irc"
)

// The limit also applies to the reasons of KICK and PART.
const maxTopicBytes = 300

func (s *server) find(u *user, name string) (venue string, c *channel) {
	venue, c = s.visible(u, name)
	if c == nil {
		s.reply(u, errNoSuchChannel, clipParam(name), "No such channel")
	}
	return venue, c
}

func (s *server) visible(u *user, name string) (venue string, c *channel) {
	venue, _ = channelName(name)
	if c = s.channels[venue]; c == nil || !c.seen(u) {
		return "", nil
	}
	return venue, c
}

func (s *server) onJoin(ctx context.Context, u *user, m ircmsg.Message) {
	if m.Params[0] == "0" {
		for venue, c := range u.channels {
			s.part(u, venue, c, "")
		}
		return
	}
	var keys []string
	if len(m.Params) > 1 {
		keys = strings.Split(m.Params[1], ",")
	}
	for i, name := range targets(m.Params[0]) {
		key := ""
		if i < len(keys) {
			key = keys[i]
		}
		if venue, c := s.join(u, name, key); c != nil {
			s.replayOnJoin(ctx, u, venue, c)
		}
	}
}

// join creates the channel if necessary. It returns nil if the client did not join.
func (s *server) join(u *user, name, key string) (venue string, joined *channel) {
	venue, ok := channelName(name)
	c := s.channels[venue]
	switch {
	case !ok:
		s.reply(u, errNoSuchChannel, clipParam(name), "No such channel")
		return "", nil
	case u.channels[venue] != nil:
		return "", nil
	case len(u.channels) >= maxChannels, c == nil && len(s.channels) >= maxRooms:
		s.reply(u, errTooManyChannels, name, "You have joined too many channels")
		return "", nil
	case c == nil:
		c = newChannel(name, time.Now())
		s.channels[venue] = c
	}
	if numeric, why := c.bars(u, key, u.invited[venue]); numeric != "" {
		s.reply(u, numeric, c.name, why)
		return "", nil
	}
	delete(u.invited, venue)
	first := len(c.members) == 0 && !c.lasting
	c.members[u] = &member{operator: first || c.operators[u.account] && u.account != ""}
	if first {
		c.remember(u, true)
	}
	u.channels[venue] = c
	s.welcome(u, c)
	return venue, c
}

func (c *channel) bars(u *user, key string, invited bool) (numeric, why string) {
	switch {
	case invited || c.operators[u.account] && u.account != "":
		return "", ""
	case c.modes['i'] && !c.lists('I', u):
		return errInviteOnly, "Cannot join channel (+i)"
	case c.banned(u):
		return errBanned, "Cannot join channel (+b)"
	case c.key != "" && c.key != key:
		return errBadKey, "Cannot join channel (+k)"
	case c.limit > 0 && len(c.members) >= c.limit:
		return errChannelIsFull, "Cannot join channel (+l)"
	}
	return "", ""
}

func (c *channel) remember(u *user, operator bool) {
	switch {
	case u.account == "" || c.lasting:
	case !operator:
		delete(c.operators, u.account)
	case len(c.operators) < maxOperators:
		c.operators[u.account] = true
	}
}

func (s *server) welcome(u *user, c *channel) {
	s.spread(u.newMessage("JOIN", c.name, u.accountName(), u.real).text(), having(capExtendedJoin, c.everyone))
	s.spread(u.newMessage("JOIN", c.name), lacking(capExtendedJoin, c.everyone))
	if m := c.members[u]; m.operator {
		s.spread(newMessage(s.name, "MODE", c.name, "+o", u.nick), c.others(u))
	}
	if u.away != "" {
		s.spread(u.textMessage("AWAY", u.away), having(capAwayNotify, c.others(u)))
	}
	if c.topic != "" {
		s.topicOf(u, c)
	}
	if u.caps.has(capReadMarker) {
		s.sendMarker(u, c.name, s.markerKey(c.name))
	}
	s.namesOf(u, c)
}

func (m message) text() message {
	m.trailing = true
	return m
}

func (s *server) onPart(_ context.Context, u *user, m ircmsg.Message) {
	why := ""
	if len(m.Params) > 1 {
		why = irc.Cut(clean(m.Params[1]), maxTopicBytes)
	}
	for _, name := range targets(m.Params[0]) {
		venue, c := s.find(u, name)
		switch {
		case c == nil:
		case c.members[u] == nil:
			s.reply(u, errNotOnChannel, c.name, "You're not on that channel")
		default:
			s.part(u, venue, c, why)
		}
	}
}

func (s *server) part(u *user, venue string, c *channel, why string) {
	m := u.newMessage("PART", c.name)
	if why != "" {
		m = u.textMessage("PART", c.name, why)
	}
	s.spread(m, c.everyone)
	s.depart(u, venue, c)
}

func (s *server) depart(u *user, venue string, c *channel) {
	delete(c.members, u)
	delete(u.channels, venue)
	if len(c.members) == 0 && !c.lasting {
		delete(s.channels, venue)
	}
}

func (s *server) onTopic(ctx context.Context, u *user, m ircmsg.Message) {
	venue, c := s.find(u, m.Params[0])
	switch {
	case c == nil:
	case len(m.Params) == 1 && c.topic == "":
		s.reply(u, rplNoTopic, c.name, "No topic is set")
	case len(m.Params) == 1:
		s.topicOf(u, c)
	case c.members[u] == nil:
		s.reply(u, errNotOnChannel, c.name, "You're not on that channel")
	case c.modes['t'] && !c.members[u].operator:
		s.reply(u, errNotOperator, c.name, "You're not channel operator")
	default:
		c.topic, c.topicBy, c.topicAt = irc.Cut(clean(m.Params[1]), maxTopicBytes), u.nick, time.Now()
		out := u.textMessage("TOPIC", c.name, c.topic)
		out.msgid, out.at = newMessageID(c.topicAt), c.stamp(c.topicAt)
		s.spread(out, c.everyone)
		if s.keeps(out) {
			s.keepThen(ctx, u, lineOf(out, s.bufferOf(venue, c).place, s.author(u), ""), func() {})
		}
	}
}

func (s *server) topicOf(u *user, c *channel) {
	s.reply(u, rplTopic, c.name, c.topic)
	s.numeric(u, rplTopicTime, c.name, c.topicBy, strconv.FormatInt(c.topicAt.Unix(), 10))
}

func (s *server) onNames(_ context.Context, u *user, m ircmsg.Message) {
	if len(m.Params) == 0 {
		s.reply(u, rplEndOfNames, "*", "End of NAMES list")
		return
	}
	venue, _ := channelName(m.Params[0])
	if c := s.channels[venue]; c != nil && c.seen(u) {
		s.namesOf(u, c)
		return
	}
	s.reply(u, rplEndOfNames, clipParam(m.Params[0]), "End of NAMES list")
}

func (s *server) namesOf(u *user, c *channel) {
	kind := "="
	if c.modes['s'] {
		kind = "@"
	}
	for _, line := range c.names(u) {
		s.reply(u, rplNamReply, kind, c.name, line)
	}
	s.reply(u, rplEndOfNames, c.name, "End of NAMES list")
}

func (s *server) onList(_ context.Context, u *user, m ircmsg.Message) {
	var wanted []string
	if len(m.Params) > 0 {
		for _, name := range targets(m.Params[0]) {
			wanted = append(wanted, fold(name))
		}
	}
	for _, venue := range sorted(s.channels) {
		c := s.channels[venue]
		if c.seen(u) && (len(wanted) == 0 || slices.Contains(wanted, venue)) {
			s.reply(u, rplList, c.name, itoa(len(c.members)), c.topic)
		}
	}
	s.reply(u, rplListEnd, "End of LIST")
}

func (s *server) onInvite(_ context.Context, u *user, m ircmsg.Message) {
	guest := s.local(m.Params[0])
	if guest == nil || !guest.welcome {
		s.reply(u, errNoSuchNick, clipParam(m.Params[0]), "No such nick")
		return
	}
	venue, c := s.find(u, m.Params[1])
	switch {
	case c == nil:
	case c.members[u] == nil:
		s.reply(u, errNotOnChannel, c.name, "You're not on that channel")
	case c.members[guest] != nil:
		s.reply(u, errUserOnChannel, guest.nick, c.name, "is already on channel")
	case c.modes['i'] && !c.members[u].operator:
		s.reply(u, errNotOperator, c.name, "You're not channel operator")
	default:
		s.numeric(u, rplInviting, guest.nick, c.name)
		s.invite(u.newMessage("INVITE", guest.nick, c.name), guest, venue, c)
	}
}

func (s *server) invite(m message, guest *user, venue string, c *channel) {
	if len(guest.invited) < maxInvited {
		guest.invited[venue] = true
	}
	s.send(guest, m)
	s.spread(m, having(capInviteNotify, c.others(guest)))
}

func (s *server) onKick(_ context.Context, u *user, m ircmsg.Message) {
	venue, c := s.find(u, m.Params[0])
	if c == nil {
		return
	}
	victim := s.nicks[fold(m.Params[1])]
	why := u.nick
	if len(m.Params) > 2 && m.Params[2] != "" {
		why = irc.Cut(clean(m.Params[2]), maxTopicBytes)
	}
	switch {
	case c.members[u] == nil:
		s.reply(u, errNotOnChannel, c.name, "You're not on that channel")
	case !c.members[u].operator:
		s.reply(u, errNotOperator, c.name, "You're not channel operator")
	case victim == nil || c.members[victim] == nil:
		s.reply(u, errNotInChannel, clipParam(m.Params[1]), c.name, "They aren't on that channel")
	default:
		s.spread(u.textMessage("KICK", c.name, victim.nick, why), c.everyone)
		s.depart(victim, venue, c)
	}
}
