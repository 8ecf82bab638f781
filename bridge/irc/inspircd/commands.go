package inspircd

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/translate"
)

// An error of a command ends the link.
type command struct {
	params int
	run    func(s *session, ctx context.Context, m ircmsg.Message) error
}

// A leaf ignores all other commands.
//
// spec: InspIRCd spanning tree 1205, 1206
func commands() map[string]command {
	return map[string]command{
		"BURST":    {0, (*session).onBurst},
		"ENDBURST": {0, (*session).onEndBurst},
		"PING":     {1, (*session).onPing},
		"PONG":     {0, (*session).onPong},
		"ERROR":    {0, (*session).onError},
		"SERVER":   {2, (*session).onServer},
		"SQUIT":    {1, (*session).onSplit},
		"UID":      {3, (*session).onUser},
		"NICK":     {1, (*session).onNick},
		"QUIT":     {0, (*session).onQuit},
		"AWAY":     {0, (*session).onAway},
		"KILL":     {1, (*session).onKill},
		"SAVE":     {1, (*session).onSave},
		"FJOIN":    {2, (*session).onJoin},
		"IJOIN":    {1, (*session).onEnter},
		"PART":     {1, (*session).onPart},
		"KICK":     {2, (*session).onKick},
		"FMODE":    {3, (*session).onModes},
		"LMODE":    {3, (*session).onMasks},
		"INVITE":   {2, (*session).onInvite},
		"ENCAP":    {2, (*session).onEncap},
		"SVSNICK":  {3, (*session).onRename},
		"SVSJOIN":  {2, (*session).onBring},
		"SVSPART":  {2, (*session).onTakeOut},
		"RSQUIT":   {1, (*session).onRemoteSplit},
		"RESYNC":   {1, (*session).onResync},
		"METADATA": {2, (*session).onMetadata},
		"IDLE":     {1, (*session).onIdle},
		"ADMIN":    {0, (*session).onQuestion},
		"INFO":     {0, (*session).onQuestion},
		"MOTD":     {0, (*session).onQuestion},
		"STATS":    {1, (*session).onQuestion},
		"TIME":     {0, (*session).onQuestion},
		"VERSION":  {0, (*session).onQuestion},
		"TAGMSG":   {1, (*session).onMessage},
		"PRIVMSG":  {1, (*session).onMessage},
		"NOTICE":   {1, (*session).onMessage},
	}
}

// identParam is the index of the ident in UID: the real one if there is also a shown one.
const identParam = 5

// signonFromEnd is the index of the connection time in UID, from the end of its parameters.
const signonFromEnd = 3

// A reason is a metric label from a closed set.
type reason string

const (
	tooLong       reason = "too_long"
	malformed     reason = "malformed"
	unreadable    reason = "unreadable_tags"
	unknownSource reason = "unknown_source"
	noMessageID   reason = "no_msgid"
)

func (s *session) badInput(ctx context.Context, why reason, command string) {
	s.link.ports.Metrics.BadInput.WithLabelValues(network, s.link.cfg.Name, string(why)).Inc()
	s.log.LogAttrs(ctx, slog.LevelInfo, "unreadable line", slog.String("reason", string(why)), slog.String("command", command))
}

func unixSeconds(text string) (seconds int64, ok bool) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	return seconds, err == nil && seconds > 0
}

func (s *session) onPing(_ context.Context, m ircmsg.Message) error {
	asker := m.Source
	if asker == "" {
		asker = s.net.peer
	}
	s.put(":%s PONG %s", s.sid(), asker)
	return nil
}

// A PONG proves that the peer has the rows sent before the oldest unanswered PING.
func (s *session) onPong(ctx context.Context, m ircmsg.Message) error {
	if m.Source != "" && m.Source != s.net.peer || len(s.pings) == 0 {
		s.badInput(ctx, malformed, m.Command)
		return nil
	}
	for _, r := range s.pings[0] {
		s.proved(r)
	}
	s.pings = s.pings[1:]
	return nil
}

func (s *session) onError(_ context.Context, m ircmsg.Message) error { return s.lost(saidError(m)) }

func (s *session) onServer(ctx context.Context, m ircmsg.Message) error {
	sid := m.Params[1]
	if !validSID(sid) || sid == s.sid() || s.net.knows(sid) {
		s.badInput(ctx, malformed, m.Command)
		return nil
	}
	s.net.servers[sid] = m.Source
	return nil
}

func (s *session) onSplit(_ context.Context, m ircmsg.Message) error {
	gone := m.Params[0]
	if _, known := s.net.servers[gone]; known && gone != s.net.peer { // the peer itself ends with the connection
		s.net.split(gone)
		s.gone()
	}
	return nil
}

func (s *session) onUser(ctx context.Context, m ircmsg.Message) error {
	uuid, nick := m.Params[0], m.Params[2]
	if len(m.Params) < s.protocol.uidParams() || len(uuid) != uuidBytes || uuid[:sidBytes] != m.Source || s.net.knows(uuid) {
		s.badInput(ctx, malformed, m.Command)
		return nil
	}
	s.named(uuid, nick)
	u := s.net.users[uuid]
	u.ident, u.signon = m.Params[identParam], m.Params[s.protocol.uidParams()-signonFromEnd]
	s.retryMissed() // a holder is identified by its connection
	return nil
}

