package freeq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/bridge/irc"
	"baton/federation"
	"baton/federation/signing"
)

// maxSteps bounds the steps of a link that are judged or wait for it, at some 10 KiB
// each. What comes above it is fetched again.
const maxSteps = 4096

// inbound is one step of theirs on its way to the gateway, or a command of one of theirs.
type inbound struct {
	command *irc.Command // nil for a step

	ev     federation.Event
	to     federation.DID // of a private step: the user of ours it was sent to
	routed bool           // it came as act_route
	minted bool           // of a handoff that this gateway opened, they say
	replay bool           // it came from the log of their server
}

// judged is what became of a step.
type judged struct {
	step   *inbound
	lines  []string // the reply to a command
	answer federation.Judgement
	err    error
}

// lanes are one for each handoff.
type lanes = irc.Lanes[*inbound, federation.HandoffID]

func newLanes() *lanes {
	return irc.NewLanes(maxSteps, func(in *inbound) federation.HandoffID { return in.ev.Handoff })
}

// replaying reports whether steps of a log are judged, or wait for it.
func (s *session) replaying() bool {
	for in := range s.lanes.All() {
		if in.replay {
			return true
		}
	}
	return false
}

// judgeAll starts to judge all steps that can be.
func (s *session) judgeAll() {
	for in, ok := s.lanes.Next(); ok; in, ok = s.lanes.Next() {
		s.running.Go(func() {
			if in.command != nil {
				s.judged <- s.receive(in)
				return
			}
			answer, err := s.submit(in)
			s.judged <- judged{step: in, answer: answer, err: err}
		})
	}
}

// receive runs a command.
func (s *session) receive(in *inbound) judged {
	j := judged{step: in}
	_, j.err = s.slots.Do(s.submitting, func(ctx context.Context) (federation.Judgement, error) {
		j.lines = s.link.chatops.Run(ctx, *in.command, time.Now())
		return federation.Judgement{}, nil
	})
	return j
}

// settle judges the steps that are left after the connection has ended; no user is told. It
// looks up no key: a step whose key is not at hand waits in the record.
func (s *session) settle() {
	for !s.lanes.Empty() {
		s.judgeAll()
		select {
		case j := <-s.judged:
			s.lanes.Finish(j.step)
		case do := <-s.todo:
			do()
		}
	}
}

// note takes in what became of a step.
func (s *session) note(ctx context.Context, j judged) {
	s.lanes.Finish(j.step)
	refused, _ := errors.AsType[*federation.RefusalError](j.err)
	switch {
	case j.step.command != nil:
		s.reply(j.step.command.Nick, j.lines)
	case early(ctx, j.step, refused):
		s.park(j.step)
	case refused != nil && refused.Waits: // the gateway has it, and judges it again by itself
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

// submit asks the gateway until it has an answer, once the key of the step is there. It
// takes a slot only then.
func (s *session) submit(in *inbound) (federation.Judgement, error) {
	s.link.deps.Gateway.FetchKey(s.asking, in.ev)
	return irc.Insist(s.submitting, s.log, s.slots, in.ev, func(ctx context.Context) (federation.Judgement, error) { return s.submitOnce(ctx, in) })
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
	if s.link.rendered(ev) {
		return s.echo(ctx, ev, view)
	}
	if ev.Venue == "" {
		if ev.Venue, err = s.privateVenue(ctx, in, view); err != nil {
			return federation.Judgement{}, err
		}
		if s.link.introduces(view) && ev.Venue != view.Venue {
			ev.Arrival.Place = federation.Place{Venue: view.Venue}
		}
	}
	return d.Gateway.Submit(ctx, ev)
}

// rendered reports whether a step is one that this gateway has written: its evidence is
// here. It is on record as what it was made of, which is another document, so that the
// gateway would take it for another step under the same id.
func (l *Link) rendered(ev federation.Event) bool {
	return federation.IsBelow(ev.Fields["act-src"], l.deps.PublicURL, signing.EvidencePath)
}

// echo answers a step of our own users with what is on file of it.
func (s *session) echo(ctx context.Context, ev federation.Event, v federation.View) (federation.Judgement, error) {
	entry, err := s.link.deps.Filed(ctx, ev.Handoff, ev.ID)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return federation.Judgement{}, errEcho // it waits for its home, or is none of ours at all
	case err != nil:
		return federation.Judgement{}, fmt.Errorf("look up step %s: %w", ev.ID, err)
	}
	return federation.Judgement{Verdict: federation.Valid, Entry: entry, View: v, Duplicate: true}, nil
}

// privateVenue returns the venue of a step that was not sent to a channel: the pair
// that its handoff is between, which the signature covers.
func (s *session) privateVenue(ctx context.Context, in *inbound, v federation.View) (string, error) {
	venue := s.link.place(ctx, v)
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
	if !s.link.deps.Ours(ctx, other) {
		return "", errNotOurs
	}
	return federation.PrivateVenue(in.ev.From, other), nil
}
