package client

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

func (s *server) onTalk(ctx context.Context, u *user, m ircmsg.Message) {
	if s.addLine(u, m) {
		return
	}
	switch {
	case len(m.Params) == 0 || m.Params[0] == "":
		s.reply(u, errNoRecipient, "No recipient given ("+m.Command+")")
		return
	case m.Command != "TAGMSG" && (len(m.Params) == 1 || m.Params[1] == ""):
		s.reply(u, errNoText, "No text to send")
		return
	case !s.allow(u, m.Command):
		return
	case len(m.AllTags()) > irc.MaxTags:
		s.reply(u, errInputTooLong, "Too many tags")
		return
	}
	if s.onAck(u, m) {
		return
	}
	ev, err := irc.Decode(translate.Tagged{Command: m.Command, Target: m.Params[0], Tags: m.AllTags()})
	step := !errors.Is(err, translate.ErrNotHandoff)
	if step {
		s.onStep(ctx, u, m, ev, err)
	}
	if m.Command == "TAGMSG" && (step || len(m.ClientOnlyTags()) == 0) {
		return
	}
	for _, target := range s.talkTargets(u, m) {
		s.relay(ctx, u, m, target, nil)
	}
}

// Tags without text go to one target, as steps do.
func (s *server) talkTargets(u *user, m ircmsg.Message) []string {
	all := targets(m.Params[0])
	if m.Command == "TAGMSG" {
		all = all[:min(len(all), 1)]
	}
	if len(all) == 0 {
		s.reply(u, errNoRecipient, "No recipient given ("+m.Command+")")
	}
	return all
}

func (s *server) allow(u *user, command string) bool {
	ok, tell := u.meter.Take(s.link.ports.Limits.Current().UserEventsPerMinute, time.Now())
	if !ok {
		s.link.ports.Metrics.Limited.WithLabelValues(network).Inc()
	}
	if tell {
		s.fail(u, command, federation.RateLimited.Upper(), "*", federation.RateLimited.Sentence())
	}
	return ok
}

// relay removes step tags, which only a step may have.
func (s *server) relay(ctx context.Context, u *user, m ircmsg.Message, target string, pieces []piece) {
	out := u.textMessage(m.Command, append([]string{target}, m.Params[1:]...)...)
	out.tags = maps.Clone(m.ClientOnlyTags())
	maps.DeleteFunc(out.tags, func(name, _ string) bool { return ofStep(name) })
	out.trailing = m.Command != "TAGMSG"
	out.msgid, out.at = newMessageID(time.Now()), time.Now()
	if out.pieces = pieces; pieces != nil {
		out.ref = s.reference()
	}
	u.spoke = time.Now()
	if strings.HasPrefix(target, "#") {
		s.sendToChannel(ctx, u, out)
		return
	}
	s.sendToNick(ctx, u, out)
}

// ofStep reports whether a tag belongs to a step or names an author. Only the gateway sets these.
func ofStep(name string) bool {
	name, ours := strings.CutPrefix(strings.TrimPrefix(name, "+"), "freeq.at/")
	return ours && (translate.InDialect(name, federation.HandoffTags) || translate.InDialect(name, federation.ActTags) ||
		slices.Contains([]string{translate.TagEventID, translate.TagSignature, "from", "did"}, name))
}

func newMessageID(now time.Time) string {
	id, err := federation.NewEventID(now, rand.Reader)
	if err != nil {
		return "" // clock beyond the year 10889
	}
	return id.String()
}

func (s *server) sendToChannel(ctx context.Context, u *user, m message) {
	venue, c := s.visible(u, m.params[0])
	silent := m.command == "NOTICE" // gets no error: RFC 2812 §3.3.2
	switch {
	case c == nil && !silent:
		s.reply(u, errNoSuchChannel, clipParam(m.params[0]), "No such channel")
	case c != nil && !c.speaks(u) && !silent:
		s.reply(u, errCannotSend, c.name, "Cannot send to channel")
	}
	if c == nil || !c.speaks(u) {
		return
	}
	m.params[0], m.at = c.name, c.stamp(m.at)
	to := c.others(u)
	if m.command == "TAGMSG" {
		to = having(capTags, to)
	}
	s.spread(m, to)
	if u.work != nil && len(u.later) == 0 { // the readable line of a step: each link writes its own
		s.echo(u, m)
		return
	}
	var kept *federation.Line
	if s.keeps(m) {
		line := lineOf(m, s.bufferOf(venue, c).place, s.author(u), "")
		kept = &line
	}
	typing := irc.Typing(m.tags)
	if m.command == "TAGMSG" && typing != "" && slices.Contains(s.link.relayed, venue) {
		s.changed(u, bridge.PresenceChange{Typing: typing, Venue: venue, Message: m.msgid})
	}
	relays := m.command != "TAGMSG" || irc.RefsIn(m.tags).Reacts()
	switch {
	case relays && s.toLinks(ctx, u, venue, m, kept):
	case kept != nil:
		s.keepThen(ctx, u, *kept, func() { s.echo(u, m) })
	default:
		s.echo(u, m)
	}
}