func (s *session) onNick(ctx context.Context, m ircmsg.Message) error {
	if len(m.Source) != uuidBytes {
		s.badInput(ctx, malformed, m.Command)
		return nil
	}
	u := s.net.users[m.Source]
	guest := s.isGuest(u)
	s.named(m.Source, m.Params[0])
	if u.relayed != "" {
		now := u.relayed
		if guest {
			now = s.link.ports.Messages.Guest(s.link.cfg.Name, u.nick)
		}
		s.changedUser(u, bridge.PresenceChange{Name: u.nick, Now: now})
	}
	return nil
}

func (s *session) onAway(_ context.Context, m ircmsg.Message) error {
	if u := s.net.users[m.Source]; u != nil {
		u.away = ""
		if len(m.Params) > 1 {
			u.away = irc.Text(m.Params[1])
		}
		s.changedUser(u, bridge.PresenceChange{Away: u.away})
	}
	return nil
}

// Our users always yield, because a nick on that network belongs to its own users.
func (s *session) named(uuid, nick string) {
	ours := s.link.roster.byUUID[s.net.owner(nick)]
	s.net.rename(uuid, nick)
	s.retryMissed()
	if ours != nil {
		s.yield(ours)
	}
	s.reclaim()
}

func (s *session) gone() {
	s.doubtAbsent()
	s.remakeEmpty()
	s.reclaim()
}

func (s *session) onQuit(_ context.Context, m ircmsg.Message) error {
	s.net.quit(m.Source)
	s.gone()
	return nil
}

// One of our users returns with a new ID, because the whole network has dropped the old one.
func (s *session) onKill(_ context.Context, m ircmsg.Message) error {
	p := s.link.roster.byUUID[m.Params[0]]
	if p == nil {
		s.net.quit(m.Params[0])
		s.gone()
		return nil
	}
	if !p.here {
		return nil
	}
	s.doubt(errKilled, func(r *outbound) bool { return r.uuid == p.uuid })
	s.net.forget(p.uuid, p.Nick)
	p.here, p.Nick, p.given = false, "", false
	p.LeaveChannels()
	clear(p.memberships)
	clear(p.visits)
	s.changed = true
	s.link.roster.mint(p)
	s.thrownOut(p)
	return nil
}

// A timestamp other than that of the lost nick refers to an earlier nick of the user.
func (s *session) onSave(_ context.Context, m ircmsg.Message) error {
	p := s.link.roster.byUUID[m.Params[0]]
	if p == nil {
		if _, theirs := s.net.users[m.Params[0]]; theirs {
			s.net.rename(m.Params[0], m.Params[0])
		}
		return nil
	}
	if len(m.Params) > 1 && m.Params[1] != strconv.FormatInt(p.nickTS, 10) {
		return nil
	}
	s.yield(p)
	return nil
}

// The peer's timestamp is used if it is older, or if none of our users is a member.
func (s *session) onJoin(ctx context.Context, m ircmsg.Message) error {
	venue, _ := translate.Channel(m.Params[0])
	ch := s.net.channels[venue]
	if ch == nil {
		return nil
	}
	ts, ok := unixSeconds(m.Params[1])
	if !ok {
		s.badInput(ctx, malformed, m.Command)
		return nil
	}
	if ch.ts == 0 || ts < ch.ts || !s.occupied(venue) {
		if ts != ch.ts {
			ch.ours, ch.ts, ch.rules = false, ts, newRules()
		}
		ch.name = m.Params[0]
	}
	if last := len(m.Params) - 1; ts == ch.ts && last > 2 && !s.change(ch, m.Params[2], m.Params[3:last]) {
		s.badInput(ctx, malformed, m.Command)
	}
	s.fill(ch, m.Params[len(m.Params)-1])
	s.readmit(ch)
	s.changed = true
	return nil
}

// A KICK of one of our users has the ID of the ended membership, because the user may have rejoined
// since.
func (s *session) onKick(_ context.Context, m ircmsg.Message) error {
	venue, _ := translate.Channel(m.Params[0])
	p := s.link.roster.byUUID[m.Params[1]]
	if p == nil {
		s.left(venue, m.Params[1])
		return nil
	}
	delete(p.visits, venue)
	if !p.In[venue] || len(m.Params) > 3 && m.Params[2] != strconv.Itoa(p.memberships[venue].id) {
		return nil
	}
	s.outside(p, venue)
	s.thrownOut(p)
	return nil
}

func (s *session) onResync(_ context.Context, m ircmsg.Message) error {
	venue, _ := translate.Channel(m.Params[0])
	for _, p := range s.link.roster.All() {
		if p.In[venue] {
			s.join(p, s.net.channels[venue])
		}
	}
	return nil
}

func (s *session) onMetadata(_ context.Context, m ircmsg.Message) error {
	if m.Params[1] == "accountname" {
		s.onAccount(m)
		return nil
	}
	if m.Params[0] != "*" || m.Params[1] != "modules" || m.Source != s.net.peer || len(m.Params) < 3 {
		return nil
	}
	if name, loaded := strings.CutPrefix(m.Params[2], "+"); loaded {
		s.net.module(name, true)
		s.changed = true
	} else if name, unloaded := strings.CutPrefix(m.Params[2], "-"); unloaded {
		s.net.module(name, false)
		s.changed = true
	}
	return nil
}

func (s *session) onIdle(_ context.Context, m ircmsg.Message) error {
	p := s.link.roster.byUUID[m.Params[0]]
	if p == nil || !p.here {
		return nil
	}
	last := time.Unix(p.signon, 0)
	if p.Spoke.After(last) {
		last = p.Spoke
	}
	s.put(":%s IDLE %s %d %d", p.uuid, m.Source, p.signon, int64(time.Since(last).Seconds()))
	return nil
}
