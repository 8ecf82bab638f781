package freeq

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"baton/federation"
	"baton/translate"
	"baton/translate/acttag"
)

// arriving is a message with tags.
type arriving struct {
	target string
	nick   string
	tags   map[string]string
	routed bool
	replay bool      // from the log of their server
	at     time.Time // when that received it; zero of a live one
	minted bool      // of a handoff that this gateway opened, says that log
}

// onStep reads a step, if the message is one, and queues it for the judge.
func (s *session) onStep(ctx context.Context, a arriving) {
	in, err := s.decode(a)
	if errors.Is(err, translate.ErrNotHandoff) {
		return
	}
	if err != nil {
		s.refuse(ctx, in, err)
		return
	}
	if !s.allow(ctx, in) {
		return
	}
	in.ev.Arrival = federation.Arrival{
		Network: network, Link: s.link.cfg.Name, Home: s.link.Home(), Name: s.nameOf(in.ev.From, a.nick), Received: time.Now(),
		Place: s.link.channels.Place(in.ev.Venue),
	}
	s.Steps.Add(in)
}

// nameOf returns what the signer of a step is called there: "" for a server, and for
// a nick that belongs to another DID.
func (s *session) nameOf(from federation.DID, nick string) string {
	if from.Method() == "web" {
		return ""
	}
	if p := s.theirs.named(nick); p != nil && p.did != "" && p.did != from {
		return ""
	}
	return nick
}

// decode reads a step and checks what the peer can vouch for: no identity of a user, but
// that a did:web is a server's.
func (s *session) decode(a arriving) (*inbound, error) {
	to, _, pair := federation.Parties(a.target) // as a log spells it
	if !pair {
		to, _ = federation.ParseDID(a.target) // a server resolves no nick for a step
	}
	if to != "" {
		a.target = string(to)
	}
	ev, err := acttag.Codec{}.DecodeFromHome(translate.Tagged{Command: "TAGMSG", Target: a.target, Tags: a.tags})
	in := &inbound{ev: ev, to: to, routed: a.routed, minted: a.minted, replay: a.replay, at: a.at}
	if err != nil {
		return in, err
	}
	_, known := s.link.channels.In(ev.Venue)
	switch {
	case ev.From == s.link.deps.Home.DID():
		return in, errEcho
	case ev.Venue == "" && in.to == "":
		return in, federation.Refuse(ev, federation.InvalidTarget, "")
	case ev.Venue != "" && !known:
		return in, federation.Refuse(ev, federation.InvalidTarget, "")
	case ev.From == "":
		return in, federation.Refuse(ev, federation.MissingRequirement, "+freeq.at/from")
	case ev.From.Method() == "web" && ev.From != s.link.Home().DID():
		return in, federation.Refuse(ev, federation.ActorMismatch, "a did:web is a server's")
	case serverVerb(ev.Verb) != (ev.From == s.link.Home().DID()):
		return in, federation.Refuse(ev, federation.WrongSender, "")
	}
	return in, nil
}

// serverVerb tells which steps are a home's own.
func serverVerb(v federation.Verb) bool {
	return v == federation.Confirm || v == federation.Expire || v == "auto-accept"
}

// allow counts one step of a user, against its own rate and that of the link. A step that
// meets a limit is fetched again later: reading never stops. A replayed step waited for the
// rate of the link before.
func (s *session) allow(ctx context.Context, in *inbound) bool {
	now := time.Now()
	ok := in.replay || !s.Steps.Full() && s.rate(now)
	if p := s.theirs.dids[in.ev.From]; ok && p != nil {
		ok, _ = p.meter.Take(s.link.deps.Limits.Current().UserEventsPerMinute, now)
	}
	if ok {
		return true
	}
	s.link.deps.Metrics.Limited.WithLabelValues(network).Inc()
	if s.limited.since.IsZero() {
		s.log.LogAttrs(ctx, slog.LevelWarn, "too many steps at once: they are fetched again")
	}
	s.limited.note(in.received(now), now, firstLimitWait)
	return false
}

// rate counts one step of the link.
func (s *session) rate(now time.Time) bool {
	perSecond := s.link.deps.Limits.Current().LinkEventsPerSecond
	if perSecond <= 0 {
		return true
	}
	if s.events == nil || s.events.Burst() != perSecond {
		s.events = rate.NewLimiter(rate.Limit(perSecond), perSecond)
	}
	return s.events.AllowN(now, 1)
}
