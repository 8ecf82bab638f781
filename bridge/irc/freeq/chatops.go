package freeq

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

func (s *session) toSelf(m *wireMessage) bool {
	self := s.link.roster.Self.Nick
	return self != "" && fold(m.Target) == fold(self)
}

// A user without a login gets no reply. Another gateway's own user gets none either, because the
// two would answer each other forever.
func (s *session) onCommand(m *wireMessage) {
	from := s.theirs.named(m.From)
	if from == nil || from.did == "" || m.Text == "" || s.Steps.Full() {
		return
	}
	if ok, _ := from.meter.Take(s.link.deps.Limits.Current().UserEventsPerMinute, time.Now()); !ok {
		s.link.deps.Metrics.Limited.WithLabelValues(network).Inc()
		return
	}
	line, err := json.Marshal(m)
	if err != nil {
		return // it was parsed from JSON
	}
	s.Steps.Add(&inbound{command: &irc.Command{
		Text: m.Text, Line: string(line), Network: network, Link: s.link.cfg.Name,
		Nick: from.nick, Account: string(from.did), DID: from.did, Lookup: s.lookup,
	}})
}

// lookup returns "" for an unknown nick.
func (s *session) lookup(nick string) (did federation.DID, err error) {
	s.Do(func() {
		if p := s.theirs.named(nick); p != nil {
			did = p.did
		} else if p := s.link.named(nick); p != nil {
			did = p.DID
		}
	})
	return did, nil
}

// The network relays no NOTICE.
func (s *session) reply(to string, text []string) {
	user := s.theirs.named(to)
	if user == nil || s.queue.size() > maxWaiting {
		return
	}
	for _, text := range text {
		s.put(lines, &wireMessage{Type: typePrivmsg, From: s.self().Nick, Target: user.nick, Text: text, Tags: map[string]string{}})
	}
}

var _ bridge.Notifier = (*Link)(nil)

// Notify implements [bridge.Notifier] with a private line from the gateway's own user, because the
// network relays no NOTICE. It returns nil once the peer has read the line.
func (l *Link) Notify(ctx context.Context, n federation.Notice) error {
	reply, has := irc.NoticeReply(n)
	if !has {
		return nil
	}
	s := l.live.Load()
	if s == nil {
		return irc.Disconnected(l.cfg.Name)
	}
	r := &outbound{to: n.Reader(), notice: &reply, done: make(chan error, 1)}
	return irc.Pass(ctx, l.cfg.Name, s.rows, r, r.done, s.Over)
}

var errNoReader = errors.New("no user is logged in as the reader")

// The answer to a later probe proves a notice.
func (s *session) deliverNotice(r *outbound) {
	reader := s.theirs.dids[r.to]
	if reader == nil {
		r.answer(irc.Unavailable(s.link.cfg.Name, errNoReader))
		return
	}
	s.put(control, &wireMessage{
		Type: typePrivmsg, From: s.self().Nick, Target: reader.nick, Text: r.notice.Text(), Tags: map[string]string{irc.RefTag: r.notice.Ref},
	})
	s.probe(r)
}

const vendorPrefix = "+freeq.at/"

// A server sends every private message to all its peers.
var errNotOurs = errors.New("freeq: not addressed to a user of this gateway")

// A server repeats all its filed steps in response to a catch-up, and routes the steps of our own
// users back to us.
var errEcho = errors.New("freeq: sent by this gateway itself")

// Servers do not report refusals to each other.
//
// spec: freeq-s2s "Home, unconfirmed moves, receipts"
func (s *session) refuse(ctx context.Context, in *inbound, err error) {
	attrs := []slog.Attr{
		slog.String("event_id", in.ev.ID.String()), slog.String("handoff_id", in.ev.Handoff.String()), slog.Any("err", err),
	}
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	switch {
	case errors.Is(err, errNotOurs), errors.Is(err, errEcho), errors.Is(err, context.Canceled):
	case isRefusal:
		s.link.deps.Metrics.Refusals.WithLabelValues(network, code(refused.Code)).Inc()
		s.log.LogAttrs(ctx, slog.LevelInfo, "step refused", attrs...)
	default:
		s.log.LogAttrs(ctx, slog.LevelError, "step not judged", attrs...)
	}
}

// The code also labels the counter.
//
// spec: handofftag "The client's side"
func code(c federation.RefusalCode) string {
	switch c {
	case federation.NeedSignature:
		return "SIGNATURE_REQUIRED"
	case federation.UnknownHandoff:
		return "UNKNOWN_TASK"
	case federation.TerminalHandoff:
		return "TERMINAL_TASK"
	case federation.InvalidContext, federation.WrongReference, federation.InvalidTag:
		return federation.InvalidTarget.Upper()
	case federation.DuplicateTag:
		return federation.MixedTags.Upper()
	case federation.QuotaExceeded, federation.InboxFull:
		return federation.RateLimited.Upper()
	case federation.SignatureInvalid, federation.SignatureUnverifiable, federation.AccountRequired, federation.ActorMismatch, federation.WrongSender,
		federation.UnknownVerb, federation.IllegalStep, federation.DeadlinePassed, federation.EventIDInUse,
		federation.InvalidEventID, federation.EventIDClockSkew, federation.InvalidTarget, federation.MissingRequirement,
		federation.WrongVenue, federation.MixedTags, federation.UnknownKind, federation.MissingCapability, federation.RateLimited,
		federation.ReplacesNotTerminal, federation.PolicyDenied:
	}
	return c.Upper()
}
