package spanningtree

import (
	"context"
	"errors"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
	"golang.org/x/time/rate"

	"baton/bridge/irc"
	"baton/federation"
	"baton/translate"
)

// onMessage reads a step, if the message is one, or what is said to the gateway's own
// user, and queues it for the judge.
func (s *session) onMessage(ctx context.Context, m ircmsg.Message) error {
	from := s.net.users[m.Source]
	if from == nil {
		return nil
	}
	if len(m.ClientOnlyTags()) == 0 {
		s.onText(ctx, m, from)
		return nil
	}
	in, err := s.decode(m)
	if errors.Is(err, translate.ErrNotHandoff) {
		s.onText(ctx, m, from)
		return nil
	}
	if !s.allow(ctx, m.Source, in.ev) {
		return nil
	}
	if err != nil {
		s.refuse(ctx, m.Source, err)
		return nil
	}
	_, msgid := m.GetTag("msgid")
	in.ev.Arrival = federation.Arrival{
		Network: network, Link: s.link.cfg.Name, Name: from.nick, User: from.ident, MessageID: msgid, Received: time.Now(),
		Place: s.link.channels.Place(in.ev.Venue),
	}
	s.enter(in)
	return nil
}

// allow counts one step of a user, against its own rate and that of the link. While the
// link is over its rate nothing is read. A limit of zero is none.
func (s *session) allow(ctx context.Context, uuid string, ev federation.Event) bool {
	limits := s.link.ports.Limits.Current()
	if perSecond := limits.LinkEventsPerSecond; perSecond > 0 {
		if s.events == nil || s.events.Burst() != perSecond {
			s.events = rate.NewLimiter(rate.Limit(perSecond), perSecond)
		}
		if wait := s.events.Reserve().Delay(); wait > 0 {
			s.pause = time.After(wait)
		}
	}
	ok, tell := s.net.users[uuid].meter.Take(limits.UserEventsPerMinute, time.Now())
	switch {
	case tell:
		s.refuse(ctx, uuid, federation.Refuse(ev, federation.RateLimited, ""))
	case !ok:
		s.link.ports.Metrics.Limited.WithLabelValues(network).Inc()
	}
	return ok
}

// decode reads a step and checks what this network can vouch for: the place, and no
// identity.
func (s *session) decode(m ircmsg.Message) (*inbound, error) {
	ev, err := irc.Decode(translate.Tagged{Command: m.Command, Target: m.Params[0], Tags: m.AllTags()})
	if err != nil {
		return &inbound{user: m.Source}, err
	}
	in := &inbound{user: m.Source, account: s.net.users[m.Source].account, line: s.reading, ev: ev}
	if ev.Venue == "" {
		in.to = s.private(m.Params[0])
	}
	switch {
	case in.to == "" && s.net.channels[ev.Venue] == nil:
		return in, federation.Refuse(ev, federation.InvalidTarget, "")
	case ev.From == "" && in.account == "":
		return in, federation.Refuse(ev, federation.MissingRequirement, fromTag(ev.Dialect))
	}
	return in, nil
}

// fromTag is the tag that names the signer.
func fromTag(d federation.Dialect) string {
	if d == federation.ActTags {
		return "+freeq.at/from"
	}
	return "+freeq.at/handoff-from"
}

// private returns the DID for which a target stands that is a user of ours, "" for any other
// target.
func (s *session) private(target string) federation.DID {
	byUUID := s.link.roster.byUUID
	if p := byUUID[target]; p != nil {
		return p.DID
	}
	if p := byUUID[s.net.owner(target)]; p != nil {
		return p.DID
	}
	return ""
}

// takeTagless acts on a message whose tags could not be read. Without them it is no step;
// its sender gets a reply where it may have meant one.
func (s *session) takeTagless(ctx context.Context, m ircmsg.Message) error {
	switch m.Command {
	case "TAGMSG", "PRIVMSG", "NOTICE":
	default:
		return s.dispatch(ctx, m)
	}
	if s.net.users[m.Source] == nil || len(m.Params) == 0 {
		return nil
	}
	venue, _ := translate.Channel(m.Params[0])
	ours := s.net.channels[venue] != nil || s.private(m.Params[0]) != ""
	if ours && s.allow(ctx, m.Source, federation.Event{}) {
		reply := irc.Reply{Code: federation.InvalidTag.Upper(), Subject: "*", Sentence: "the tags could not be read"}
		s.link.replies.Count(reply)
		s.notice(ctx, m.Source, reply.Text(), "")
	}
	return nil
}
