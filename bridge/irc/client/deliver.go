package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

var errNotListening = errors.New("not listening")

type outbound struct {
	d     federation.Delivery
	forms map[federation.Dialect]map[string]string
	name  string // for an actor without a nick here
	line  string
}

// Deliver implements [bridge.Link]. It returns nil once the step is written, and does not wait for
// slow members. Only the first attempt writes the readable line.
//
// It omits parties of the handoff that support steps. They receive the step from their inbox, in
// order.
func (l *Link) Deliver(ctx context.Context, d federation.Delivery) error {
	if !l.writes(d.View) {
		return federation.Refuse(d.Entry.Event, federation.InvalidTarget, "no place of this server")
	}
	s := l.live.Load()
	if s == nil {
		return l.unavailable(errNotListening)
	}
	wanted := make(chan []federation.Dialect, 1)
	if !s.ask(func() { wanted <- s.wanted(d) }) {
		return l.unavailable(errNotListening)
	}
	r := outbound{d: d, forms: make(map[federation.Dialect]map[string]string), name: l.ports.Gateway.Name(ctx, d.Entry.Event.Actor())}
	for _, in := range <-wanted {
		tags, err := l.render(ctx, d, in)
		if err != nil {
			return err
		}
		r.forms[in] = tags
	}
	if l.ShowsOnce(d) && d.Attempt == 0 {
		r.line = irc.Summary(translate.Step{
			Entry: d.Entry, View: d.View, Name: func(did federation.DID) string { return l.ports.Gateway.Name(ctx, did) },
		})
	}
	if !s.ask(func() { s.deliver(r) }) {
		return l.unavailable(errNotListening)
	}
	return nil
}

// ShowsOnce implements [bridge.OnceShower] for the readable line.
func (l *Link) ShowsOnce(d federation.Delivery) bool {
	return d.Entry.Version > 0 // a message has no line
}

var _ bridge.OnceShower = (*Link)(nil)

func (l *Link) unavailable(err error) error {
	return irc.Unavailable(l.Name(), err)
}

// If a step was signed in that dialect for that place, the tags are exactly the signed ones.
func (l *Link) render(ctx context.Context, d federation.Delivery, in federation.Dialect) (map[string]string, error) {
	d.View.Dialect = in
	rendered, losses, err := irc.Render(ctx, l.ports, d)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", d.Entry.Event.ID, err)
	}
	irc.LogLosses(ctx, l.log, rendered, losses)
	return irc.Tags(rendered, d.View, "")
}

// A receipt is written unchanged or not at all, because a rendered receipt proves nothing.
func (s *server) wanted(d federation.Delivery) []federation.Dialect {
	c := s.channels[d.View.Venue]
	if c == nil {
		return nil
	}
	signed := d.Entry.Event.Dialect
	in := make(map[federation.Dialect]bool)
	for u := range c.members {
		if s.receivesInChannel(u, d) {
			in[u.caps.reads(signed)] = true
		}
	}
	delete(in, "")
	if d.Entry.Version == 0 {
		for _, other := range sorted(in) {
			if other != signed {
				delete(in, other)
			}
		}
	}
	return sorted(in)
}

func (s *server) receivesInChannel(u *user, d federation.Delivery) bool {
	return u.caps.reads(d.Entry.Event.Dialect) != "" && (u.replay == nil || d.Entry.Version == 0 || !inbox(d, u.account))
}

// A later assignee is not a recipient of earlier steps.
func inbox(d federation.Delivery, did federation.DID) bool {
	v := d.View
	assigned := did == v.Assignee && v.Answered > 0 && d.Entry.Version >= v.Answered
	return did != d.Entry.Event.Actor() && (did == v.Offerer || did == v.Offeree || assigned)
}

func (s *server) deliver(r outbound) {
	c := s.channels[r.d.View.Venue]
	if c == nil {
		return
	}
	ev := r.d.Entry.Event
	m := s.stepMessage(ev, c.name, r.name)
	for in, tags := range r.forms {
		m.tags = tags
		s.spread(m, func(yield func(*user) bool) {
			for u := range c.members {
				if s.receivesInChannel(u, r.d) && u.caps.reads(ev.Dialect) == in && u.seen.Add(m.msgid) && !yield(u) {
					return
				}
			}
		})
	}
	if r.line != "" {
		s.spread(m.inWords(ev.Handoff, r.line), r.readers(c))
	}
}

// A client that reads its inbox as lines may already have the readable line.
func (r outbound) readers(c *channel) iter.Seq[*user] {
	ev := r.d.Entry.Event
	return func(yield func(*user) bool) {
		for u := range c.members {
			asLine := u.replay != nil && u.caps.reads(ev.Dialect) == ""
			if (!asLine || u.seen.Add(ev.WireID()+irc.LineSuffix)) && !yield(u) {
				return
			}
		}
	}
}

func (s *server) stepMessage(ev federation.Event, target, name string) message {
	m := s.by(newMessage(s.speaker(ev.Actor(), name), "TAGMSG", target), ev.Actor(), ev.Arrival, ev.Provenance == federation.Signed || ev.Arrival.Home == "")
	m.msgid, m.at = ev.WireID(), ev.ShownAt()
	return m
}

func (m message) inWords(handoff federation.HandoffID, text string) message {
	line := textMessage(m.source, "NOTICE", m.params[0], text)
	line.account, line.did, line.at, line.msgid = m.account, m.did, m.at, m.msgid+irc.LineSuffix
	line.tags = map[string]string{irc.RefTag: handoff.String()}
	return line
}

// Present implements [bridge.MembershipLink].
func (l *Link) Present(_ context.Context, venue string, did federation.DID) bool {
	s := l.live.Load()
	if s == nil {
		return false
	}
	present := func() bool {
		c := s.channels[venue]
		for u := range s.accounts[did] {
			if c != nil && c.members[u] != nil {
				return true
			}
		}
		return false
	}
	here := make(chan bool, 1)
	return s.ask(func() { here <- present() }) && <-here
}

// Online implements [bridge.ChannelLink].
func (l *Link) Online(_ context.Context, b federation.Binding) bool {
	s := l.live.Load()
	if s == nil {
		return false
	}
	here := make(chan bool, 1)
	return s.ask(func() { here <- len(s.accounts[b.DID]) > 0 }) && <-here
}
