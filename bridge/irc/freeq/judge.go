package freeq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"baton/federation"
)

// firstAsk and lastAsk bound the wait before a step is submitted again that the
// gateway could not take: it doubles from one to the other.
const (
	firstAsk = 100 * time.Millisecond
	lastAsk  = 5 * time.Second
)

// Bounds of the steps that are judged or wait for it.
const (
	maxSteps  = 4096 // of a link, at some 10 KiB each; what comes above it is fetched again
	maxJudges = 16   // at a time: enough for their commits to share an fsync
)

// judgeGrace bounds how long steps that were already read are still submitted after
// ctx ended. A record that takes commits at all needs far less.
const judgeGrace = 5 * time.Second

// inbound is one step of theirs on its way to the gateway.
type inbound struct {
	ev      federation.Event
	to      federation.DID // of a private step: the user of ours it was sent to
	routed  bool           // it came as act_route
	minted  bool           // of a handoff that this gateway opened, they say
	replay  bool           // it came from the log of their server
	judging bool
}

// judged is what became of a step.
type judged struct {
	step   *inbound
	answer federation.Judgement
	err    error
}

// lanes are the steps of a link that are judged or wait for it, in the order in
// which they came. Those of one handoff are judged one after the other, and those of
// different ones side by side, so that a key that takes long to find holds up
// nothing else.
type lanes struct {
	steps   []*inbound
	judging int // how many of them are being judged
}

// full reports whether there is room for no more.
func (l *lanes) full() bool { return len(l.steps) >= maxSteps }

// replaying reports whether steps of a log are among them.
func (l *lanes) replaying() bool {
	return slices.ContainsFunc(l.steps, func(in *inbound) bool { return in.replay })
}

// add puts a step at the end.
func (l *lanes) add(in *inbound) { l.steps = append(l.steps, in) }

// next returns a step that can be judged now, or nil.
func (l *lanes) next() *inbound {
	if l.judging >= maxJudges {
		return nil
	}
	busy := map[federation.HandoffID]bool{}
	for _, in := range l.steps {
		if !in.judging && !busy[in.ev.Handoff] {
			in.judging = true
			l.judging++
			return in
		}
		busy[in.ev.Handoff] = true
	}
	return nil
}

// finish takes out a step that was judged.
func (l *lanes) finish(in *inbound) {
	l.judging--
	l.steps = slices.DeleteFunc(l.steps, func(each *inbound) bool { return each == in })
}

// judgeAll starts to judge all steps that can be.
func (s *session) judgeAll() {
	for in := s.lanes.next(); in != nil; in = s.lanes.next() {
		s.running.Go(func() {
			answer, err := s.submit(s.submitting, in)
			s.judged <- judged{step: in, answer: answer, err: err}
		})
	}
}

// settle judges what is left after the connection has ended, with nobody to tell.
func (s *session) settle() {
	for len(s.lanes.steps) > 0 {
		s.judgeAll()
		j := <-s.judged
		s.lanes.finish(j.step)
	}
}

// note takes in what became of a step.
func (s *session) note(ctx context.Context, j judged) {
	s.lanes.finish(j.step)
	refused, _ := errors.AsType[*federation.RefusalError](j.err)
	switch {
	case early(ctx, j.step, refused):
		s.park(j.step)
	case j.err != nil:
		if refused != nil && refused.Code == federation.SignatureUnverifiable {
			s.lackKey(j.step)
		}
		s.refuse(ctx, j.step, j.err)
	case j.answer.Duplicate:
		s.repeat(ctx, j)
	default:
		s.unpark(j.step.ev.ID)
	}
	if s.catchup != nil {
		s.turn(ctx)
	}
}

// submit asks the gateway until it has an answer. A not-now has no words on this
// wire: the step is kept here, and with it all that came after in its handoff.
func (s *session) submit(ctx context.Context, in *inbound) (federation.Judgement, error) {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval, waits.Multiplier = firstAsk, lastAsk, 2
	once := func() (federation.Judgement, error) {
		answer, err := s.submitOnce(ctx, in)
		_, notNow := errors.AsType[*federation.UnavailableError](err)
		if _, refused := errors.AsType[*federation.RefusalError](err); err != nil && (refused || !notNow) {
			return answer, backoff.Permanent(err) // also where a key that cannot be had now is the reason
		}
		return answer, err
	}
	return backoff.Retry(ctx, once, backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, next time.Duration) {
			s.log.LogAttrs(ctx, slog.LevelWarn, "step waits", slog.String("event_id", in.ev.ID.String()),
				slog.String("handoff_id", in.ev.Handoff.String()), slog.Any("err", err), slog.Duration("next", next))
		}))
}

// submitOnce asks the gateway once. What needs the record is read here, because the
// owner must not wait for it.
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
	if ev.Venue == "" {
		if ev.Venue, err = s.privateVenue(ctx, in, view); err != nil {
			return federation.Judgement{}, err
		}
	}
	return d.Gateway.Submit(ctx, ev)
}

// privateVenue returns the venue of a step that was not sent to a channel: the pair
// that its handoff is between, which the signature covers.
func (s *session) privateVenue(ctx context.Context, in *inbound, v federation.View) (string, error) {
	venue := s.link.place(v)
	switch {
	case v.Exists() && federation.Private(venue) && s.link.writes(v):
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
	if !s.link.deps.Ours(ctx, other) {
		return "", errNotOurs
	}
	return federation.PrivateVenue(in.ev.From, other), nil
}