func (s *server) sendToNick(ctx context.Context, u *user, m message) {
	if fold(m.params[0]) == fold(selfNick) {
		s.echo(u, m)
		s.toSelf(ctx, u, m)
		return
	}
	to := s.local(m.params[0])
	if to == nil || !to.welcome {
		if s.toRemote(ctx, u, m) {
			return
		}
		if m.command != "NOTICE" {
			s.reply(u, errNoSuchNick, clipParam(m.params[0]), "No such nick")
		}
		return
	}
	m.params[0] = to.nick
	switch {
	case m.command == "TAGMSG" && !to.caps.has(capTags):
	case to == u:
		s.put(u, m, "") // the only answer to a labelled command is the echo
	default:
		s.send(to, m)
	}
	s.keepPrivate(ctx, u, to, m, func() {
		s.echo(u, m)
		if to.away != "" && m.command == "PRIVMSG" {
			s.reply(u, rplAway, to.nick, to.away)
		}
	})
}

func (s *server) self() string { return selfNick + "!baton@" + s.name }

// spec: ircv3 echo-message
func (s *server) echo(u *user, m message) {
	if u.caps.has(capEcho) && (m.command != "TAGMSG" || u.caps.has(capTags)) {
		s.send(u, m)
	}
}

// spec: ircv3 server-time
const timeLayout = "2006-01-02T15:04:05.000Z"

// didTag names the sender's authenticated DID on another network. Clients cannot send it, because it
// has no "+".
const didTag = "freeq.at/did"

type message struct {
	source   string
	account  string
	bot      bool
	did      string
	tags     map[string]string // client-only tags by full name, forwarded unchanged
	msgid    string
	at       time.Time // zero for now
	batch    string
	command  string
	params   []string
	trailing bool // the last parameter always has a colon

	pieces []piece // nil unless the message is multiline
	ref    string
	joined bool // continues the previous line of the batch
}

func textMessage(source, command string, params ...string) message {
	return message{source: source, command: command, params: params, trailing: true}
}

func newMessage(source, command string, params ...string) message {
	return message{source: source, command: command, params: params}
}

func seenBy(c capability) capability {
	return c & (capTags | capTime | capAccountTag | capBatch | capLabels | capMultiline)
}

// The label belongs to the answered command. A long message is truncated between characters.
func (m message) line(c capability, label string, now time.Time) []byte {
	if m.pieces != nil {
		return m.block(c, label, now)
	}
	out := ircmsg.MakeMessage(nil, m.source, m.command, m.params...)
	if c.has(capTags) {
		for name, value := range m.tags {
			out.SetTag(name, value)
		}
		if m.msgid != "" {
			out.SetTag("msgid", m.msgid)
		}
		if m.did != "" {
			out.SetTag(didTag, m.did)
		}
		if m.bot {
			out.SetTag("bot", "")
		}
	}
	if c.has(capTime) {
		at := m.at
		if at.IsZero() {
			at = now
		}
		out.SetTag("time", at.UTC().Format(timeLayout))
	}
	if c.has(capAccountTag) && m.account != "" {
		out.SetTag("account", m.account)
	}
	if c.has(capBatch) && m.batch != "" {
		out.SetTag("batch", m.batch)
	}
	if m.joined {
		out.SetTag(concatTag, "")
	}
	if c.has(capLabels) && label != "" {
		out.SetTag("label", label)
	}
	if m.trailing {
		out.ForceTrailing()
	}
	text, _ := out.LineBytesStrict(false, maxBodyBytes) // a long line is truncated; a parameter that does not fit gives no line
	return text
}

func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '\r', '\n', 0:
			return ' '
		}
		return r
	}, s)
}

// spec: ircv3 utf8-only
func validText(s string) bool { return utf8.ValidString(s) }
