package freeq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/acttag"
)

// A step takes some 10 KiB. Excess steps are fetched again later.
const maxSteps = 4096

type inbound struct {
	command *irc.Command // nil for a step
	words   *irc.Words   // private text; nil for a step
	chat    *irc.Chat    // nil for a step

	ev     federation.Event
	to     federation.DID // our user: the recipient of a private step
	routed bool
	minted bool      // according to the peer, this gateway opened the handoff
	replay bool      // from the server's log
	at     time.Time // zero for a live step

	wait time.Duration // for a receipt that arrived before its step
	due  time.Time
}

func (s *session) replaying() bool {
	for in := range s.Steps.All() {
		if in.replay {
			return true
		}
	}
	return false
}

// The owner calls the returned function.
func (s *session) process(ctx context.Context, in *inbound) (note func()) {
	if in.command != nil {
		text := s.Execute(s.link.chatops, *in.command)
		return func() { s.reply(in.command.Nick, text); s.turn(ctx) }
	}
	if in.words != nil {
		return s.speak(ctx, in)
	}
	if in.chat != nil {
		return s.relay(ctx, in)
	}
	answer, err := s.Submit(in.ev, func(ctx context.Context) (federation.Judgement, error) { return s.submitOnce(ctx, in) })
	return func() { s.record(ctx, in, answer, err); s.turn(ctx) }
}

func (s *session) record(ctx context.Context, in *inbound, answer federation.Judgement, err error) {
	refused, _ := errors.AsType[*federation.RefusalError](err)
	if err == nil {
		s.processed.Add(in.ev.ID.String())
	}
	switch {
	case early(ctx, in, refused):
		s.holdReceipt(in)
	case s.overtook(in, refused):
		s.limited.observe(time.Now(), time.Now(), firstLimitWait)
		s.refuse(ctx, in, err)
	case refused != nil && refused.Waits: // stored, and judged again later
	case err != nil:
		if refused != nil && refused.Code == federation.SignatureUnverifiable {
			s.lackKey(in)
		}
		s.refuse(ctx, in, err)
	case answer.Duplicate:
		s.repeat(ctx, in, answer)
	default:
		s.retryReceipts(in.ev.ID)
	}
}

// The offer of a new handoff may come over the link to another server, after a live step.
func (s *session) overtook(in *inbound, refused *federation.RefusalError) bool {
	return refused != nil && refused.Code == federation.UnknownHandoff && !in.replay && time.Since(in.ev.Handoff.Time()).Abs() < clockMargin
}

// submitOnce reads the record here, because the owner must not wait for it.
func (s *session) submitOnce(ctx context.Context, in *inbound) (federation.Judgement, error) {
	d := s.link.deps
	view, err := d.Gateway.View(ctx, in.ev.Handoff)
	if err != nil {
		return federation.Judgement{}, fmt.Errorf("read handoff %s: %w", in.ev.Handoff, err)
	}
	if in.minted && !view.Exists() {
		return federation.Judgement{}, federation.Refuse(in.ev, federation.UnknownHandoff, "it was not opened here")
	}
	ev := in.ev
	if s.link.rendered(ev) {
		return s.echo(ctx, ev, view)
	}
	if ev.Venue == "" {
		if ev.Venue, err = s.privateVenue(ctx, in, view); err != nil {
			return federation.Judgement{}, err
		}
		if s.link.introduces(view) && ev.Venue != view.Venue {
			ev.Arrival.Place = federation.ChannelRef{Venue: view.Venue}
		}
	}
	return d.Gateway.Submit(ctx, ev)
}

// The evidence shows whether this gateway rendered a step. The record has the original, which is a
// different document with the same ID.
func (l *Link) rendered(ev federation.Event) bool {
	return federation.IsBelow(ev.Fields["act-src"], l.deps.PublicURL, signing.EvidencePath)
}

func (s *session) echo(ctx context.Context, ev federation.Event, v federation.View) (federation.Judgement, error) {
	entry, err := s.link.deps.Record.Step(ctx, ev.Handoff, ev.ID)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return federation.Judgement{}, errEcho // pending a ruling of its home, or not ours at all
	case err != nil:
		return federation.Judgement{}, fmt.Errorf("look up step %s: %w", ev.ID, err)
	}
	return federation.Judgement{Verdict: federation.Valid, Entry: entry, View: v, Duplicate: true}, nil
}

