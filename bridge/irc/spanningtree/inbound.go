package spanningtree

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/ergochat/irc-go/ircmsg"

	"baton/federation"
	"baton/translate"
	"baton/translate/handofftag"
)

// firstAsk and lastAsk bound the wait before a step is submitted again that the
// gateway could not take: it doubles from one to the other.
const (
	firstAsk = 100 * time.Millisecond
	lastAsk  = 5 * time.Second
)

// inbound is one step of a user.
type inbound struct {
	user string // UUID
	ev   federation.Event
}

// refusal is the error that became of a step.
type refusal struct {
	user string // UUID
	err  error
}

// onMessage reads a step, if the message is one, and queues it for the judge.
func (s *session) onMessage(ctx context.Context, m ircmsg.Message) error {
	nick, isUser := s.net.users[m.Source]
	if !isUser || len(m.ClientOnlyTags()) == 0 {
		return nil
	}
	ev, err := s.decode(m)
	if errors.Is(err, translate.ErrNotHandoff) {
		return nil
	}
	if err != nil {
		s.refuse(ctx, m.Source, err)
		return nil
	}
	_, msgid := m.GetTag("msgid")
	ev.Arrival = federation.Arrival{
		Network: network, Link: s.link.cfg.Name, Name: nick, MessageID: msgid, Received: time.Now(),
	}
	s.waiting = &inbound{user: m.Source, ev: ev}
	return nil
}

// decode reads a step and holds it to what this network can vouch for: the place,
// and nobody's identity.
func (s *session) decode(m ircmsg.Message) (federation.Event, error) {
	ev, err := s.codec.Decode(handofftag.Message{Command: m.Command, Target: m.Params[0], Tags: m.AllTags()})
	switch {
	case err != nil:
		return federation.Event{}, err
	case s.net.channels[ev.Venue] == nil:
		return federation.Event{}, federation.Refuse(ev, federation.InvalidTarget, "")
	case ev.From == "":
		return federation.Event{}, federation.Refuse(ev, federation.MissingRequirement, "+freeq.at/handoff-from")
	}
	return ev, nil
}

// takeTagless acts on a message whose tags could not be read. Without them it is
// no step; whoever may have meant one is told.
func (s *session) takeTagless(ctx context.Context, m ircmsg.Message) error {
	switch m.Command {
	case "TAGMSG", "PRIVMSG", "NOTICE":
	default:
		return s.dispatch(ctx, m)
	}
	if _, isUser := s.net.users[m.Source]; !isUser || len(m.Params) == 0 {
		return nil
	}
	if venue, _ := handofftag.Venue(m.Params[0]); s.net.channels[venue] != nil {
		s.tell(ctx, refusal{user: m.Source, err: errUnreadableTags})
	}
	return nil
}

// judge submits steps until there are no more, one at a time: those of one user,
// and of one handoff, keep their order.
func (s *session) judge(ctx context.Context) {
	submitting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(judgeGrace, cancel) })
	defer stop()
	for in := range s.steps {
		err := s.submit(submitting, in.ev)
		if err == nil {
			continue
		}
		select {
		case s.refusals <- refusal{user: in.user, err: err}:
		case <-s.over: // with nobody left to tell; the gateway logged it
		}
	}
}

// submit asks the gateway until it has an answer. A not-now has no words on IRC:
// the step is kept here, and with it all that came after.
func (s *session) submit(ctx context.Context, ev federation.Event) error {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval, waits.Multiplier = firstAsk, lastAsk, 2
	ask := func() (federation.Judgement, error) {
		judged, err := s.link.ports.Gateway.Submit(ctx, ev)
		_, notNow := errors.AsType[*federation.UnavailableError](err)
		if _, refused := errors.AsType[*federation.RefusalError](err); err != nil && (refused || !notNow) {
			return judged, backoff.Permanent(err)
		}
		return judged, err
	}
	_, err := backoff.Retry(ctx, ask, backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, next time.Duration) {
			s.log.LogAttrs(ctx, slog.LevelWarn, "step waits", slog.String("event_id", ev.ID.String()),
				slog.String("handoff_id", ev.Handoff.String()), slog.Any("err", err), slog.Duration("next", next))
		}))
	return err
}