// The venue is the pair of the handoff, which the signature covers.
func (s *session) privateVenue(ctx context.Context, in *inbound, v federation.View) (string, error) {
	venue, err := s.link.place(ctx, v)
	if err != nil {
		return "", err
	}
	written, err := s.link.writes(ctx, v)
	switch {
	case err != nil:
		return "", err
	case v.Exists() && federation.Private(venue) && written:
		return venue, nil
	case v.Exists():
		return "", federation.Refuse(in.ev, federation.WrongVenue, "")
	case in.ev.Verb != federation.Offer:
		return "", federation.Refuse(in.ev, federation.UnknownHandoff, "")
	}
	other := in.to
	if other == in.ev.From {
		other = in.ev.To // from a log, which names both
	}
	ours, err := s.link.deps.Rulings.Ours(ctx, other, s.link.cfg.Name)
	if err != nil {
		return "", err
	}
	if !ours {
		return "", errNotOurs
	}
	return federation.PrivateVenue(in.ev.From, other), nil
}

type arriving struct {
	target string
	nick   string
	tags   map[string]string
	routed bool
	replay bool
	at     time.Time // zero for a live step
	minted bool      // according to the peer's log, this gateway opened the handoff
}

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

// The nick is "" for a server, or if the nick belongs to another DID.
func (s *session) nameOf(from federation.DID, nick string) string {
	if from.Method() == "web" {
		return ""
	}
	if p := s.theirs.named(nick); p != nil && p.did != "" && p.did != from {
		return ""
	}
	return nick
}

// The peer cannot vouch for the identity of a user, but can vouch that a did:web belongs to a
// server.
func (s *session) decode(a arriving) (*inbound, error) {
	to, _, pair := federation.Parties(a.target) // as spelled in a log
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
		return in, federation.Refuse(ev, federation.ActorMismatch, "a did:web belongs to a server")
	case serverVerb(ev.Verb) != (ev.From == s.link.Home().DID()):
		return in, federation.Refuse(ev, federation.WrongSender, "")
	}
	return in, nil
}

func serverVerb(v federation.Verb) bool {
	return v == federation.Confirm || v == federation.Expire || v == "auto-accept"
}

// An excess step is fetched again later, so that reading never stops. A replayed step has already
// waited for the rate of the link.
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
	s.limited.observe(in.received(now), now, firstLimitWait)
	return false
}

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

// A server may send a receipt a fraction of a second before the step. A step from a user of another
// server arrives over another link.
const maxEarlyReceipts = 256

// The wait starts at one second and doubles.
const maxReceiptWait = time.Minute

func (s *session) holdReceipt(in *inbound) {
	if len(s.earlyReceipts) >= maxEarlyReceipts {
		s.earlyReceipts = slices.Delete(s.earlyReceipts, 0, 1)
	}
	in.wait = min(max(time.Second, 2*in.wait), maxReceiptWait)
	in.due = time.Now().Add(in.wait)
	s.earlyReceipts = append(s.earlyReceipts, in)
}

func (s *session) retryDueReceipts(now time.Time) {
	s.earlyReceipts = slices.DeleteFunc(s.earlyReceipts, func(in *inbound) bool {
		due := now.After(in.due)
		if due {
			s.Steps.Add(in)
		}
		return due
	})
}

func (s *session) retryReceipts(step federation.EventID) {
	s.earlyReceipts = slices.DeleteFunc(s.earlyReceipts, func(in *inbound) bool {
		fits := in.ev.Subject == step
		if fits {
			s.Steps.Add(in)
		}
		return fits
	})
}

func early(ctx context.Context, in *inbound, refused *federation.RefusalError) bool {
	return ctx.Err() == nil && in.ev.Verb == federation.Confirm && refused != nil &&
		(refused.Code == federation.WrongReference || refused.Code == federation.UnknownHandoff)
}
